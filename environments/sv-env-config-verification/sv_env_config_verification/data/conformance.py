"""How far the tools' findings agree with Checkov's expectations on its own fixtures."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.data.checkov import Check, Expectation
from sv_env_config_verification.inputs import InputError
from sv_env_config_verification.reading import Reader
from sv_shared.findings import weaknesses


@dataclass(frozen=True, slots=True)
class Judged:
    """An expectation beside what the tools found.

    Attributes:
        expectation: what Checkov expects.
        check: what its check is about.
        found: whether a tool reports one of the check's weaknesses there; None where it can't be told.
        why: why it can't be told: "refused: <label>" or "not-found"; else "".
    """

    expectation: Expectation
    check: Check
    found: bool | None
    why: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the tools say what Checkov says; what can't be told does not agree."""
        return self.found is not None and self.found is self.expectation.fails

    @property
    def reason(self) -> str:
        """Why they disagree: what can't be told, the `gap`, what `differs`, or "unexplained"."""
        if self.why:
            return self.why
        if self.check.gap and self.expectation.fails:
            return f"no-rule: {self.check.gap}"
        return self.check.differs or "unexplained"


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts over expectations. Positive: fails there (by Checkov), found here (by our tools).

    Attributes:
        both, missed, extra, neither: fails and found; fails, not found; passes, found; passes, not found.
        untold: of which nothing can be told.
    """

    both: int = 0
    missed: int = 0
    extra: int = 0
    neither: int = 0
    untold: int = 0

    @property
    def total(self) -> int:
        """All expectations, those of which nothing can be told too."""
        return self.both + self.missed + self.extra + self.neither + self.untold

    @property
    def agreement(self) -> float | None:
        """(both + neither) / (total - untold); None where nothing is told."""
        told = self.total - self.untold
        return (self.both + self.neither) / told if told else None

    @property
    def strict(self) -> float | None:
        """(both + neither) / total: what can't be told counts against it; None without expectations."""
        return (self.both + self.neither) / self.total if self.total else None


async def judge(
    folders: Mapping[str, Path],
    expectations: Iterable[Expectation],
    checks: Mapping[str, Check],
    toolbox: Toolbox,
    reader: Reader,
) -> list[Judged]:
    """Scan the files of each expectation whose check is mapped; each group of files once.

    Args:
        folders: the dataset's folder by language.
        expectations: those of other checks are passed over.
        checks: the mapping.
        toolbox: the tools; each finds what it can.
        reader: to know which resources there are.

    Raises:
        ToolError: a tool does not work.
    """
    seen: dict[tuple[str, ...], tuple[set[tuple[str, str]], set[str]] | str] = {}
    judged: list[Judged] = []
    for expectation in expectations:
        if expectation.check not in checks:
            continue
        key = (expectation.language, *expectation.files)
        if key not in seen:
            seen[key] = await _scan(folders[expectation.language], expectation.files, toolbox, reader)
        judged.append(_compare(expectation, checks[expectation.check], seen[key]))
    return judged


def confusion(judged: Iterable[Judged]) -> Confusion:
    """The counts."""
    names = Counter(_cell(one) for one in judged)
    return Confusion(**names)


async def _scan(
    folder: Path, files: tuple[str, ...], toolbox: Toolbox, reader: Reader
) -> tuple[set[tuple[str, str]], set[str]] | str:
    """(weakness, object) pairs and the identities there are; or why there are none.

    Fixtures may be malformed on purpose: one that a tool refuses is judged by the others.
    """
    if not files:
        return "not-found"
    texts = {Path(file).name: (folder / file).read_text(encoding="utf-8") for file in files}
    try:
        shapes = await reader.read(texts)
    except InputError as error:
        return f"refused: {', '.join(sorted(error.labels))}"
    pairs: set[tuple[str, str]] = set()
    refused = 0
    for tool in toolbox.adapters:
        try:
            pairs |= weaknesses(await toolbox.scan(texts, [tool]))
        except InputError:
            refused += 1
    if refused == len(toolbox.adapters):
        return "refused: by every tool"
    return pairs, {item.id for item in shapes.items()}


def _compare(
    expectation: Expectation, check: Check, scan: tuple[set[tuple[str, str]], set[str]] | str
) -> Judged:
    if isinstance(scan, str):
        return Judged(expectation, check, None, scan)
    pairs, identities = scan
    if expectation.object and expectation.object not in identities:
        return Judged(expectation, check, None, "not-found")
    found = any(w in check.weaknesses and expectation.object in ("", o) for w, o in pairs)
    return Judged(expectation, check, found)


def _cell(one: Judged) -> str:
    if one.found is None:
        return "untold"
    if one.expectation.fails:
        return "both" if one.found else "missed"
    return "extra" if one.found else "neither"
