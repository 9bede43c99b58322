"""Casting: from the names on a command line to players in seats."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from security_verifiers.evals.plan import Plan
from security_verifiers.evals.seats import Seat
from security_verifiers.models.base import Model, Sampling
from security_verifiers.models.connect import connect
from security_verifiers.models.limits import Limiters
from security_verifiers.models.portfolio import PolicyRef, Portfolio, load_portfolio
from sv_shared.environment import Environment
from sv_shared.errors import ModelError, UsageError
from sv_shared.policies import PolicySpec

POLICY_PREFIX = "policy:"


@dataclass(frozen=True, slots=True)
class Player:
    """Who may take a seat.

    Attributes:
        name: the public name, as it stands in metadata and folders.
        player: a model that is not started yet, or a scripted policy.
        sampling: what a model will be sent, the portfolio's defaults filled in.
    """

    name: str
    player: Model | PolicySpec
    sampling: Sampling = field(default_factory=Sampling)
    forced_form: bool = False
    """Whether the model's server forces its answers into the environment's form."""

    def seat(self, name: str, answer_schema: Mapping[str, Any] | None) -> Seat:
        """The player in a seat.

        Args:
            name: the seat.
            answer_schema: the form of this seat's answers, where the environment declares one.
        """
        schema = answer_schema if self.forced_form else None
        return Seat(name, self.name, self.player, replace(self.sampling, answer_schema=schema))


class Casting:
    """Resolves names; one for a whole command, so that models of one key share its rate limits.

    Args:
        env: environment variables; keys are read from it and go nowhere else.
        say: told what starting a model waits for.
    """

    def __init__(self, env: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._env, self._say = env, say
        self._limiters = Limiters()

    @cached_property
    def portfolio(self) -> Portfolio:
        """The models of configs/models.toml."""
        return load_portfolio()

    def fill(
        self, environment: Environment, name: str, opponent: str | None, wishes: Mapping[str, Sampling]
    ) -> dict[str, Player]:
        """The named player in the evaluated seat, the opponent or the environment's default in the others.

        Raises:
            ModelError: a name is not known, or a model can't be reached as configured.
            UsageError: an opponent for an environment of one seat.
        """
        others = [seat for seat in environment.seats if seat != environment.evaluated_seat]
        if opponent is not None and not others:
            raise UsageError(f"{environment.alias} has one seat; --opponent has none to fill")
        names = {environment.evaluated_seat: name}
        for seat in others:
            names[seat] = opponent or f"{POLICY_PREFIX}{environment.default_opponents[seat]}"
        return {
            seat: self.player(environment, seat, name, wishes.get(seat, Sampling()))
            for seat, name in names.items()
        }

    def player(self, environment: Environment, seat: str, name: str, wishes: Sampling) -> Player:
        """The player of one seat.

        Args:
            environment: whose policies `policy:<name>` means.
            seat: the seat.
            name: a portfolio id, `policy:<name>`, or `openai:<served name>@<base URL>`.
            wishes: sampling settings of the run, over the portfolio's.
        """
        entry = self.portfolio.resolve(name)
        if isinstance(entry, PolicyRef):
            return self._policy(environment, seat, entry.name)
        model = connect(entry, self._env, self._limiters, progress=self._say)
        return Player(entry.id, model, entry.effective(wishes), entry.table.forced_form)

    def _policy(self, environment: Environment, seat: str, name: str) -> Player:
        known = environment.policies(seat)
        if name not in known:
            listed = ", ".join(sorted(known))
            raise ModelError(
                f"{environment.alias} has no policy {name!r} for the seat {seat}", hint=f"It has {listed}"
            )
        return Player(f"{POLICY_PREFIX}{name}", known[name])


def check_players(players: Mapping[str, Player], plan: Plan) -> None:
    """Refuse a policy that can't play some of the tasks.

    Raises:
        UsageError: names the policy and how many tasks.
    """
    for player in players.values():
        if isinstance(player.player, PolicySpec):
            lacking = sum(not player.player.can_play(task.data) for task in plan.tasks)
            if lacking:
                raise UsageError(
                    f"{player.name} can't play {lacking} of the {len(plan.tasks)} tasks of {plan.info.id}"
                )
