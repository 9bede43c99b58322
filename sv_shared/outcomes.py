"""How a rollout ends: every planned rollout has exactly one Outcome, and none leaves the denominator."""

from enum import StrEnum


class Outcome(StrEnum):
    """The end of a rollout.

    The first four are the model's own results. The last two are ours: metrics over a run that holds any are
    given with bounds, and a run with more than 2 % of them is invalid until resumed.
    """

    SCORED = "scored"
    """The answer was parsed and scored."""
    ABSTAINED = "abstained"
    """The answer was parsed and declines to decide, which is paid the abstention value."""
    PARSE_FAIL = "parse_fail"
    """No answer in the required form; scores the floor."""
    REFUSED = "refused"
    """The model or its provider declined to answer; scores the floor."""
    GRADER_ERROR = "grader_error"
    """The grader failed, and failed on a known-good control input too."""
    INFRA_ERROR = "infra_error"
    """The provider, the network or this machine failed before there was an answer to grade."""

    @property
    def is_ours(self) -> bool:
        """True where the failure says nothing about the model."""
        return self in (Outcome.GRADER_ERROR, Outcome.INFRA_ERROR)

    @property
    def has_answer(self) -> bool:
        """True where an answer was parsed."""
        return self in (Outcome.SCORED, Outcome.ABSTAINED)


INVALID_ABOVE = 0.02
"""Share of grader and infrastructure errors above which a run is invalid until resumed."""
