"""`sv audit`: exit codes, and what it prints."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from security_verifiers.cli.main import main
from sv_env_network_logs.environment import NetworkLogs
from sv_shared.policies import PolicyKind

from .conftest import SMALL, Planted

SETTINGS = ["--dataset", "synth", "--set", f"synth_rows={SMALL['synth_rows']}"]


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def sv(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Ended]]:
    """Runs the command line in this process, on E1 with few policies."""
    planted = Planted().policies("agent")
    monkeypatch.setattr(NetworkLogs, "policies", lambda self, seat: planted)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["sv", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_what_holds_ends_with_0(sv: Callable[..., Ended]) -> None:
    ended = sv("audit", "e1", *SETTINGS)
    assert ended.code == 0
    assert "sv-env-network-logs: 40 tasks of synth/e1/flow" in ended.out
    assert "15 checks hold, 0 fail" in ended.out
    assert "exempt: synth/e1/flow has 40 tasks" in " ".join(ended.out.split())


def test_what_fails_ends_with_1_and_is_named(sv: Callable[..., Ended]) -> None:
    ended = sv("audit", "e1", *SETTINGS, "--set", "task.weights.calibration_form=linear")
    assert ended.code == 1
    failures = [line.split()[1] for line in ended.out.splitlines() if line.startswith("FAILED")]
    assert "proper" in failures
    assert f"{15 - len(failures)} checks hold, {len(failures)} fail" in ended.out


@pytest.mark.parametrize("value", ["0.5", "2"])
def test_json_is_all_that_is_printed(value: str, sv: Callable[..., Ended]) -> None:
    ended = sv("audit", "e1", *SETTINGS, "-n", "30", "--json", "--set", f"task.weights.cost={value}")
    content = json.loads(ended.out)
    assert ended.code == 1
    assert content["passed"] is False
    assert content["dataset"]["tasks"] == 30
    assert "cost" in {check["check"] for check in content["checks"] if not check["passed"]}
    assert {policy["kind"] for policy in content["policies"]} <= set(map(str, PolicyKind))
    assert ended.err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit", "e77"], "no environment named 'e77'"),
        (["audit", "e1", "--set", "colour=1"], "'colour'"),
        (["audit", "e1", "--set", "colour"], "not of the form NAME=VALUE"),
        (["audit", "e1", "--split", "train"], "public-mini has a test split only"),
        (["audit", "e1", "--dataset", "no/such/folder"], "no/such/folder"),
        (["audit", "e1", "-n", "5000"], "5000 tasks were asked for"),
        (["audit", "e1", "-n", "0"], "0 tasks were asked for"),
        (["audit"], "Missing argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_use_ends_with_2_and_one_line(arguments: list[str], said: str, sv: Callable[..., Ended]) -> None:
    ended = sv(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert said in ended.err
    assert "Traceback" not in ended.err
