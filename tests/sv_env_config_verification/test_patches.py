"""Patches apply exactly, agree with git, and stay within the files they were given."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sv_env_config_verification.patches import PatchError, PatchProblem, apply_patch, read_patch
from tests.sv_env_config_verification.audit_rows import MENDED, WEB, diff, to_file

LINE = st.sampled_from(["a", "b", "  a", "", "- x", "+ y", "@@ z", "-- q", "++ r", "\\ s", "é"])
TEXT = st.builds(
    lambda lines, end: "\n".join(lines) + ("\n" if lines and end else ""),
    st.lists(LINE, max_size=14),
    st.booleans(),
)


def problem(files: dict[str, str], patch: str) -> PatchProblem:
    with pytest.raises(PatchError) as caught:
        apply_patch(files, patch)
    return caught.value.problem


@settings(max_examples=400, deadline=None)
@given(TEXT, TEXT, st.integers(1, 4))
def test_what_difflib_wrote_leads_to_the_other_text(before: str, after: str, context: int) -> None:
    patch = diff({"a.yaml": before}, {"a.yaml": after}, context)
    if before == after:
        assert problem({"a.yaml": before}, patch) is PatchProblem.NOT_A_DIFF
    elif before == "":
        assert problem({"a.yaml": before}, patch) is PatchProblem.AMBIGUOUS
    else:
        assert apply_patch({"a.yaml": before}, patch) == {"a.yaml": after}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=4, max_size=12), st.data())
def test_what_applies_here_applies_to_the_same_text_in_git(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], data: st.DataObject
) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    before = "".join(f"{line}\n" for line in lines)
    edited = list(lines)
    edited[data.draw(st.integers(0, len(lines) - 1))] = "new"
    if data.draw(st.booleans()):
        del edited[data.draw(st.integers(0, len(edited) - 1))]
    patch = diff({"f.tf": before}, {"f.tf": "".join(f"{e}\n" for e in edited)}, data.draw(st.integers(0, 3)))
    if data.draw(st.booleans()):  # a header as a model writes it: counts and place are guessed
        start = data.draw(st.integers(1, 9))
        patch = "".join(
            f"@@ -{start},7 +{start},2 @@\n" if line.startswith("@@ ") else line
            for line in patch.splitlines(keepends=True)
        )
    folder = tmp_path_factory.mktemp("git")
    (folder / "f.tf").write_text(before)
    try:
        ours = apply_patch({"f.tf": before}, patch)["f.tf"]
    except PatchError:
        return
    command = [git, "apply", "--recount", "--unidiff-zero", "-"]
    subprocess.run(command, cwd=folder, input=patch.encode(), check=True, capture_output=True)
    assert (folder / "f.tf").read_text() == ours


def test_wrong_counts_and_a_wrong_place_do_not_matter_where_the_text_is_unique() -> None:
    patch = to_file(WEB, MENDED)
    header = next(line for line in patch.splitlines() if line.startswith("@@"))
    for guess in ("@@ -1,99 +2,1 @@", "@@ -1,1 +2,1 @@", "@@ -19,4 +19,4 @@", "@@ -5 +5 @@ spec:"):
        assert apply_patch({"web.yaml": WEB}, patch.replace(header, guess))["web.yaml"] == MENDED


def test_a_place_that_could_be_two_is_refused() -> None:
    text = "x: 1\ny: 2\nx: 1\ny: 2\nz: 3\n"
    patch = "--- a/a.yaml\n+++ b/a.yaml\n@@ -4 +4 @@\n-x: 1\n+x: 9\n"
    assert problem({"a.yaml": text}, patch) is PatchProblem.AMBIGUOUS
    assert (
        apply_patch({"a.yaml": text}, patch.replace("4", "3"))["a.yaml"] == "x: 1\ny: 2\nx: 9\ny: 2\nz: 3\n"
    )


def test_hunks_come_in_order() -> None:
    head, first, last = "--- a/a.tf\n+++ b/a.tf\n", "@@ -1 +1 @@\n-a\n+A\n", "@@ -3 +3 @@\n-c\n+C\n"
    assert apply_patch({"a.tf": "a\nb\nc\n"}, head + first + last) == {"a.tf": "A\nb\nC\n"}
    assert problem({"a.tf": "a\nb\nc\n"}, head + last + first) is PatchProblem.NO_MATCH


def test_a_hunk_for_an_empty_file_finds_no_line() -> None:
    patch = "--- a/a.tf\n+++ b/a.tf\n@@ -0,0 +2 @@\n-b\n+B\n"
    assert problem({"a.tf": "a\nb\n"}, patch) is PatchProblem.NO_MATCH


def test_context_is_never_bent() -> None:
    patch = to_file(WEB, MENDED)
    assert (
        problem({"web.yaml": WEB}, patch.replace("containerPort: 8080", "containerPort: 8081"))
        is PatchProblem.NO_MATCH
    )
    assert problem({"web.yaml": WEB}, patch.replace("privileged: true", "privileged:  true")) is (
        PatchProblem.NO_MATCH
    )


def test_line_ends_are_kept_whatever_the_patch_has() -> None:
    dos, dos_mended = (text.replace("\n", "\r\n") for text in (WEB, MENDED))
    plain = to_file(WEB, MENDED)
    assert apply_patch({"web.yaml": dos}, plain) == {"web.yaml": dos_mended}
    assert apply_patch({"web.yaml": WEB}, plain.replace("\n", "\r\n")) == {"web.yaml": MENDED}
    assert apply_patch({"web.yaml": dos}, plain.replace("\n", "\r\n")) == {"web.yaml": dos_mended}
    assert apply_patch({"web.yaml": dos}, to_file(dos, dos_mended)) == {"web.yaml": dos_mended}


def test_several_files_at_once_with_and_without_git_headers() -> None:
    before = {"a/main.tf": "x = 1\n", "b.tf": "-- y\n", "c.tf": "z\n"}
    after = {"a/main.tf": "x = 2\n", "b.tf": "++ y\n", "c.tf": "z\n"}
    patch = diff(before, after)
    assert apply_patch(before, patch) == after
    headed = patch.replace("--- a/b.tf", "diff --git a/b.tf b/b.tf\nindex 1..2 100644\n--- a/b.tf")
    assert apply_patch(before, headed + "\n\n") == after
    assert apply_patch(before, patch.replace("a/b.tf", "b.tf").replace("b/b.tf", "b.tf")) == after


HEAD = "--- a/web.yaml\n+++ b/web.yaml\n"
HUNK = "@@ -1 +1 @@\n-apiVersion: apps/v1\n+apiVersion: apps/v2\n"


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ("hello", PatchProblem.NOT_A_DIFF),
        ("", PatchProblem.NOT_A_DIFF),
        (HEAD, PatchProblem.NOT_A_DIFF),
        (HUNK, PatchProblem.NOT_A_DIFF),
        (f"```diff\n{HEAD}{HUNK}```", PatchProblem.NOT_A_DIFF),
        (f"{HEAD}{HUNK}trailing words\n", PatchProblem.NOT_A_DIFF),
        (f"{HEAD}@@ -1 +1 @@\n apiVersion: apps/v1\n", PatchProblem.NO_CHANGE),
        (f"{HEAD}@@ -0,0 +1 @@\n+x: 1\n", PatchProblem.AMBIGUOUS),
        (f"{HEAD}{HUNK}{HEAD}{HUNK}", PatchProblem.FILE_TWICE),
        (f"{HEAD}{HUNK}{HUNK}", PatchProblem.NO_MATCH),
        (f"--- /dev/null\n+++ b/web.yaml\n{HUNK}", PatchProblem.ADDS_FILE),
        (f"new file mode 100644\n{HEAD}{HUNK}", PatchProblem.ADDS_FILE),
        (f"--- a/web.yaml\n+++ /dev/null\n{HUNK}", PatchProblem.DELETES_FILE),
        (f"rename from web.yaml\nrename to x.yaml\n{HEAD}{HUNK}", PatchProblem.RENAMES_FILE),
        (f"--- a/web.yaml\n+++ b/b.yaml\n{HUNK}", PatchProblem.RENAMES_FILE),
        (f"old mode 100644\nnew mode 100755\n{HEAD}{HUNK}", PatchProblem.CHANGES_MODE),
        (f"--- a/x.yaml\n+++ b/x.yaml\n{HUNK}", PatchProblem.OTHER_FILE),
        (f"--- a/../web.yaml\n+++ b/../web.yaml\n{HUNK}", PatchProblem.BAD_PATH),
        (f"--- /etc/passwd\n+++ /etc/passwd\n{HUNK}", PatchProblem.BAD_PATH),
        (f'--- "a/web.yaml"\n+++ "b/web.yaml"\n{HUNK}', PatchProblem.BAD_PATH),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 3\n", PatchProblem.BINARY),
        (f"{HEAD}{HUNK}\0", PatchProblem.BINARY),
        (f"{HEAD}{HUNK}\ud800", PatchProblem.BINARY),
        (HEAD + HUNK + "+" * 200_000, PatchProblem.TOO_LARGE),
    ],
    ids=lambda value: value.value if isinstance(value, PatchProblem) else "",
)
def test_every_way_not_to_apply_has_its_name(patch: str, expected: PatchProblem) -> None:
    files = {"web.yaml": WEB, "b.yaml": WEB}
    assert problem(files, patch) is expected


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=200)
    | st.lists(
        st.sampled_from(
            [
                "--- a/f\n",
                "+++ b/f\n",
                "@@ -1,2 +1,2 @@\n",
                " a\n",
                "-a\n",
                "+b\n",
                "\\ No\n",
                "\n",
                "diff x\n",
                "--- b\n",
            ]
        ),
        max_size=14,
    ).map("".join)
)
def test_no_text_ends_in_anything_but_a_patch_error(patch: str) -> None:
    try:
        after = apply_patch({"f": "a\nb\na\n"}, patch)
    except PatchError:
        return
    assert set(after) == {"f"}


def test_many_hunks_that_fit_nowhere_cost_little() -> None:
    text = "a: 1\n" * 5_000
    patch = HEAD + "@@ -9999,2 +9999,2 @@\n a: 1\n-a: 2\n+b\n" * 900
    started = time.process_time()
    assert problem({"web.yaml": text}, patch) is PatchProblem.NO_MATCH
    assert time.process_time() - started < 1.0


def test_the_reader_tells_the_line_of_the_patch() -> None:
    with pytest.raises(PatchError) as caught:
        read_patch(f"{HEAD}{HUNK}oops\n", {"web.yaml": WEB})
    assert caught.value.line == 6
    assert "line 6" in str(caught.value)


def test_git_is_where_the_reference_runs(tmp_path: Path) -> None:
    """The comparison above would pass by skipping everything; this says whether it runs here."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    (tmp_path / "web.yaml").write_text(WEB)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=to_file(WEB, MENDED).encode(), check=True)
    assert (tmp_path / "web.yaml").read_text() == MENDED
