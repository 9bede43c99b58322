"""Patches: unified diffs, read and applied in memory, exactly or not at all.

What applies here, `git apply --recount --unidiff-zero` applies too, to the same text; some that git takes is
refused here. Line counts in hunk headers do not matter (language models miscount), and neither does a wrong
line number where the hunk's text occurs in one place only. Context is never bent to fit.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MAX_PATCH_CHARS = 200_000
"""Longest patch that is read; a workspace of the usual size fits whole, removed and written anew."""

MAX_HUNKS = 1_000
"""Most hunks in one patch."""


class PatchProblem(StrEnum):
    """Why a patch does not apply."""

    TOO_LARGE = "patch-too-large"
    BINARY = "patch-binary"
    NOT_A_DIFF = "patch-not-a-diff"
    BAD_PATH = "patch-bad-path"
    OTHER_FILE = "patch-other-file"
    ADDS_FILE = "patch-adds-file"
    DELETES_FILE = "patch-deletes-file"
    RENAMES_FILE = "patch-renames-file"
    CHANGES_MODE = "patch-changes-mode"
    FILE_TWICE = "patch-file-twice"
    NO_MATCH = "patch-context-not-found"
    AMBIGUOUS = "patch-place-ambiguous"
    NO_CHANGE = "patch-changes-nothing"


TAMPERING = frozenset(
    {
        PatchProblem.BAD_PATH,
        PatchProblem.OTHER_FILE,
        PatchProblem.ADDS_FILE,
        PatchProblem.DELETES_FILE,
        PatchProblem.RENAMES_FILE,
        PatchProblem.CHANGES_MODE,
    }
)
"""Problems that no honest attempt at a repair has."""


class PatchError(ValueError):
    """A patch does not apply, and the patch is the cause.

    Attributes:
        problem: in which way.
        line: line of the patch, from 1; None where it is the patch as a whole.
    """

    def __init__(self, problem: PatchProblem, line: int | None = None) -> None:
        super().__init__(problem.value if line is None else f"{problem.value} (line {line} of the patch)")
        self.problem, self.line = problem, line


@dataclass(slots=True)
class Hunk:
    """One change: `old` is replaced by `new`.

    Attributes:
        start: where `new` starts in the mended file as the header has it, counted from 0.
        old, new: lines with their ends.
        line: line of the patch where the hunk starts.
    """

    start: int
    line: int
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FilePatch:
    """The hunks for one file, named as in the workspace."""

    name: str
    hunks: list[Hunk]


def apply_patch(files: Mapping[str, str], patch: str) -> dict[str, str]:
    """The workspace after a patch.

    Where a file's lines all end in CRLF, or the patch's do, line ends are left out of the comparison, and the
    file keeps its own.

    Args:
        files: text by name.
        patch: a unified diff; names with or without `a/` and `b/`.

    Returns:
        All files, those that the patch does not name as they were.

    Raises:
        PatchError: it does not apply, or reaches for anything but the text of these files.
    """
    after = dict(files)
    for change in read_patch(patch, files):
        text = after[change.name]
        dos = _is_dos(text)
        if dos:
            text = text.replace("\r\n", "\n")
            change = _without_returns(change)
        mended = "".join(_splice(_lines(text), change.hunks))
        after[change.name] = mended.replace("\n", "\r\n") if dos else mended
    if after == dict(files):
        raise PatchError(PatchProblem.NO_CHANGE)
    return after


def read_patch(patch: str, files: Mapping[str, str]) -> list[FilePatch]:
    """The changes that a unified diff states, each to another one of `files`.

    Raises:
        PatchError: it is no unified diff, or reaches for anything but the text of these files.
    """
    if len(patch) > MAX_PATCH_CHARS:
        raise PatchError(PatchProblem.TOO_LARGE)
    if any((c < " " and c not in "\t\n\r") or "\ud800" <= c <= "\udfff" for c in patch):
        raise PatchError(PatchProblem.BINARY)
    text = patch if patch.endswith("\n") else patch + "\n"
    lines = _lines(text.replace("\r\n", "\n") if _is_dos(text) else text)
    found: list[FilePatch] = []
    at = 0
    while (at := _skip_preamble(lines, at)) < len(lines):
        name = _target(lines, at, files)
        hunks, at = _hunks(lines, at + 2)
        if any(change.name == name for change in found):
            raise PatchError(PatchProblem.FILE_TWICE, at)
        found.append(FilePatch(name, hunks))
    if not found:
        raise PatchError(PatchProblem.NOT_A_DIFF)
    if sum(len(change.hunks) for change in found) > MAX_HUNKS:
        raise PatchError(PatchProblem.TOO_LARGE)
    return found


# Headers --------------------------------------------------------------------------------------------------

_REFUSED_HEADERS = (
    ("new file mode ", PatchProblem.ADDS_FILE),
    ("deleted file mode ", PatchProblem.DELETES_FILE),
    ("rename ", PatchProblem.RENAMES_FILE),
    ("copy ", PatchProblem.RENAMES_FILE),
    ("similarity index ", PatchProblem.RENAMES_FILE),
    ("dissimilarity index ", PatchProblem.RENAMES_FILE),
    ("old mode ", PatchProblem.CHANGES_MODE),
    ("new mode ", PatchProblem.CHANGES_MODE),
    ("GIT binary patch", PatchProblem.BINARY),
    ("Binary files ", PatchProblem.BINARY),
)

_HUNK = re.compile(
    r"@@ -(?P<from>[0-9]{1,9})(?:,(?P<old>[0-9]{1,9}))? \+(?P<at>[0-9]{1,9})(?:,(?P<new>[0-9]{1,9}))? @@"
)


def _skip_preamble(lines: list[str], at: int) -> int:
    """Where the next `---` line stands; passes over `diff`, `index` and empty lines only."""
    while at < len(lines) and not lines[at].startswith("--- "):
        line = lines[at]
        for start, problem in _REFUSED_HEADERS:
            if line.startswith(start):
                raise PatchError(problem, at + 1)
        if line.strip() and not line.startswith(("diff ", "index ")):
            raise PatchError(PatchProblem.NOT_A_DIFF, at + 1)
        at += 1
    return at


def _target(lines: list[str], at: int, files: Mapping[str, str]) -> str:
    """The file that a `---` line and its `+++` line name."""
    if at + 1 >= len(lines) or not lines[at + 1].startswith("+++ "):
        raise PatchError(PatchProblem.NOT_A_DIFF, at + 1)
    old, new = (line[4:].partition("\t")[0].strip() for line in lines[at : at + 2])
    if old == "/dev/null":
        raise PatchError(PatchProblem.ADDS_FILE, at + 1)
    if new == "/dev/null":
        raise PatchError(PatchProblem.DELETES_FILE, at + 2)
    before, after = _name(old, "a/", files, at + 1), _name(new, "b/", files, at + 2)
    if before != after:
        raise PatchError(PatchProblem.RENAMES_FILE, at + 2)
    return before


def _name(path: str, prefix: str, files: Mapping[str, str], line: int) -> str:
    if path.startswith(("/", "~", '"')) or "\\" in path or ".." in path.split("/"):
        raise PatchError(PatchProblem.BAD_PATH, line)
    name = path.removeprefix(prefix)
    if name in files:
        return name
    if path in files:
        return path
    raise PatchError(PatchProblem.OTHER_FILE, line)


# Hunks ----------------------------------------------------------------------------------------------------


def _hunks(lines: list[str], at: int) -> tuple[list[Hunk], int]:
    """The hunks from a line on, and the line after them."""
    hunks: list[Hunk] = []
    while at < len(lines) and (header := _HUNK.match(lines[at])):
        hunk = Hunk(max(0, int(header["at"]) - 1), at + 1)
        counts = (int(header["old"] or 1), int(header["new"] or 1))
        end = _counted_end(lines, at + 1, *counts) or _body_end(lines, at + 1)
        _fill(hunk, lines[at + 1 : end])
        if hunk.old and int(header["from"]) == 0:
            raise PatchError(PatchProblem.NO_MATCH, at + 1)
        if not hunk.old or hunk.old == hunk.new:
            # Without a line that is there already, only its number would say where the text goes.
            raise PatchError(
                PatchProblem.NO_CHANGE if hunk.old == hunk.new else PatchProblem.AMBIGUOUS, at + 1
            )
        hunks.append(hunk)
        at = end
    if not hunks:
        raise PatchError(PatchProblem.NOT_A_DIFF, min(at, len(lines)))
    return hunks, at


def _counted_end(lines: list[str], at: int, old: int, new: int) -> int | None:
    """Where the hunk ends by its header's counts; None where the body does not bear them out."""
    while old or new or (at < len(lines) and lines[at].startswith("\\")):
        if at == len(lines) or lines[at][0] not in " \n-+\\":
            return None
        old -= lines[at][0] in " \n-"
        new -= lines[at][0] in " \n+"
        if old < 0 or new < 0:
            return None
        at += 1
    after = at
    while after < len(lines) and lines[after] == "\n":
        after += 1
    return at if after == len(lines) or _is_boundary(lines, after) else None


def _body_end(lines: list[str], at: int) -> int:
    """Where the hunk ends by its lines' first characters; empty lines at its end do not belong to it."""
    while at < len(lines) and lines[at][0] in " \n-+\\" and not _is_boundary(lines, at):
        at += 1
    while lines[at - 1] == "\n":
        at -= 1
    return at


def _is_boundary(lines: list[str], at: int) -> bool:
    """Whether a hunk or a file begins at a line."""
    pair = lines[at : at + 3]
    starts_file = len(pair) == 3 and pair[0].startswith("--- ") and pair[1].startswith("+++ ")
    return lines[at].startswith(("@@ ", "diff ")) or (starts_file and pair[2].startswith("@@ "))


def _fill(hunk: Hunk, body: list[str]) -> None:
    last: list[list[str]] = []
    for line in body:
        mark, text = line[0], line[1:]
        if mark == "\\":
            for side in last:
                side[-1] = side[-1].removesuffix("\n")
            continue
        last = [side for side, marks in ((hunk.old, " \n-"), (hunk.new, " \n+")) if mark in marks]
        for side in last:
            side.append(text if mark != "\n" else "\n")


# Text -----------------------------------------------------------------------------------------------------


def _splice(lines: list[str], hunks: list[Hunk]) -> list[str]:
    floor = 0
    for hunk in hunks:
        at = _place(lines, hunk, floor)
        lines[at : at + len(hunk.old)] = hunk.new
        floor = at + len(hunk.new)
    return lines


def _place(lines: list[str], hunk: Hunk, floor: int) -> int:
    """Where a hunk's old lines stand: at its own line number, else at the only place that there is."""
    size = len(hunk.old)
    if lines[hunk.start : hunk.start + size] == hunk.old:
        places = [hunk.start]
    else:
        places = [at for at in range(len(lines) - size + 1) if lines[at : at + size] == hunk.old]
    if not places or places[0] < floor:
        raise PatchError(PatchProblem.NO_MATCH, hunk.line)
    if len(places) > 1:
        raise PatchError(PatchProblem.AMBIGUOUS, hunk.line)
    return places[0]


def _lines(text: str) -> list[str]:
    """The lines with their ends; only a line feed ends a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _is_dos(text: str) -> bool:
    return "\r\n" in text and text.count("\r\n") == text.count("\n")


def _without_returns(change: FilePatch) -> FilePatch:
    def strip(lines: list[str]) -> list[str]:
        return [line[:-2] + "\n" if line.endswith("\r\n") else line for line in lines]

    return FilePatch(change.name, [Hunk(h.start, h.line, strip(h.old), strip(h.new)) for h in change.hunks])
