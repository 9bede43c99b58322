"""Tools from PyPI: a virtual environment of their own, every package pinned with its hash."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from security_verifiers.toolchain.steps import run_step, user_env

_CHECKOUT = Path(__file__).resolve().parents[2]
_CERTIFICATES = "/etc/ssl/certs"


def find_uv(env: Mapping[str, str]) -> Path | None:
    """uv from PATH, else the private one that a checkout's set-up brings; None where there is neither."""
    private = _CHECKOUT / ".tools" / "uv" / "bin"
    found = shutil.which("uv", path=f"{env.get('PATH', '')}:{private}")
    return None if found is None else Path(found)


async def make_venv(
    place: Path, requirements: Path, *, env: Mapping[str, str], timeout_s: float, python: str = sys.executable
) -> str:
    """Make a virtual environment that holds exactly the pinned packages.

    Args:
        place: an empty folder.
        requirements: every package as name==version with hashes; anything else is refused.
        env: the user's environment: index, proxy and certificates are theirs to choose.
        timeout_s: limit of each of the two steps.
        python: the interpreter.

    Returns:
        The means: "uv" or "pip".

    Raises:
        ToolError: a step failed.
    """
    variables = user_env(env, {"VIRTUAL_ENV": None, "PYTHONPATH": None, "PYTHONHOME": None})
    pinned = ("install", "--quiet", "--require-hashes", "-r", requirements)
    uv = find_uv(env)
    steps: Sequence[tuple[str, Path, Sequence[str | Path]]]
    if uv is not None:
        if os.path.isdir(_CERTIFICATES):  # noqa: ASYNC240 - no file is read
            # Trust what this machine trusts: behind a proxy with a certificate of its own uv's bundled
            # list is not enough.
            variables.setdefault("UV_SYSTEM_CERTS", "true")
        steps = (
            ("uv", uv, ("venv", "--quiet", "--no-project", "--python", python, place)),
            ("uv", uv, ("pip", *pinned, "--python", place / "bin" / "python")),
        )
    else:
        inside = place / "bin" / "python"
        steps = (
            ("python -m venv", Path(python), ("-m", "venv", place)),
            ("pip", inside, ("-m", "pip", "--disable-pip-version-check", "--no-input", *pinned)),
        )
    for name, binary, args in steps:
        await run_step(name, binary, args, env=variables, cwd=place.parent, timeout_s=timeout_s)
    return "pip" if uv is None else "uv"


def rebase_scripts(venv: Path, final: Path) -> None:
    """Let the scripts of an environment that is about to be moved name the place it moves to."""
    old, new = bytes(venv), bytes(final)
    for script in (venv / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        content = script.read_bytes()
        if content.startswith(b"#!") and old in content:
            mode = script.stat().st_mode
            script.write_bytes(content.replace(old, new))
            script.chmod(mode)
