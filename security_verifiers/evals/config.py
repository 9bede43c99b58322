"""config.toml: what a run was asked to do, enough to start it again."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from security_verifiers.evals.artifacts import CONFIG, write_text
from security_verifiers.evals.plan import Plan
from security_verifiers.evals.seats import Seat
from sv_shared.errors import ArtifactError, UsageError

_KEYS = (
    "environment",
    "tasks",
    "rollouts",
    "seed",
    "concurrency",
    "time_limit_s",
    "nulls",
    "dataset",
    "seats",
)


def write_config(
    folder: Path, plan: Plan, seats: Mapping[str, Seat], *, concurrency: int, time_limit_s: float
) -> None:
    """Write the config.toml of a run.

    Raises:
        ArtifactError: the file can't be written (an earlier one stays).
    """
    content = {
        "environment": plan.environment.id,
        "tasks": len(plan.tasks),
        "rollouts": plan.samples,
        "seed": plan.seed,
        "concurrency": concurrency,
        "time_limit_s": time_limit_s,
        # TOML has no null, and null is a value of some settings: those are listed by their dotted names.
        "nulls": [".".join(path) for path in _nulls(plan.config)],
        "dataset": _without_nulls(plan.config),
        "seats": {name: _seat(seat) for name, seat in seats.items()},
    }
    write_text(folder / CONFIG, tomli_w.dumps(content))


def read_config(folder: Path) -> dict[str, Any]:
    """The config.toml of a run's folder, nulls put back.

    Raises:
        UsageError: the folder holds no run.
        ArtifactError: the file is broken.
    """
    try:
        config = tomllib.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            "no run to resume here", where=str(folder), hint="Name the folder of a run"
        ) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ArtifactError(f"can't read {CONFIG}: {error}", where=str(folder)) from error
    if lacking := [name for name in _KEYS if name not in config]:
        raise ArtifactError(f"{CONFIG} lacks {', '.join(lacking)}", where=str(folder))
    try:
        for name in config["nulls"]:
            *groups, leaf = name.split(".")
            place = config["dataset"]
            for group in groups:
                place = place.setdefault(group, {})
            place[leaf] = None
    except (KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{CONFIG} is not one of ours: {error}", where=str(folder)) from error
    return config


def _seat(seat: Seat) -> dict[str, Any]:
    """Who sits there, without the form of its answers: that is the environment's, which gives it again."""
    sampling = {name: value for name, value in seat.sampling_set.items() if name != "answer_schema"}
    return {"model": seat.model, "sampling": sampling}


def _nulls(settings: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in settings.items():
        if value is None:
            yield (*path, name)
        elif isinstance(value, Mapping):
            yield from _nulls(value, (*path, name))


def _without_nulls(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nulls(value) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if value is not None
    }
