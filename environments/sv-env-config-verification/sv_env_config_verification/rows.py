"""Rows: the items of E2, each a workspace with its truth."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.inputs import InputError, check_files
from sv_env_config_verification.intent import Predicate
from sv_shared.findings import Severity

Format = Literal["kubernetes", "terraform"]
Difficulty = Literal["easy", "medium", "hard"]
RowKind = Literal["tools-agree", "false-alarm", "unseen", "intent", "clean"]


class Violation(BaseModel):
    """One weakness of one object.

    Attributes:
        id: weakness class, from the catalogue.
        object: identity of the object.
        severity: how bad it is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    object: str = Field(min_length=1)
    severity: Severity

    @property
    def pair(self) -> tuple[str, str]:
        """(weakness, object): what answers and findings are compared by."""
        return self.id, self.object

    @property
    def key(self) -> str:
        """The same as one text, "<id> <object>": the key of `Row.fixes`."""
        return f"{self.id} {self.object}"


class Row(BaseModel):
    """An item: files, what the operator needs of them, and what is wrong with them.

    Attributes:
        id: unique in its dataset.
        format: what the files hold.
        files: text by name.
        statement: the operator's intent in words; "" where there is none.
        intent: what holds of the files and must hold of them after a patch.
        violations: the truth; none for a clean row.
        fixes: for true violations that no tool sees, by `Violation.key`: what is true of a mended workspace.
        patch: a unified diff that mends all violations; None for a clean row.
        difficulty: tier.
        cluster: template family; the rows of one are alike, and intervals treat them as such.
        kind: how the truth relates to what the tools say: the same, less (a false alarm), more (unseen),
            decided by the intent, or nothing at all (clean).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    format: Format
    files: dict[str, str] = Field(min_length=1)
    statement: str = ""
    intent: tuple[Predicate, ...] = ()
    violations: tuple[Violation, ...] = ()
    fixes: dict[str, tuple[Predicate, ...]] = Field(default_factory=dict)
    patch: str | None = None
    difficulty: Difficulty
    cluster: str
    kind: RowKind

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        try:
            check_files(self.files)
        except InputError as error:
            raise ValueError(f"files: {error}") from error
        keys = [violation.key for violation in self.violations]
        if len(set(keys)) < len(keys):
            raise ValueError("violations: one is listed twice")
        known = load_catalogue().weaknesses
        for violation in self.violations:
            if violation.id not in known or known[violation.id].severity is not violation.severity:
                raise ValueError(f"violations: {violation.id} ({violation.severity}) is not in the catalogue")
        if stray := sorted(set(self.fixes) - set(keys)):
            raise ValueError(f"fixes: {stray[0]!r} is no violation of the row")
        if any(not predicates for predicates in self.fixes.values()):
            raise ValueError("fixes: a violation has no predicate")
        if bool(self.patch) is self.is_clean:
            raise ValueError("patch: a row has one if and only if it has violations")
        if self.kind == "clean" and not self.is_clean:
            raise ValueError("kind: a clean row has no violations")
        return self

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.violations

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The true (weakness, object) pairs."""
        return frozenset(violation.pair for violation in self.violations)
