"""Row files: datasets with one JSON object a line, as they ship with the project."""

from collections.abc import Iterator
from pathlib import Path

from sv_shared.errors import DataError


def read_rows(path: Path, hint: str) -> str:
    """The text of a row file.

    Args:
        path: the file.
        hint: what to do where it can't be read.

    Raises:
        DataError: it can't be read, or is no UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"can't read the data set: {error}", where=str(path), hint=hint) from error


def numbered_rows(text: str, where: str, hint: str) -> Iterator[tuple[str, str]]:
    """(line without its end, "file:number") of each line.

    Args:
        text: lines that each end with a line feed.
        where: the file, for messages.
        hint: what to do where the text is not whole.

    Raises:
        DataError: there are none, or the last one is cut off.
    """
    if not text.endswith("\n"):
        raise DataError("the data set is empty or its last line is cut off", where=where, hint=hint)
    # Not splitlines: JSON strings may hold the other characters that it takes for line ends.
    for number, line in enumerate(text[:-1].split("\n"), 1):
        yield line, f"{where}:{number}"
