"""`sv tools`: what is printed, and the exit codes."""

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from security_verifiers.cli import tools
from security_verifiers.toolchain import doctor, install
from security_verifiers.toolchain import pins as pins_module
from security_verifiers.toolchain.pins import load_pins
from tests.security_verifiers.toolchain.doubles import World, go_program, pins, script


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The stand-ins, as the whole of what the command sees."""
    world = World(tmp_path)
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SV_TOOLS_DIR", str(world.root))
    monkeypatch.setattr(pins_module, "load_pins", pins)
    monkeypatch.setattr(pins_module, "_REQUIREMENTS", (world.requirements,))
    monkeypatch.setattr(tools, "_environments", lambda: {"e1"})
    return world


def call(*args: str) -> Result:
    return CliRunner().invoke(tools.command, [*args], standalone_mode=False)


def test_install_says_a_line_a_step_and_then_nothing_more_to_do(world: World) -> None:
    first = call("install")
    assert first.return_value == 0
    assert "gadget 1.5.0: building with Go 1.26.8 (minutes)" in first.stderr
    assert "gadget 1.5.0: installed in" in first.stderr
    assert "widget 2.0.0: installed in" in first.stderr
    second = call("install")
    assert second.return_value == 0
    assert second.output.strip() == f"2 tools are there: {world.root}"


def test_a_tool_on_path_is_named(world: World) -> None:
    place = script(world.folder / "bin/gadget", "")
    place.write_bytes(go_program())
    assert f"gadget 1.5.0: found on PATH, {place}" in call("install", "gadget").stderr


def test_nothing_to_do_is_fast(world: World) -> None:
    call("install")
    folder = install.ToolFolder(world.root, world.requirements)

    async def again() -> float:
        began = time.process_time()
        await install.install(pins(), (), folder, watcher=tools._Watcher(), env=world.env)
        return time.process_time() - began

    import asyncio

    assert min(asyncio.run(again()) for _ in range(5)) < 0.05


def test_a_failure_shows_its_tail_and_what_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GO", "offline")
    result = call("install")
    assert "gadget 1.5.0: FAILED" in result.stderr
    assert "    dial tcp: lookup proxy.example: no such host" in result.stderr
    assert "not installed: gadget. Once that is put right: sv tools install gadget" in result.stderr
    assert "widget 2.0.0: installed" in result.stderr


@pytest.mark.parametrize(
    ("names", "environments", "status"),
    [((), {"e1"}, 0), ((), {"e1", "e2"}, 2), (("gadget",), {"e1"}, 2)],
    ids=["not-needed", "needed", "named"],
)
def test_install_fails_for_what_is_named_or_needed(
    world: World, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], environments: set[str], status: int
) -> None:
    monkeypatch.setenv("FAKE_GO", "fail")
    monkeypatch.setattr(tools, "_environments", lambda: environments)
    assert call("install", *names).return_value == status


def test_install_json(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GO", "fail")
    rows = {row["name"]: row for row in json.loads(call("install", "--json").stdout)}
    assert (rows["gadget"]["state"], rows["widget"]["state"]) == ("failed", "installed")
    assert "exit status 1" in rows["gadget"]["error"]
    assert rows["widget"]["error"] is None


def test_the_heartbeat_names_what_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "HEARTBEAT_S", 0.2)
    monkeypatch.setenv("FAKE_SECONDS", "0.7")
    assert "still at it: gadget" in call("install", "gadget").stderr


@pytest.fixture
def broken_opa(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPA is there but fails; its stand-in works."""

    async def works() -> None:
        return None

    monkeypatch.setenv("SV_TOOLS_DIR", str(tmp_path))
    script(tmp_path / "opa/current/bin/opa", "#!/bin/sh\nexit 1\n")
    monkeypatch.setattr(doctor, "FALLBACKS", {"opa-eval": works})
    monkeypatch.setattr(doctor, "version", lambda name: "0.1.1")
    only = load_pins().model_copy(update={"tools": {"opa": load_pins().tools["opa"]}})
    monkeypatch.setattr(pins_module, "load_pins", lambda: only)


@pytest.mark.usefixtures("broken_opa")
@pytest.mark.parametrize(
    ("args", "environments", "status"),
    [
        ((), {"e1", "e2"}, 1),
        ((), {"e1"}, 0),
        (("opa",), {"e1"}, 1),
        (("--allow-fallback",), {"e2"}, 0),
    ],
    ids=["needed", "not-needed", "named", "fallback"],
)
def test_doctor_fails_for_what_is_named_or_needed(
    monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], environments: set[str], status: int
) -> None:
    monkeypatch.setattr(tools, "_environments", lambda: environments)
    assert call("doctor", *args).return_value == status


@pytest.mark.usefixtures("broken_opa")
def test_doctor_shows_a_table_and_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_environments", lambda: {"e2"})
    shown = call("doctor").stdout
    assert "fallback" in shown
    assert "NO" in shown
    assert "opa: opa does not tell its version" in shown
    (row,) = json.loads(call("doctor", "--json").stdout)
    assert (row["name"], row["engine"], row["works"], row["required"]) == ("opa", "fallback", False, True)
