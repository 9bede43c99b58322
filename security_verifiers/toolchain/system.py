"""Tools that the operating system's own packages bring."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from security_verifiers.toolchain.pins import SystemPin, on_this_platform
from security_verifiers.toolchain.steps import run_step, user_env
from sv_shared.errors import ToolError
from sv_shared.tools import BASE_ENV


def find_system(name: str, pin: SystemPin, env: Mapping[str, str]) -> Path | None:
    """The tool's executable, searched for as `sv_shared.tools.find_binary` does; None where it is missing."""
    path = os.pathsep.join([BASE_ENV["PATH"], env.get("PATH", "")])
    found = shutil.which(pin.binary or name, path=path)
    return None if found is None else Path(found)


async def install_system(
    name: str, pin: SystemPin, *, env: Mapping[str, str], timeout_s: float, root: bool | None = None
) -> None:
    """Install the tool with apt-get, as root or where sudo asks no password.

    Args:
        name, pin: which tool.
        env: the user's environment.
        timeout_s: limit of each step.
        root: whether this process is root; None: ask the system.

    Raises:
        ToolError: apt-get fails, or is not ours to use here; the hint says what the user can do.
    """
    by_hand = f"Install the package {pin.apt} with your system's package manager"
    if not on_this_platform(pin):
        raise ToolError(f"{name} does not exist for {sys.platform}", hint="Use Linux, or a Linux container")
    apt, path = shutil.which("apt-get", path=env.get("PATH", "")), env.get("PATH", "")
    if apt is None:
        raise ToolError(f"{name} is not installed, and there is no apt-get to install it", hint=by_hand)
    command = [apt]
    if not (os.geteuid() == 0 if root is None else root):
        sudo = shutil.which("sudo", path=path)
        if sudo is None or not await _may(Path(sudo), env):
            raise ToolError(f"{name} needs root to install", hint=f"Run: sudo apt-get install {pin.apt}")
        # sudo clears the environment.
        command = [sudo, "-n", "env", "DEBIAN_FRONTEND=noninteractive", apt]
    options = ("-y", "-q", "-o", "DPkg::Lock::Timeout=120")
    variables = user_env(env, {"DEBIAN_FRONTEND": "noninteractive"})

    async def run(*args: str) -> None:
        await run_step(
            "apt-get",
            Path(command[0]),
            (*command[1:], *args),
            env=variables,
            cwd=Path("/"),
            timeout_s=timeout_s,
        )

    try:
        await run("install", *options, "--no-install-recommends", pin.apt)
    except ToolError:
        # On a fresh machine the lists of packages are missing or old.
        await run("update", *options)
        await run("install", *options, "--no-install-recommends", pin.apt)
    if find_system(name, pin, env) is None:
        raise ToolError(
            f"apt-get installed {pin.apt}, but {pin.binary or name} is still missing", hint=by_hand
        )


async def _may(sudo: Path, env: Mapping[str, str]) -> bool:
    try:
        await run_step("sudo", sudo, ("-n", "true"), env=env, cwd=Path("/"), timeout_s=10)
    except ToolError:
        return False
    return True
