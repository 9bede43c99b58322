"""AblationConfig: which parts of a reward are taken away, read from configs/experiments/<env>/<date>.yaml."""

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from security_verifiers.evals.plan import DEFAULT_SEED
from sv_shared.environment import Environment
from sv_shared.errors import UsageError

_PACKAGE = Path(__file__).resolve().parents[1]
PLACES = (_PACKAGE / "configs" / "experiments", _PACKAGE.parent / "configs" / "experiments")
"""Where the project's own experiments lie: in a wheel, in a checkout."""

_DATED = re.compile(r"\d{4}-\d{2}-\d{2}.*\.ya?ml")


def nested(settings: Any) -> Any:
    """Settings with dotted names taken apart: {"a.b": 1} is {"a": {"b": 1}}.

    Raises:
        ValueError: a name is no text or has an empty part, or two names set the same thing.
    """
    if not isinstance(settings, Mapping):
        return settings
    whole: dict[str, Any] = {}
    for name, value in settings.items():
        parts = name.split(".") if isinstance(name, str) else [""]
        if not all(parts):
            raise ValueError(f"{name!r} is not the name of a setting")
        tree = nested(value)
        for part in reversed(parts):
            tree = {part: tree}
        _join(whole, tree, "")
    return whole


def _join(into: dict[str, Any], more: Mapping[str, Any], path: str) -> None:
    for name, value in more.items():
        if name not in into:
            into[name] = value
        elif isinstance(into[name], dict) and isinstance(value, Mapping):
            _join(into[name], value, f"{path}{name}.")
        else:
            raise ValueError(f"{path}{name} is set twice")


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others laid over them, group by group."""
    result = dict(base)
    for name, value in over.items():
        below = result.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = merged(below, value)
        result[name] = value
    return result


Settings = Annotated[dict[str, JsonValue], BeforeValidator(nested)]


class Arm(BaseModel):
    """One variant of the experiment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    settings: Settings = Field(default_factory=dict)
    """What differs from the experiment's own settings."""
    how: Literal["run", "rescore"] = "run"
    """"run": played anew, with a prompt that states the payoffs in force. "rescore": the control's answers,
    graded under this arm's settings; the players saw the control's prompt."""
    note: str = ""
    """What the arm is for; stands under its table."""


class AblationConfig(BaseModel):
    """An experiment: players, tasks, and arms of which the first is the control."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: str
    """Alias or full id."""
    tasks: Annotated[int, Field(ge=1)] | None = None
    """Tasks drawn with the seed; null takes all."""
    rollouts: Annotated[int, Field(ge=1)] = 1
    """Samples a task."""
    seed: int = DEFAULT_SEED
    """Seeds the draw and every rollout: each arm plays the same tasks."""
    players: Annotated[list[str], Field(min_length=1)]
    """Names as `sv eval --model` takes them."""
    settings: Settings = Field(default_factory=dict)
    """Settings of every arm."""
    arms: Annotated[dict[str, Arm], Field(min_length=2)]
    """By name, in the order of the report."""

    @model_validator(mode="after")
    def _control_is_played(self) -> "AblationConfig":
        if self.arms[self.control].how != "run":
            raise ValueError(f"the first arm, {self.control}, is the control and can't be a rescore")
        return self

    @property
    def control(self) -> str:
        """The arm that the others are compared with."""
        return next(iter(self.arms))

    def settings_of(self, arm: str) -> dict[str, Any]:
        """Every setting that an arm gives."""
        return merged(self.settings, self.arms[arm].settings)

    def only(self, arms: Sequence[str]) -> "AblationConfig":
        """The experiment with the named arms; the control is always among them.

        Raises:
            UsageError: there is no such arm.
        """
        for name in arms:
            if name not in self.arms:
                raise UsageError(f"there is no arm {name!r}", hint=f"It has {', '.join(self.arms)}")
        kept = {name: arm for name, arm in self.arms.items() if name in arms or name == self.control}
        if len(kept) < 2:
            raise UsageError(f"{self.control} is the control: name an arm to compare with it")
        return self.model_copy(update={"arms": kept})


def newest_config(environment: Environment, places: Sequence[Path] = PLACES) -> Path:
    """The newest experiment of an environment, by the date that its name begins with.

    Raises:
        UsageError: there is none.
    """
    for place in places:
        found = [path for path in (place / environment.alias).glob("*") if _DATED.fullmatch(path.name)]
        if found:
            return max(found, key=lambda path: path.name)
    raise UsageError(
        f"no experiment is planned for {environment.alias}",
        where=str(places[-1] / environment.alias),
        hint="Name one with --config",
    )


def load_config(path: Path) -> AblationConfig:
    """Read an experiment.

    Raises:
        UsageError: the file is missing, is no YAML, or has a wrong key; one line names file and key.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Strict)
        return AblationConfig.model_validate(content)
    except (OSError, UnicodeDecodeError) as error:
        told = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"the experiment can't be read: {told}", where=str(path)) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(
            f"the experiment is no YAML: {' '.join(str(error).split())}", where=str(path)
        ) from error
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        said = problem["msg"].removeprefix("Value error, ")
        raise UsageError(f"{key}: {said}" if key else said, where=str(path)) from error


class _Strict(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error: PyYAML would drop the first arm in silence."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key_node.value!r} stands twice", key_node.start_mark
                )
            if isinstance(key_node.value, str):
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)
