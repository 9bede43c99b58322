"""The tools folder on disk: what is in it, and how a tool gets in whole or not at all.

<tools>/.lock                       held while something is being installed
<tools>/.build/                     half-made things and build caches; emptied when everything is installed
<tools>/<name>/<version>/bin/       a tool
<tools>/<name>/<version>/receipt.json
<tools>/<name>/current -> <version>
"""

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from security_verifiers.toolchain.pins import GoPin, PythonPin, recipe
from sv_shared.errors import ToolError
from sv_shared.tool_folder import CURRENT

_LOCK_POLL_S = 0.1
_RECEIPT = "receipt.json"
TOOLCHAIN = "toolchain_"
"""Begins the names of Go toolchains that were brought."""
_HALF = "half-"
"""Begins the names of half-made things, as against caches."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What lies beside an installed tool.

    Attributes:
        recipe: hash of the pins that it was installed from (`pins.recipe`).
        how: the means, such as "go1.26.8" or "uv".
        seconds: wall time that it took.
    """

    recipe: str
    how: str
    seconds: float


class ToolFolder:
    """Installed tools under one folder.

    Args:
        root: the folder; made when something is first written.
        requirements: folder of the pinned Python packages; None: the project's own.
    """

    def __init__(self, root: Path, requirements: Path | None = None) -> None:
        self.root, self.requirements = root, requirements
        self.build = root / ".build"

    def home(self, name: str, pin: GoPin | PythonPin) -> Path:
        """Where this version of the tool lies or would lie."""
        return self.root / name / pin.version

    def holds(self, name: str, pin: GoPin | PythonPin) -> bool:
        """Whether the tool is installed from this very pin and is the current one."""
        return self._made(name, pin) and _link(self.root / name / CURRENT) == pin.version

    def adopt(self, name: str, pin: GoPin | PythonPin) -> None:
        """Make the pinned version the current one if it is there."""
        if self._made(name, pin) and not self.holds(name, pin):
            self._point(name, pin)

    def _made(self, name: str, pin: GoPin | PythonPin) -> bool:
        home = self.home(name, pin)
        receipt = _receipt(home / _RECEIPT)
        return (
            receipt is not None
            and receipt.recipe == recipe(pin, self.requirements)
            and os.access(home / "bin" / (pin.binary or name), os.X_OK)
        )

    @contextlib.contextmanager
    def staging(self, name: str) -> Iterator[Path]:
        """An empty folder to make a tool in, gone afterwards; on the tools' disk, so a move is a rename."""
        self.build.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{_HALF}{name}-", dir=self.build))
        inner = folder / "made"  # unlike mkdtemp's own it has the user's usual permissions
        inner.mkdir()
        try:
            yield inner
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, name: str, pin: GoPin | PythonPin, staged: Path, how: str, seconds: float) -> None:
        """Put a finished tool into its place. Until the last step the former version stays in use.

        Raises:
            OSError: the disk is full or can't be written.
        """
        receipt = Receipt(recipe(pin, self.requirements), how, round(seconds, 1))
        (staged / _RECEIPT).write_text(json.dumps(asdict(receipt), indent=2) + "\n", encoding="utf-8")
        home = self.home(name, pin)
        home.parent.mkdir(parents=True, exist_ok=True)
        if home.exists():
            with self.staging(f"old-{name}") as old:
                home.rename(old / "away")
        staged.rename(home)
        self._point(name, pin)

    def _point(self, name: str, pin: GoPin | PythonPin) -> None:
        # A link can't be overwritten, but renaming a new one over it is atomic.
        with self.staging(f"link-{name}") as folder:
            (folder / CURRENT).symlink_to(pin.version)
            (folder / CURRENT).rename(self.root / name / CURRENT)

    def clear_leftovers(self, *, toolchain: bool) -> None:
        """Remove what killed installs left half-made, and with `toolchain` the Go that was brought.

        Only for the holder of the lock. The caches of builds that failed stay for the next try.
        """
        for pattern in (f"{_HALF}*", f"{TOOLCHAIN}*") if toolchain else (f"{_HALF}*",):
            for place in self.build.glob(pattern):
                shutil.rmtree(place, ignore_errors=True)
        if self.build.is_dir() and not any(self.build.iterdir()):
            self.build.rmdir()

    @contextlib.asynccontextmanager
    async def lock(self, waiting: Callable[[], None], timeout_s: float) -> AsyncIterator[None]:
        """Hold the folder against other processes; a killed holder's lock is free at once.

        Args:
            waiting: called once if another process holds it.
            timeout_s: how long to wait.

        Raises:
            ToolError: it took too long, or the folder can't be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ToolError(
                f"the tools folder can't be written: {error.strerror}",
                where=str(self.root),
                hint="Set SV_TOOLS_DIR to a folder of yours",
            ) from error
        try:
            loop = asyncio.get_running_loop()
            deadline, told = loop.time() + timeout_s, False
            while not _try_lock(handle):
                if not told:
                    waiting()
                    told = True
                if loop.time() > deadline:
                    raise ToolError(
                        f"another process has been installing tools for {timeout_s:g} s",
                        where=str(self.root),
                        hint="End it, then run sv tools install again",
                    )
                await asyncio.sleep(_LOCK_POLL_S)
            yield
        finally:
            os.close(handle)


def size_mb(folder: Path) -> float:
    """Megabytes (of 10^6 bytes) that the files under a folder hold; links count nothing."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            status = os.lstat(os.path.join(place, name))
            total += status.st_size if not os.path.islink(os.path.join(place, name)) else 0
    return total / 1e6


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _link(place: Path) -> str | None:
    try:
        return os.readlink(place)
    except OSError:
        return None  # none there, or something else that we did not make


def _receipt(place: Path) -> Receipt | None:
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        return Receipt(content["recipe"], content["how"], content["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none, or not one of ours: the tool is installed anew
