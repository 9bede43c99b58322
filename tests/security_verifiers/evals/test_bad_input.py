"""Run folders that were cut, edited or mixed up: one message with file and line, or the same numbers."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sv_shared.environment
from security_verifiers.evals.artifacts import METADATA
from security_verifiers.evals.results import RESULTS, Expected, Results
from security_verifiers.evals.stored import find_runs, load_run, run_results
from sv_shared.errors import ArtifactError, SVError
from sv_shared.storage import Storage, fingerprint
from sv_test_quick import QUICK

from .conftest import Play
from .doubles import Double, follow

Tree = dict[str, Any]
Change = Callable[[Tree], Any]
CONFIG = {"rows": 12, "scripts": ["right", "wrong", "abstain", "garbage", "refuse", "poison"]}
SCORED, FLOORED = 1, 4
"""Lines, from 1, of a decision and of a reply that is no answer."""


@pytest.fixture(scope="module", autouse=True)
def _installed() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sv_shared.environment, "installed", lambda: {"quick": QUICK})
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of twelve rollouts of a model that counts its tokens, its lines by task id.

    Without the hash of its lines, which would hide whether anything else finds an edit.
    """
    run = Play()(QUICK, Double(follow), tmp_path_factory.mktemp("whole"), config=CONFIG)
    path = run.folder / RESULTS
    lines = sorted(map(json.loads, path.read_text().splitlines()), key=lambda line: int(line["task_id"][4:]))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    metadata = json.loads((run.folder / METADATA).read_text())
    assert metadata.pop("results_sha256")
    (run.folder / METADATA).write_text(json.dumps(metadata))
    return run.folder


@pytest.fixture(scope="module")
def good(whole: Path) -> Mapping[str, Any]:
    """The summary of the whole run."""
    return load_run(whole).summary


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of the run to break."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def put(path: str, value: Any) -> Change:
    """Sets what stands at a dotted path."""

    def change(tree: Tree) -> None:
        *before, last = path.split(".")
        for name in before:
            tree = tree[name]
        tree[last] = value

    return change


def drop(path: str) -> Change:
    """Takes away what stands at a dotted path."""

    def change(tree: Tree) -> None:
        *before, last = path.split(".")
        for name in before:
            tree = tree[name]
        del tree[last]

    return change


def edit_line(folder: Path, number: int, change: Change) -> None:
    """Change line `number` (from 1) by hand; 1e999 stands for itself."""
    lines = (folder / RESULTS).read_text().splitlines()
    line = json.loads(lines[number - 1])
    change(line)
    lines[number - 1] = json.dumps(line).replace("Infinity", "1e999")
    (folder / RESULTS).write_text("".join(f"{line}\n" for line in lines))


def edit_metadata(folder: Path, change: Change) -> None:
    """Change metadata.json by hand."""
    metadata = json.loads((folder / METADATA).read_text())
    change(metadata)
    (folder / METADATA).write_text(json.dumps(metadata).replace("Infinity", "1e999"))


INF = float("inf")
LINES: dict[str, tuple[Change, str]] = {
    "reward of text": (put("reward", "0.5"), "'reward' can't be \"0.5\""),
    "reward true": (put("reward", True), "'reward' can't be true"),
    "reward NaN": (put("reward", float("nan")), "NaN is not JSON"),
    "reward 1e999": (put("reward", INF), "components that add up to"),
    "reward changed": (put("reward", 1.2), "a reward of 1.2, but components that add up to"),
    "huge reward": (lambda line: line.update(reward=1e30, components={"a": 1e30}), '"a" can\'t be 1e+30'),
    "reward out of range": (lambda line: line.update(reward=2, components={"a": 2}), "range -4 to 1.5"),
    "component true": (put("components.accuracy", True), '"accuracy" can\'t be true'),
    "component of text": (put("components.accuracy", "1"), '"accuracy" can\'t be "1"'),
    "component gone": (drop("components.accuracy"), "components that add up to"),
    "metric null": (put("metrics.correct", None), '"correct" can\'t be null: only a number'),
    "metric of text": (put("metrics.correct", "1"), '"correct" can\'t be "1"'),
    "metric 1e999": (put("metrics.correct", INF), '"correct" can\'t be Infinity'),
    "huge metric": (put("metrics.correct", -(10**400)), '"correct" can\'t be -1000'),
    "metric of half a pair": (put("metrics.\ud800", 1), 'the name "\\ud800" holds'),
    "tier with NUL": (put("difficulty", "easy\0"), 'the name "easy\\u0000" holds'),
    "cluster of number": (put("cluster", 3), "'cluster' can't be 3"),
    "seed of another run": (put("key.seed", 43), "a result of seed 43; the run's seed is 42"),
    "seed true": (put("key.seed", True), "without a key of task, sample and seed"),
    "sample true": (put("key.sample", True), "without a key of task, sample and seed"),
    "negative sample": (put("key.sample", -1), "without a key of task, sample and seed"),
    "sample beyond": (put("key.sample", 1), "sample 1 of 1 samples"),
    "huge sample": (put("key.sample", 10**40), "without a key of task, sample and seed"),
    "version 2": (put("schema_version", 2), "schema version 2; this version reads 1"),
    "version of text": (put("schema_version", "1"), 'schema version "1"; this version reads 1'),
    "version true": (put("schema_version", True), "schema version true; this version reads 1"),
    "version 1.0": (put("schema_version", 1.0), "schema version 1.0; this version reads 1"),
    "unknown outcome": (put("outcome", "won"), 'there is no outcome "won"'),
    "outcome of a list": (put("outcome", ["scored"]), "'outcome' can't be a list of 1"),
    "flags of numbers": (put("flags", [1]), "'flags' must be a list of words"),
    "no tokens": (drop("seats.agent.tokens"), 'seat "agent" without tokens'),
    "tokens gone": (drop("seats.agent.tokens.cached"), 'seat "agent" without tokens'),
    "more tokens": (put("seats.agent.tokens.other", 1), 'seat "agent" without tokens'),
    "negative tokens": (put("seats.agent.tokens.prompt", -10), "prompt tokens can't be -10"),
    "half tokens": (put("seats.agent.tokens.prompt", 1.5), "prompt tokens can't be 1.5"),
    "tokens true": (put("seats.agent.tokens.prompt", True), "prompt tokens can't be true"),
    "huge tokens": (put("seats.agent.tokens.prompt", 10**30), "prompt tokens can't be 1000000"),
    "seat of text": (put("seats.agent", "double"), 'seat "agent" without a model'),
    "another player": (put("seats.agent.model", "gpt"), '"gpt" in seat "agent"; the run has double'),
    "another seat": (lambda line: line["seats"].update(keeper=line["seats"]["agent"]), "nobody there"),
    "no seat": (put("seats", {}), 'seat "agent", which is not in \'seats\''),
    "truth of number": (put("truth", 1), "the truth can't be 1"),
    "truth null": (put("truth", None), "the truth can't be null"),
    "label gone": (drop("parsed.label"), "the label can't be null"),
    "label turned": (put("parsed.label", "Safe"), "contradict each other"),
    "confidence gone": (drop("parsed.confidence"), "confidence null"),
    "confidence null": (put("parsed.confidence", None), "confidence null"),
    "confidence above 1": (put("parsed.confidence", 1.5), "confidence 1.5, which must be"),
    "confidence true": (put("parsed.confidence", True), "confidence true"),
    "probability below 0": (put("parsed.p_positive", -0.1), "p_positive -0.1"),
    "nothing parsed": (put("parsed", {}), "the label can't be null"),
    "null parsed": (put("parsed", None), "a scored answer that is nowhere"),
    "error with metrics": (
        lambda line: line.update(outcome="infra_error", reward=None, components={}),
        "components or metrics with outcome infra_error",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_an_edited_line_is_named_and_can_be_left_out(folder: Path, name: str) -> None:
    change, told = LINES[name]
    edit_line(folder, SCORED, change)
    with pytest.raises(ArtifactError) as refused:
        load_run(folder)
    assert told in refused.value.what
    assert refused.value.where == f"{folder / RESULTS}:{SCORED}"
    assert "--allow-partial" in refused.value.hint or "version" in refused.value.hint
    run = load_run(folder, allow_partial=True)
    assert (run.summary["missing"], run.summary["reward"]["n"]) == (1, 11)
    assert run.summary["partial"]["lines_left_out"] == 1
    assert told in run.summary["partial"]["problems"][0]
    assert len(run_results(run)) == 11


BYTES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "not UTF-8": (lambda raw: raw.replace(b"risky", b"risk\xff", 1), "can't decode byte 0xff"),
    "surrogate in UTF-8": (lambda raw: raw.replace(b"risky", b"\xed\xa0\x80", 1), "can't decode byte 0xed"),
    "UTF-16": (lambda raw: raw.decode().encode("utf-16-le"), "not JSON"),
    "mark": (lambda raw: b"\xef\xbb\xbf" + raw, "not JSON: a byte order mark"),
    "CR LF": (lambda raw: raw.replace(b"\n", b"\r\n"), "ends in CR LF"),
    "blank": (lambda raw: b"\n" + raw, "a blank line"),
    "spaces": (lambda raw: b"  \t\n" + raw, "a blank line"),
    "NUL": (lambda raw: raw.replace(b"risky", b"ri\0ky", 1), "Invalid control character"),
    "zeros": (lambda raw: b"\0" * len(raw), "is cut off"),
    "deep": (lambda raw: b"[" * 100_000 + b"]" * 100_000 + b"\n", "nested too deeply"),
    "deep truth": (lambda raw: raw.replace(b'"Risky"', b"[" * 99_999, 1), "nested too deeply"),
    "long integer": (lambda raw: raw.replace(b'"sample": ', b'"sample": ' + b"9" * 5000, 1), "not JSON"),
    "half a line": (lambda raw: raw[:200] + b"\n", "not JSON"),
    "two in one": (lambda raw: raw[:-1] + raw, "Extra data"),
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES)
def test_damaged_bytes_are_named_by_line(folder: Path, name: str) -> None:
    damage, told = BYTES[name]
    path = folder / RESULTS
    first, *others = path.read_bytes().splitlines(keepends=True)
    rest = b"" if name == "zeros" else b"".join(others)
    path.write_bytes(damage(first) + rest)
    with pytest.raises(ArtifactError) as refused:
        load_run(folder)
    assert told in refused.value.what
    assert refused.value.where == f"{path}:1"
    assert refused.value.hint


@pytest.mark.parametrize("kept", ["", "config.toml", RESULTS, METADATA])
def test_a_folder_that_lacks_files_is_named(folder: Path, kept: str) -> None:
    for path in folder.iterdir():
        if path.name != kept:
            path.unlink()
    with pytest.raises(ArtifactError) as refused:
        load_run(find_runs(folder)[0], allow_partial=True)
    assert refused.value.where.startswith(str(folder))
    assert refused.value.hint


def test_a_run_without_its_metadata_is_not_passed_over(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "second")
    (folder / METADATA).unlink()
    assert find_runs(tmp_path) == [folder, tmp_path / "second"]


def test_an_empty_run_has_no_numbers(folder: Path) -> None:
    (folder / RESULTS).write_text("")
    for allow_partial in (False, True):
        with pytest.raises(ArtifactError, match=r"no results .*results\.jsonl.*sv eval --resume"):
            load_run(folder, allow_partial)
    (folder / RESULTS).write_text("{}\n")
    with pytest.raises(ArtifactError, match=r"no result line is sound; the first, results\.jsonl:1: schema"):
        load_run(folder, allow_partial=True)


def test_lines_of_another_dataset_are_told_from_the_hash(folder: Path, tmp_path: Path) -> None:
    other = Play()(QUICK, Double(follow), tmp_path / "other", config=CONFIG | {"salt": "!"}).folder
    shutil.copy(other / RESULTS, folder / RESULTS)
    with pytest.raises(ArtifactError, match="not those of the run's data"):
        load_run(folder, allow_partial=True)
    edit_line(folder, 1, put("key.task", "0" * 64))
    (folder / RESULTS).write_text((folder / RESULTS).read_text() + (other / RESULTS).read_text())
    with pytest.raises(ArtifactError, match="one more than the 12 that were planned"):
        load_run(folder, allow_partial=True)


def test_of_two_lines_with_one_key_the_first_stands(folder: Path, whole: Path) -> None:
    with (folder / RESULTS).open("a") as file:
        line = json.loads((folder / RESULTS).read_text().splitlines()[SCORED - 1])
        file.write(json.dumps(line | {"cluster": "elsewhere"}) + "\n")
    with pytest.raises(ArtifactError, match="stands twice, first in line 1"):
        load_run(folder)
    run = load_run(folder, allow_partial=True)
    assert run.summary | {"partial": None} == load_run(whole).summary
    assert run.summary["partial"]["problems"][0].startswith(f"{RESULTS}:13: task ")


def test_the_summary_lists_ten_problems(folder: Path) -> None:
    lines = (folder / RESULTS).read_text().splitlines(keepends=True)
    (folder / RESULTS).write_text("".join(["{}\n"] * 14 + lines[:5]) + lines[5][:-9])
    run = load_run(folder, allow_partial=True)
    assert run.summary["partial"]["lines_left_out"] == 15
    assert len(run.summary["partial"]["problems"]) == 10
    assert (run.summary["missing"], run.summary["invalid"]) == (7, True)
    problems = Results(run.folder, allow_partial=True).problems
    assert problems[-1].where == f"{RESULTS}:20"
    assert "is cut off after" in problems[-1].what


@pytest.mark.parametrize("status", ["running", "aborted"])
def test_a_run_that_did_not_end_is_read_only_when_allowed(folder: Path, status: str) -> None:
    lines = (folder / RESULTS).read_text().splitlines(keepends=True)
    (folder / RESULTS).write_text("".join(lines[:9]))
    edit_metadata(folder, lambda metadata: metadata.update(status=status, counts={}, tokens={}))
    with pytest.raises(ArtifactError, match="9 of 12 rollouts are on file"):
        load_run(folder)
    summary = load_run(folder, allow_partial=True).summary
    assert (summary["missing"], summary["invalid"], summary["reward"]["n"]) == (3, True, 9)
    assert summary["partial"]["problems"][0].startswith(METADATA)


@pytest.mark.parametrize("storage", list(Storage))
def test_every_storage_rule_is_read(tmp_path: Path, storage: Storage) -> None:
    run = Play()(QUICK, Double(follow), tmp_path, config=CONFIG | {"storage": str(storage)})
    summary = load_run(run.folder).summary
    assert (summary["partial"], summary["reward"]["n"]) == (None, 12)
    if storage is Storage.HASH_ONLY:
        edit_line(run.folder, 1, put("truth", fingerprint("Safish") | {"sha256": 7}))
        with pytest.raises(ArtifactError, match="the truth can't be an object of 2"):
            load_run(run.folder)


def test_a_third_label_is_named(folder: Path) -> None:
    edit_line(folder, 4, put("truth", "Safish"))
    with pytest.raises(ArtifactError, match='the truth "Safish" is a third label beside "Safe"') as refused:
        load_run(folder)
    assert refused.value.where == f"{folder / RESULTS}:4"


def test_labels_and_their_fingerprints_are_the_same(folder: Path) -> None:
    expected = Expected(42, 12, 1, -4.0, 1.5, {"agent": "double"}, "Risky")
    for label in ("Safe", "Risky"):
        for number, line in enumerate((folder / RESULTS).read_text().splitlines(), 1):
            if json.loads(line)["truth"] == label:
                edit_line(folder, number, put("truth", fingerprint(label)))
                break
    assert len(Results(folder, expected)) == 12


class TestFuzz:
    """Whatever happens to the bytes: the same n, or a message."""

    JUNK = (
        st.sampled_from([None, True, False, 0, -1, 1, 0.5, 10**30, -1e300, "", "0.5", [], {}, {"a": None}])
        | st.text(max_size=4)
        | st.floats(allow_nan=False, allow_infinity=False)
    )  # fmt: skip

    @staticmethod
    def outcome(folder: Path, good: Mapping[str, Any]) -> str:
        """Load a damaged run both ways; "same", "changed" or "refused"."""
        summary = TestFuzz.load(folder)
        if summary is not None:
            assert summary["partial"] is None
            assert [summary[name] for name in ("counts", "missing", "planned")] == [
                good[name] for name in ("counts", "missing", "planned")
            ]
            assert summary["reward"]["n"] == good["reward"]["n"]
            return "same" if summary == good else "changed"
        part = TestFuzz.load(folder, allow_partial=True)
        if part is not None:
            assert part["partial"]["problems"]
            assert part["reward"]["n"] + part["missing"] == good["reward"]["n"]
        return "refused"

    @staticmethod
    def load(folder: Path, allow_partial: bool = False) -> Mapping[str, Any] | None:
        """The summary; None where the run is refused by a message that names its folder."""
        try:
            return load_run(folder, allow_partial).summary
        except SVError as error:
            refused = error
        assert str(folder) in refused.where
        return None

    @settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data(), name=st.sampled_from([RESULTS, METADATA]))
    def test_bytes(
        self, whole: Path, good: Mapping[str, Any], tmp_path: Path, data: st.DataObject, name: str
    ) -> None:
        folder = Path(shutil.copytree(whole, tmp_path / "run", dirs_exist_ok=True))
        raw = (whole / name).read_bytes()
        start = data.draw(st.integers(0, len(raw)))
        cut = data.draw(st.sampled_from([0, 1, 1, 3, 80, len(raw)]))
        put_in = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"0", b"9", b"-", b"null", b"\n", b'"', b"}"])
        )
        (folder / name).write_bytes(raw[:start] + put_in + raw[start + cut :])
        self.outcome(folder, good)

    @settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data(), name=st.sampled_from([RESULTS, METADATA]))
    def test_fields(
        self, whole: Path, good: Mapping[str, Any], tmp_path: Path, data: st.DataObject, name: str
    ) -> None:
        folder = Path(shutil.copytree(whole, tmp_path / "run", dirs_exist_ok=True))
        content: list[Tree] = [json.loads((whole / METADATA).read_text())]
        if name == RESULTS:
            content = [json.loads(line) for line in (whole / RESULTS).read_text().splitlines()]
        place: Any = data.draw(st.sampled_from(content))
        while True:
            key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if not place[key] or not isinstance(place[key], dict | list) or data.draw(st.booleans()):
                break
            place = place[key]
        if data.draw(st.booleans()):
            place[key] = data.draw(self.JUNK)
        else:
            del place[key]
        (folder / name).write_text("".join(f"{json.dumps(tree)}\n" for tree in content))
        self.outcome(folder, good)

    @settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(order=st.permutations(range(12)), dropped=st.sets(st.integers(0, 11), max_size=3))
    def test_lines(
        self, whole: Path, good: Mapping[str, Any], tmp_path: Path, order: list[int], dropped: set[int]
    ) -> None:
        folder = Path(shutil.copytree(whole, tmp_path / "run", dirs_exist_ok=True))
        lines = (whole / RESULTS).read_text().splitlines(keepends=True)
        (folder / RESULTS).write_text("".join(lines[i] for i in order if i not in dropped))
        assert self.outcome(folder, good) == ("refused" if dropped else "same")
