"""What can be wrong with a configuration file before any tool looks at it."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath

from sv_shared.errors import DataError
from sv_shared.sarif import Notice

MAX_BYTES = 1 << 19
"""Largest file, in bytes of UTF-8. Usual files hold a few kB; one of this size may cost half a second."""

MAX_TOTAL = 1 << 21
"""Most bytes in one workspace."""

MAX_FILES = 500
"""Most files in one workspace."""

_HELM = re.compile(
    r"\{\{-?\s*(\.(Values|Release|Chart|Capabilities|Files|Template)\b|(include|template|define|tpl)\s)"
)


class Problem(StrEnum):
    """Why a file can't be judged: the `label` of a `Notice`."""

    TOO_LARGE = "too-large"
    BINARY = "binary"
    BAD_NAME = "bad-name"
    UNKNOWN_KIND = "unknown-file-type"
    INVALID_YAML = "invalid-yaml"
    HELM_TEMPLATE = "helm-template"
    DUPLICATE_KEY = "duplicate-key"
    TOO_COMPLEX = "too-complex"
    NOT_AN_OBJECT = "not-an-object"
    INVALID_HCL = "invalid-hcl"
    REFUSED = "refused-by-tool"


class InputError(DataError):
    """Files can't be judged, and the files are the cause. Says nothing about the tools.

    Attributes:
        notices: what is wrong with which file; at least one.
    """

    def __init__(self, notices: Sequence[Notice]) -> None:
        self.notices = tuple(notices)
        first = self.notices[0]
        more = f" (and {len(self.notices) - 1} more)" if len(self.notices) > 1 else ""
        place = first.file if first.line is None else f"{first.file}:{first.line}"
        super().__init__(f"{first.label}: {first.message}{more}", where=place)

    @property
    def labels(self) -> set[str]:
        """The kinds of problems."""
        return {notice.label for notice in self.notices}


def problem(label: Problem, message: str, file: str, line: int | None = None) -> InputError:
    """An InputError with one notice."""
    return InputError([Notice(file, line, label.value, message)])


def language(file: str) -> str:
    """The language of a file by its name's ending: "yaml", "hcl" or "tfvars".

    Raises:
        InputError: it has another ending.
    """
    suffix = PurePosixPath(file).suffix.lower()
    if suffix in (".yaml", ".yml", ".json"):
        return "yaml"
    if suffix in (".tf", ".tfvars"):
        return {".tf": "hcl", ".tfvars": "tfvars"}[suffix]
    raise problem(Problem.UNKNOWN_KIND, "not a .yaml, .yml, .json, .tf or .tfvars file", file)


def check_files(files: Mapping[str, str]) -> None:
    """Refuse what no parser should be given.

    Args:
        files: text by file name; names are relative, with "/" between folders.

    Raises:
        InputError: too many files, or some that are too large, binary, or badly named; all of them are told.
    """
    if len(files) > MAX_FILES:
        raise problem(Problem.TOO_LARGE, f"{len(files)} files; at most {MAX_FILES} are taken", min(files))
    notices: list[Notice] = []
    for name, text in files.items():
        try:
            _check_name(name)
            language(name)
            _check_text(name, text)
        except InputError as error:
            notices += error.notices
    if notices:
        raise InputError(notices)
    if sum(map(len, files.values())) > MAX_TOTAL:
        raise problem(Problem.TOO_LARGE, f"the files hold more than {MAX_TOTAL:,} bytes together", min(files))


def is_helm_template(text: str) -> bool:
    """Whether the text uses what only Helm can fill in, such as `{{ .Values.image }}`."""
    return _HELM.search(text) is not None


def _check_name(name: str) -> None:
    parts = name.split("/")
    plain = name.isprintable() and "\\" not in name and len(name.encode("utf-8", "replace")) <= 255
    if not plain or any(part in ("", ".", "..") for part in parts):
        shown = ascii(name)[:80]
        raise problem(Problem.BAD_NAME, f"{shown} is not a relative path without '..'", shown)


def _check_text(name: str, text: str) -> None:
    # The first test is cheap, so that a text of gigabytes is not encoded only to be measured.
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise problem(Problem.TOO_LARGE, f"larger than {MAX_BYTES:,} bytes", name)
    for place, character in enumerate(text):
        if (character < " " and character not in "\t\n\r") or "\ud800" <= character <= "\udfff":
            line = text.count("\n", 0, place) + 1
            raise problem(Problem.BINARY, f"holds the character {character!a}", name, line)
