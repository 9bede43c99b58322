"""Results: reading a run's lines back, checked, in an order that does not depend on who finished first."""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

from security_verifiers.evals.record import SCHEMA_VERSION, RolloutKey
from sv_shared.errors import ArtifactError
from sv_shared.outcomes import Outcome
from sv_shared.storage import fingerprint

RESULTS = "results.jsonl"
TOLERANCE = 1e-6
"""How far a stored reward may be from its components' sum and outside its declared range."""
LARGEST = 1e18
"""The largest number, of either sign, that a line may hold where readers compute with it."""

MEND = "Restore the line, or delete it and resume the run, or leave it out with --allow-partial"
RESUME = "The run was killed while writing it: resume the run, or leave it out with --allow-partial"
ONE_OF_TWO = "Delete one of the two, or keep the first with --allow-partial"
FOREIGN = "Lines of another run are among these: restore the file, or leave them out with --allow-partial"
OTHER_VERSION = "Read the run with the version that wrote it, or run it again"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something of a run's files that is not as the run wrote it.

    Attributes:
        where: file, and line from 1, inside the run's folder: "results.jsonl:17".
        what: what is wrong with it.
        hint: what to do about it.
    """

    where: str
    what: str
    hint: str = MEND

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a run's metadata say of its lines.

    Attributes:
        seed, tasks, samples: the plan.
        floor, maximum: the reward's declared range.
        models: the player's name by seat.
        positive: the positive label where answers are classifications, else None.
    """

    seed: int
    tasks: int
    samples: int
    floor: float
    maximum: float
    models: Mapping[str, str]
    positive: str | None = None


def line_key(line: Mapping[str, Any]) -> RolloutKey:
    """The key of a result line."""
    key = line["key"]
    return RolloutKey(key["task"], key["sample"], key["seed"])


class Results:
    """The result lines of one run, checked once, then read in the order of their keys.

    Only keys and file positions are held, so a million lines cost no more than their index.

    Args:
        folder: the run's folder.
        expected: what the lines must agree with; without it each line is checked by itself.
        allow_partial: leave broken lines out and keep them as `problems`. Of lines with one key the first
            stands.

    Raises:
        ArtifactError: results.jsonl can't be read, or holds more tasks than the run; and, unless partial
            results are allowed: a line is broken, of another schema version or another run, or has the key
            of an earlier line. The message names file and line.
    """

    def __init__(self, folder: Path, expected: Expected | None = None, allow_partial: bool = False) -> None:
        self.path = folder / RESULTS
        self.problems: list[Problem] = []
        self._offsets: dict[RolloutKey, int] = {}
        numbers: dict[RolloutKey, int] = {}
        check = _Check(expected)
        for number, offset, raw in self._scan():
            try:
                key = check.key(raw)
                if key in numbers:
                    told = f"task {key.task[:12]} sample {key.sample}"
                    raise _Broken(f"{told} stands twice, first in line {numbers[key]}", ONE_OF_TWO)
            except _Broken as error:
                if not allow_partial:
                    raise ArtifactError(error.what, where=f"{self.path}:{number}", hint=error.hint) from error
                self.problems.append(Problem(f"{RESULTS}:{number}", error.what, error.hint))
                continue
            numbers[key] = number
            self._offsets[key] = offset
        if expected:
            self._check_tasks(expected, numbers)

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def keys(self) -> set[RolloutKey]:
        """The keys of all lines."""
        return set(self._offsets)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The lines, by (sample, task hash)."""
        with self.path.open("rb") as file:
            for key in sorted(self._offsets, key=lambda k: (k.sample, k.task, k.seed)):
                file.seek(self._offsets[key])
                yield json.loads(file.readline())

    def _scan(self) -> Iterator[tuple[int, int, bytes]]:
        """(line number, byte offset, bytes) in file order."""
        offset = 0
        try:
            with self.path.open("rb") as file:
                for number, raw in enumerate(file, 1):
                    yield number, offset, raw
                    offset += len(raw)
        except OSError as error:
            raise ArtifactError(
                f"can't read the results: {error.strerror}",
                where=str(self.path),
                hint="Name the folder of a run that has played, or resume this one",
            ) from error

    def _check_tasks(self, expected: Expected, numbers: Mapping[RolloutKey, int]) -> None:
        """No more tasks than were planned: which of them are foreign nobody can tell, so none is left out."""
        seen: set[str] = set()
        for key, number in numbers.items():
            seen.add(key.task)
            if len(seen) > expected.tasks:
                raise ArtifactError(
                    f"task {key.task[:12]} is one more than the {expected.tasks} that were planned",
                    where=f"{self.path}:{number}",
                    hint="Lines of another run are among these: restore the file",
                )


class _Broken(Exception):
    """A line that is not as the run wrote it."""

    def __init__(self, what: str, hint: str = MEND) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def strict_json(raw: bytes) -> Any:
    """JSON as its standard (RFC 8259) has it: in UTF-8, and without NaN and Infinity.

    Of a name that stands twice in one object the last value counts.

    Raises:
        ValueError: it is not; the message says what and where in it. Also where it is nested too deeply.
    """
    if raw[:3] == BOM_UTF8:
        raise ValueError("a byte order mark stands before it")
    try:
        return _STRICT.decode(raw.decode())
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)


def shown(value: Any) -> str:
    """A JSON value for a message: short, and free of what a terminal or a codec can't take."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_NULL = type(None)
_NUMBERS = {float, int}
_FIELDS: dict[str, tuple[type, ...]] = {
    "task_id": (str,),
    "cluster": (str,),
    "difficulty": (str,),
    "seat": (str,),
    "outcome": (str,),
    "reward": (float, int, _NULL),
    "components": (dict,),
    "metrics": (dict,),
    "parsed": (dict, _NULL),
    "cause": (str, dict),
    "flags": (list,),
    "seats": (dict,),
    "truth": (str, int, float, bool, dict, list, _NULL),
}
"""What every result line holds beside its key, by JSON type; true and false are no numbers."""
_values_of = itemgetter(*_FIELDS)
_TOKENS = {"prompt", "completion", "cached"}
_OURS = {str(outcome): outcome.is_ours for outcome in Outcome}
_ODD_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
"""Escapes of characters that no name may hold: NUL, which arrays of text cut off, and halves of a pair."""
_ODD_CHARACTER = re.compile("[\0\ud800-\udfff]")


class _Check:
    """Looks at everything in a line that readers rely on; keeps what lines must agree on among themselves."""

    def __init__(self, expected: Expected | None) -> None:
        self._expected = expected
        self._sound: set[tuple[type, ...]] = set()
        self._labels = _Labels(expected.positive) if expected and expected.positive else None

    def key(self, raw: bytes) -> RolloutKey:
        """The key of a sound line; `_Broken` is raised for any other."""
        line = _parsed(raw)
        key = _key(line)
        self._check_fields(line)
        _check_reward(line)
        _check_seats(line)
        if any(type(flag) is not str for flag in line["flags"]):
            raise _Broken("'flags' must be a list of words")
        if b"\\u" in raw and _ODD_ESCAPE.search(raw):
            _check_names(line)
        if self._expected:
            _check_expected(line, key, self._expected)
        if self._labels:
            self._labels.check(line)
        return key

    def _check_fields(self, line: Mapping[str, Any]) -> None:
        """Every field is there, with a type that it may have."""
        try:
            shape = tuple(map(type, _values_of(line)))
        except KeyError as error:
            raise _Broken(f"a result without {error}") from error
        if shape not in self._sound:
            for (name, kinds), found in zip(_FIELDS.items(), shape, strict=True):
                if found not in kinds:
                    raise _Broken(f"{name!r} can't be {shown(line[name])}")
            self._sound.add(shape)


def _parsed(raw: bytes) -> dict[str, Any]:
    """The object that a line of bytes stands for."""
    if raw[-1:] != b"\n":
        raise _Broken(f"the last line is cut off after {len(raw)} bytes", RESUME)
    if raw[-2:-1] == b"\r":
        raise _Broken("the line ends in CR LF: an editor changed it", "Restore the file's plain LF line ends")
    try:
        line = strict_json(raw)
    except ValueError as error:
        raise _Broken("a blank line" if not raw.strip() else f"not JSON: {error}") from error
    if type(line) is not dict:
        raise _Broken("not a JSON object")
    return line


def _key(line: Mapping[str, Any]) -> RolloutKey:
    version = line.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        told = f"schema version {shown(version)}; this version reads {SCHEMA_VERSION}"
        raise _Broken(told, OTHER_VERSION)
    key: Any = line.get("key")
    if type(key) is dict:
        parts: tuple[Any, Any, Any] = key.get("task"), key.get("sample"), key.get("seed")
        task, sample, seed = parts
        words, whole = type(task) is str, type(sample) is type(seed) is int
        if words and whole and 0 <= sample <= LARGEST and abs(seed) <= LARGEST:
            return RolloutKey(task, sample, seed)
    raise _Broken("a result without a key of task, sample and seed")


def _check_reward(line: Mapping[str, Any]) -> None:
    """A known outcome; a reward exactly where it is the model's own, and the sum of its components."""
    outcome, reward = line["outcome"], line["reward"]
    components, metrics = line["components"], line["metrics"]
    ours = _OURS.get(outcome)
    if ours is None:
        raise _Broken(f"there is no outcome {shown(outcome)}")
    if ours != (reward is None):
        raise _Broken(f"a reward of {shown(reward)} with outcome {outcome}")
    _check_numbers(components)
    _check_numbers(metrics)
    if ours:
        if components or metrics:
            raise _Broken(f"components or metrics with outcome {outcome}, which was not graded")
    elif abs(sum(components.values()) - reward) > TOLERANCE:
        total = sum(components.values())
        raise _Broken(f"a reward of {shown(reward)}, but components that add up to {total:.6g}")


def _check_numbers(values: Mapping[str, Any]) -> None:
    numbers = values.values()
    if not numbers or (_NUMBERS.issuperset(map(type, numbers)) and max(map(abs, numbers)) <= LARGEST):
        return
    for name, value in values.items():
        if type(value) not in _NUMBERS or abs(value) > LARGEST:
            raise _Broken(f"{shown(name)} can't be {shown(value)}: only a number can be averaged")


def _check_seats(line: Mapping[str, Any]) -> None:
    """Who sat where, with token counts."""
    seats = line["seats"]
    for name, seat in seats.items():
        if type(seat) is not dict or type(seat.get("model")) is not str:
            raise _Broken(f"seat {shown(name)} without a model")
        tokens = seat.get("tokens")
        if type(tokens) is not dict or tokens.keys() != _TOKENS:
            raise _Broken(f"seat {shown(name)} without tokens of prompt, completion and cached")
        for kind, count in tokens.items():
            if count is not None and (type(count) is not int or not 0 <= count <= LARGEST):
                raise _Broken(f"seat {shown(name)}: {kind} tokens can't be {shown(count)}")
    if line["seat"] not in seats and line["reward"] is not None:
        raise _Broken(f"a result of seat {shown(line['seat'])}, which is not in 'seats'")


def _check_names(line: Mapping[str, Any]) -> None:
    """Names that can be compared and printed."""
    names = [line["key"]["task"], line["task_id"], line["cluster"], line["difficulty"], *line["flags"]]
    names += [name for place in ("components", "metrics", "seats") for name in line[place]]
    if odd := next(filter(_ODD_CHARACTER.search, names), None):
        raise _Broken(f"the name {shown(odd)} holds a character that is no text")


def _check_expected(line: Mapping[str, Any], key: RolloutKey, expected: Expected) -> None:
    """The line is one of this run's."""
    if key.seed != expected.seed:
        raise _Broken(f"a result of seed {shown(key.seed)}; the run's seed is {expected.seed}", FOREIGN)
    if key.sample >= expected.samples:
        raise _Broken(f"sample {key.sample} of {expected.samples} samples, which count from 0", FOREIGN)
    for name, seat in line["seats"].items():
        if expected.models.get(name) != seat["model"]:
            told = expected.models.get(name, "nobody")
            raise _Broken(f"{shown(seat['model'])} in seat {shown(name)}; the run has {told} there", FOREIGN)
    reward = line["reward"]
    if reward is not None and not expected.floor - TOLERANCE <= reward <= expected.maximum + TOLERANCE:
        spread = f"{expected.floor:g} to {expected.maximum:g}"
        raise _Broken(f"a reward of {shown(reward)} outside the declared range {spread}")


class _Labels:
    """Classification answers: a label of two with probabilities that fit together.

    Labels stand in the lines as words, or as their fingerprints where the task's storage rule wants that.
    """

    def __init__(self, positive: str) -> None:
        self._known = {positive: True, fingerprint(positive)["sha256"]: True}
        # The first label that is not the positive one is the negative one.
        self._negative = self._first = ""

    def check(self, line: Mapping[str, Any]) -> None:
        self._is_positive(line["truth"], "truth")
        if line["outcome"] != Outcome.SCORED:
            return
        parsed = line["parsed"]
        if parsed is None:
            if not line["cause"]:
                raise _Broken("a scored answer that is nowhere: 'parsed' is null and no 'cause' says why")
            return
        positive = self._is_positive(parsed.get("label"), "label")
        confidence, p_positive = parsed.get("confidence"), parsed.get("p_positive")
        for name, value in (("confidence", confidence), ("p_positive", p_positive)):
            if type(value) not in _NUMBERS or not 0 <= value <= 1:
                raise _Broken(f"a decision with {name} {shown(value)}, which must be a number of 0 to 1")
        if abs((confidence if positive else 1 - confidence) - p_positive) > TOLERANCE:
            told = f"label {shown(parsed['label'])}, confidence {confidence:g} and p_positive {p_positive:g}"
            raise _Broken(f"{told} contradict each other")

    def _is_positive(self, label: Any, what: str) -> bool:
        text = label.get("sha256") if type(label) is dict else label
        if type(text) is not str or not text:
            raise _Broken(f"the {what} can't be {shown(label)}")
        if text not in self._known:
            digest = text if type(label) is dict else fingerprint(text)["sha256"]
            if self._negative not in ("", digest):
                raise _Broken(f"the {what} {shown(text)} is a third label beside {shown(self._first)}")
            self._negative = digest
            self._first = self._first or text
            self._known[text] = False
        return self._known[text]
