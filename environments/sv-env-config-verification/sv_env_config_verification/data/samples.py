"""Samples: real configuration files with what is known of them, and what was refused on the way."""

import difflib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.rows import Difficulty, Format, Row, Violation

Labels = Literal["source", "tools", "none"]
"""Who says what is wrong: the dataset, the union of the tools (for tests only), or no one yet."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Files that are judged together, from a dataset.

    Attributes:
        id: unique in its collection: the path of the file or folder, or of a record in a file of pairs.
        format: what the files hold.
        files: text by name, relative to the sample's folder.
        violations: what is wrong, by (weakness, object); complete as far as `labels` knows.
        labels: who says so.
        fixed: the mended files, where the source has them.
    """

    id: str
    format: Format
    files: dict[str, str]
    violations: tuple[Violation, ...] = ()
    labels: Labels = "none"
    fixed: dict[str, str] | None = None

    @property
    def is_test_only(self) -> bool:
        """Whether its labels are no truth: a model must not be trained or ranked on what tools say."""
        return self.labels != "source"

    def patch(self) -> str | None:
        """A unified diff from `files` to `fixed`; None without `fixed` or where both are the same."""
        if self.fixed is None:
            return None
        parts = [_diff(name, self.files[name], self.fixed[name]) for name in sorted(self.files)]
        return "".join(parts) or None

    def to_row(self, difficulty: Difficulty = "medium") -> Row:
        """The sample as an item of E2; kind "tools-agree", or "clean" where nothing is wrong.

        Raises:
            ValueError: it has no labels; or it is wrong somewhere and has no mended files, without which an
                item has no reference patch.
        """
        if self.labels == "none":
            raise ValueError(f"{self.id} has no labels")
        if self.violations and self.patch() is None:
            raise ValueError(f"{self.id} has violations but no mended files to make a reference patch from")
        return Row(
            id=self.id,
            format=self.format,
            files=self.files,
            violations=self.violations,
            patch=self.patch() if self.violations else None,
            difficulty=difficulty,
            cluster=self.id,
            kind="tools-agree" if self.violations else "clean",
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file, or a record of one, that is in no sample.

    Attributes:
        path: relative to the dataset's folder; a record's is `file#number`.
        reason: a label, such as "helm-template"; see `inputs.Problem` and `folders`.
        message: the same in words.
    """

    path: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Collection:
    """What a dataset's folder or file came to. Every file is in a sample or in a refusal.

    Attributes:
        samples: in the order of their ids.
        refused: in the order of their paths.
    """

    samples: tuple[Sample, ...]
    refused: tuple[Refusal, ...]

    @property
    def reasons(self) -> dict[str, int]:
        """How many were refused for what reason, the most frequent first."""
        return dict(Counter(refusal.reason for refusal in self.refused).most_common())

    @property
    def files(self) -> int:
        """How many files lie in samples."""
        return sum(len(sample.files) for sample in self.samples)


def violations_of(pairs: Iterable[tuple[str, str]]) -> tuple[Violation, ...]:
    """Violations for (weakness, object) pairs, each once and in order, with the catalogue's severity.

    Raises:
        ValueError: the catalogue does not know a weakness, or an object is empty.
    """
    known = load_catalogue().weaknesses
    wanted = sorted(set(pairs))
    if unknown := [weakness for weakness, _ in wanted if weakness not in known]:
        raise ValueError(f"the catalogue knows no weakness {unknown[0]!r}")
    return tuple(Violation(id=w, object=o, severity=known[w].severity) for w, o in wanted)


def _diff(name: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    marked = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(marked)
