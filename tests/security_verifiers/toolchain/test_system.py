"""Tools of the operating system: apt-get as root, through sudo, or not at all."""

import pytest

from security_verifiers.toolchain.pins import SystemPin
from security_verifiers.toolchain.system import find_system, install_system
from sv_shared.errors import ToolError
from tests.security_verifiers.toolchain.doubles import World, script

PIN = SystemPin.model_validate({"kind": "system", "apt": "gizmo", "binary": "sv-gizmo", "needed_by": []})

APT = """\
#!/bin/sh
echo "apt $DEBIAN_FRONTEND $*" >>"$FAKE_LOG"
case "$*" in
update*) touch "$FAKE_LISTS" ;;
install*gizmo)
    [ -e "$FAKE_LISTS" ] || { echo "E: Unable to locate package gizmo" >&2; exit 100; }
    [ "$FAKE_APT" = empty ] && exit 0
    printf '#!/bin/sh\\n' >"$FAKE_BIN/sv-gizmo"
    chmod +x "$FAKE_BIN/sv-gizmo" ;;
*) exit 100 ;;
esac
"""
SUDO = """\
#!/bin/sh
echo "sudo $*" >>"$FAKE_LOG"
[ "$FAKE_SUDO" = asks ] && exit 1
shift
unset DEBIAN_FRONTEND
exec "$@"
"""


@pytest.fixture
def debian(world: World) -> World:
    script(world.folder / "bin/apt-get", APT)
    script(world.folder / "bin/sudo", SUDO)
    world.env |= {"FAKE_LISTS": str(world.folder / "lists"), "FAKE_BIN": str(world.folder / "bin")}
    # The machine's own apt-get and sudo must not be reached.
    world.env["PATH"] = f"{world.folder / 'bin'}:{world.folder / 'plain'}"
    (world.folder / "plain").mkdir()
    for name in ("touch", "chmod", "true", "env"):
        script(world.folder / "plain" / name, f'#!/bin/sh\nexec /bin/{name} "$@"\n')
    return world


async def test_root_installs_after_renewing_the_lists(debian: World) -> None:
    await install_system("gizmo", PIN, env=debian.env, timeout_s=10, root=True)
    assert find_system("gizmo", PIN, debian.env) == debian.folder / "bin/sv-gizmo"
    words = [line.split()[2] for line in debian.log.read_text().splitlines()]
    assert words == ["install", "update", "install"]
    assert debian.calls("sudo") == 0
    assert debian.calls("noninteractive") == 3


async def test_others_go_through_sudo(debian: World) -> None:
    await install_system("gizmo", PIN, env=debian.env, timeout_s=10, root=False)
    assert debian.calls("sudo -n true") == 1
    assert debian.calls("apt noninteractive install") == 2


async def test_sudo_that_asks_a_password_is_left_to_the_user(debian: World) -> None:
    with pytest.raises(ToolError, match="sudo apt-get install gizmo"):
        await install_system("gizmo", PIN, env=debian.env | {"FAKE_SUDO": "asks"}, timeout_s=10, root=False)
    assert debian.calls("apt") == 0


async def test_no_apt_tells_the_package(world: World) -> None:
    with pytest.raises(ToolError, match="package gizmo with your system's package manager"):
        await install_system("gizmo", PIN, env=world.env | {"PATH": "/nowhere"}, timeout_s=10, root=True)


async def test_a_package_without_the_program_is_a_failure(debian: World) -> None:
    with pytest.raises(ToolError, match="sv-gizmo is still missing"):
        await install_system("gizmo", PIN, env=debian.env | {"FAKE_APT": "empty"}, timeout_s=10, root=True)


async def test_another_platform_is_said(debian: World) -> None:
    elsewhere = PIN.model_copy(update={"platforms": ("plan9",)})
    with pytest.raises(ToolError, match="does not exist for"):
        await install_system("gizmo", elsewhere, env=debian.env, timeout_s=10, root=True)
    assert debian.log.read_text() == ""
