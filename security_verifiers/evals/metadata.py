"""metadata.json: what a run was, so that it can be believed from this file alone."""

import platform
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import security_verifiers
from security_verifiers.evals.plan import Plan
from security_verifiers.evals.record import SCHEMA_VERSION
from security_verifiers.evals.seats import Seat
from sv_shared.policies import PolicySpec

_PACKAGES = ("security-verifiers", "sv-shared", "verifiers", "numpy", "scipy", "scikit-learn")


def initial_metadata(
    plan: Plan, seats: Mapping[str, Seat], run_id: str, *, concurrency: int
) -> dict[str, Any]:
    """The metadata of a run that is about to start (status "running")."""
    environment, info, anchors = plan.environment, plan.info, plan.anchors
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "status": "running",
        "started": now(),
        "finished": None,
        "environment": {"id": environment.id, "alias": environment.alias, "version": environment.version},
        "code": git_state(Path(security_verifiers.__file__).parent),
        "python": platform.python_version(),
        "packages": {name: installed_version(name) for name in (*_PACKAGES, environment.id)},
        "tools": {name: dict(facts) for name, facts in environment.tools().items()},
        "judges": {},
        "archives": {},
        "dataset": {
            "id": info.id,
            "source": info.source,
            "split": info.split,
            "rows": info.rows,
            "rows_used": len(plan.tasks),
            "sha256": plan.dataset_hash,
            "cluster_kind": info.cluster_kind,
            "details": dict(info.details),
        },
        "seats": {name: _seat(seat) for name, seat in seats.items()},
        "evaluated_seat": environment.evaluated_seat,
        "settings": dict(plan.settings),
        "seed": plan.seed,
        "tasks": len(plan.tasks),
        "samples": plan.samples,
        "planned": plan.size,
        "concurrency": concurrency,
        "reward": {
            "floor": plan.bounds[0],
            "maximum": plan.bounds[1],
            "chance": anchors.chance,
            "chance_answer": anchors.chance_answer,
            "reference": anchors.reference,
            "ceiling": anchors.ceiling,
        },
        "counts": {},
        "tokens": {},
        "cost_usd": None,
        "seconds": 0.0,
        "resumed": [],
    }


def now() -> str:
    """The time in UTC, to the second, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def git_state(folder: Path) -> dict[str, Any]:
    """The commit that the code was run from and whether files differ from it; nulls outside a checkout."""
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}
    return {"commit": commit, "dirty": bool(changed)}


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def installed_version(package: str) -> str | None:
    """The version of an installed package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _seat(seat: Seat) -> dict[str, Any]:
    budget = {"max_turns": seat.max_turns, "max_output_tokens": seat.max_output_tokens}
    if isinstance(seat.player, PolicySpec):
        who = {
            "provider": "policy",
            "kind": str(seat.player.kind),
            "engine": "scripted",
            "deterministic": True,
        }
        return {"model": seat.model, **who, "sampling": {}, "budget": budget}
    info = seat.player.info
    return {
        "model": seat.model,
        "provider": info.provider,
        "kind": "model",
        "engine": info.engine,
        "served_name": info.served_name,
        "host": info.host_kind,
        "context_tokens": info.context_tokens,
        "price": None if info.price is None else info.price.model_dump(mode="json"),
        "sampling": seat.sampling_set,
        "budget": budget,
    }


def differing(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(dotted name, value before, value after) of each leaf in which two trees of settings differ."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted(before.keys() | after.keys()):
            yield from differing(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    elif before != after:
        yield path, before, after
