"""One family of errors: what was wrong, where, and what to do next.

The command line prints an `SVError` as one line and exits with its `exit_code`; a traceback is shown only
under `--debug`. Anything that is not an `SVError` is a defect of ours.
"""


class SVError(Exception):
    """Base of every error that a user can meet.

    Args:
        what: what went wrong, as a sentence without a full stop.
        where: the file, line, column, item or endpoint concerned ("" where there is none).
        hint: what to do next ("" where nothing can be said).
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = what, where, hint
        super().__init__(what, where, hint)

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        advice = f". {self.hint}" if self.hint else ""
        return f"{self.what}{place}{advice}"


class UsageError(SVError):
    """A command or a configuration asks for something that does not exist or does not fit together."""


class DataError(SVError):
    """A dataset is missing, cut off, of an unknown schema, or smaller than what was asked for."""


class ModelError(SVError):
    """A model can't be reached, isn't known, or has no key."""


class ToolError(SVError):
    """An external tool is missing, hangs, crashes, or answers in a form that its adapter does not know."""


class ArtifactError(SVError):
    """A run's files can't be written, or what is read back is not what was written."""


class CheckFailed(SVError):
    """A check was carried out and did not hold (an audit, a gate): exit code 1."""

    exit_code = 1
