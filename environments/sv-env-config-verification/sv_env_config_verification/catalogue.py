"""The weakness taxonomy, and which tool's rule shows which weakness. The facts lie in catalogue/*.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sv_shared.errors import DataError, ToolError
from sv_shared.findings import Finding, Severity
from sv_shared.sarif import RuleText

FOLDER = Path(__file__).with_name("catalogue")


@dataclass(frozen=True, slots=True)
class Weakness:
    """A class of weakness.

    Attributes:
        id: short name, such as "privileged-container".
        title: one line.
        severity: how bad it is; every finding of it has this severity.
        cwe: number in the Common Weakness Enumeration; None where none fits.
        controls: sections of standards that ask for its absence.
    """

    id: str
    title: str
    severity: Severity
    cwe: int | None
    controls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Weaknesses by id, and each tool's rules.

    Attributes:
        weaknesses: by id.
        rules: weakness id by rule id, by tool; "" for a rule about style or reliability.
    """

    weaknesses: Mapping[str, Weakness]
    rules: Mapping[str, Mapping[str, str]]

    def weakness(self, tool: str, rule: str) -> Weakness | None:
        """The weakness that a rule shows; None for a rule about style or reliability.

        Raises:
            ToolError: the catalogue does not know the rule, so that its findings can't be judged.
        """
        known = self.rules.get(tool, {})
        if rule not in known:
            raise ToolError(
                f"{tool} reports {rule!r}, which the catalogue does not know",
                hint="Install the pinned version (sv tools install), or add the rule to catalogue/rules.toml",
            )
        return self.weaknesses[known[rule]] if known[rule] else None

    def finding(
        self,
        *,
        tool: str,
        engine: str,
        version: str,
        rule: str,
        object_id: str,
        file: str,
        line: int | None,
        message: str,
    ) -> Finding:
        """A Finding, its weakness and severity looked up; a rule that shows no weakness is of low severity.

        Raises:
            ToolError: as `weakness`.
        """
        weakness = self.weakness(tool, rule)
        return Finding(
            tool=tool,
            engine=engine,
            tool_version=version,
            rule=rule,
            weakness="" if weakness is None else weakness.id,
            severity=Severity.LOW if weakness is None else weakness.severity,
            object=object_id,
            file=file,
            line=line,
            message=" ".join(message.split()),
        )

    def texts(self) -> dict[str, RuleText]:
        """What a SARIF report says of each weakness."""
        return {w.id: RuleText(w.title, w.cwe, w.controls) for w in self.weaknesses.values()}

    def tools_for(self, weakness: str) -> set[str]:
        """The tools that have a rule for a weakness."""
        return {tool for tool, rules in self.rules.items() if weakness in rules.values()}


def load_catalogue(folder: Path = FOLDER) -> Catalogue:
    """Read weaknesses.toml and rules.toml. Read once a folder.

    weaknesses.toml: a table a weakness id with title, severity, cwe (a number; left out where none fits) and
    controls (a list of texts). rules.toml: a table a tool; `"rule id" = "weakness id"`, or
    `"rule id" = {weakness = "", reason = "..."}` for a rule that shows no weakness.

    Raises:
        DataError: a file is missing or damaged, or a rule names a weakness that is not there.
    """
    return _load(folder)


@cache
def _load(folder: Path) -> Catalogue:
    weaknesses = {key: _weakness(key, row) for key, row in _read(folder / "weaknesses.toml").items()}
    rules = {
        tool: {r: _target(row) for r, row in rows.items()}
        for tool, rows in _read(folder / "rules.toml").items()
    }
    for tool, rows in rules.items():
        for rule, weakness in rows.items():
            if weakness and weakness not in weaknesses:
                raise DataError(
                    f"{tool}'s rule {rule} names the unknown weakness {weakness!r}", where=str(folder)
                )
    return Catalogue(weaknesses, rules)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"the catalogue can't be read: {error}", where=str(path)) from error


def _weakness(key: str, row: Mapping[str, Any]) -> Weakness:
    try:
        cwe = row.get("cwe")
        return Weakness(
            key,
            str(row["title"]),
            Severity(row["severity"]),
            None if cwe is None else int(str(cwe).upper().removeprefix("CWE-")),
            tuple(row.get("controls", ())),
        )
    except (KeyError, ValueError, AttributeError) as error:
        raise DataError(f"the weakness {key!r} is not complete: {error}") from error


def _target(row: Any) -> str:
    return str(row["weakness"]) if isinstance(row, dict) else str(row)
