"""OPA's adapter: one warm server, replaced when it dies, gone when we are; errors are told as errors."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from sv_env_config_verification.adapters import opa
from sv_env_config_verification.adapters.base import Desk, hash_folder
from sv_env_config_verification.adapters.opa import OpaAdapter
from sv_env_config_verification.inputs import InputError
from sv_shared.errors import ToolError
from sv_shared.tool_cache import ToolCache
from sv_shared.tools import Tool, ToolMissing
from tests.sv_env_config_verification.doubles import POD, need, script, small_desk

RULES = {"k8s.host-pid": "host-pid"}
POLICY = """package sv
import rego.v1
findings contains {"rule": "k8s.host-pid", "id": d.id, "file": d.file, "line": d.line, "message": "bad"} if {
    some d in input.kubernetes
    d.object.spec.hostPID
}
"""
SERVER = """
import socket, threading
path = sys.argv[sys.argv.index("--addr") + 1].removeprefix("unix://")
def reply(conn, status, body):
    head = f"HTTP/1.1 {status} X\\r\\nContent-Length: {len(body)}\\r\\nConnection: close\\r\\n\\r\\n"
    conn.sendall(head.encode() + body)
    conn.close()
server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen()
while True:
    conn, _ = server.accept()
    text = b""
    while b"\\r\\n\\r\\n" not in text:
        piece = conn.recv(65536)
        if not piece: break
        text += piece
    if not text: conn.close(); continue
    head, _, body = text.partition(b"\\r\\n\\r\\n")
    size = int(head.lower().split(b"content-length:")[1].split()[0])
    while len(body) < size: body += conn.recv(65536)
    empty = b'"kubernetes": []' in body
"""


def fake(folder: Path, reply: str, timeout_s: float = 20.0) -> OpaAdapter:
    return OpaAdapter(
        small_desk(opa=RULES), tool=script(folder, SERVER + f"    {reply}"), timeout_s=timeout_s
    )


@pytest.fixture
def policies(tmp_path):
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "main.rego").write_text(POLICY)
    return folder


@pytest_asyncio.fixture
async def real(policies):
    need("opa", "opa")
    adapter = OpaAdapter(small_desk(opa=RULES), policies=policies)
    yield adapter
    await adapter.close()


def servers(adapter: OpaAdapter) -> list[psutil.Process]:
    assert adapter._server is not None
    children = psutil.Process(adapter._server.child.process.pid).children()
    return [child for child in children if "opa" in child.name()]


def all_end(family: list[psutil.Process], timeout_s: float = 10.0) -> bool:
    """Whether all end in time; one that has ended and that nobody has asked for yet has ended, too."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family):
            return True
        time.sleep(0.02)
    return False


async def test_findings_come_from_one_warm_server(real):
    found = await real.scan({"a.yaml": POD % "x" + "---\n" + POD.replace("true", "false") % "y"})
    assert [(f.object, f.line, f.weakness, f.severity, f.engine) for f in found] == [
        ("Pod/default/x", 1, "host-pid", "high", "opa")
    ]
    (server,) = servers(real)
    names = [f"n{i}" for i in range(40)]
    rows = await asyncio.gather(*(real.scan({"a.yaml": POD % name}) for name in names))
    assert [[f.object for f in row] for row in rows] == [[f"Pod/default/{name}"] for name in names]
    assert servers(real) == [server]
    assert not [c for c in server.net_connections() if c.status == psutil.CONN_LISTEN and c.family != 1]


async def test_a_killed_server_is_replaced(real):
    await real.scan({"a.yaml": POD % "x"})
    (server,) = servers(real)
    server.kill()
    psutil.wait_procs([server])
    await asyncio.sleep(0.1)
    assert len(await real.scan({"a.yaml": POD % "y"})) == 1
    assert servers(real) != [server]


async def test_close_leaves_no_process_and_no_file(real):
    await real.scan({"a.yaml": POD % "x"})
    group, folder = psutil.Process(real._server.child.process.pid), real._server._folder
    family = [group, *group.children(recursive=True)]
    await real.close()
    assert all_end(family)
    assert not folder.exists()
    await real.close()


def test_the_server_ends_when_its_owner_is_killed(policies):
    need("opa", "opa")
    code = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from tests.sv_env_config_verification.doubles import POD, small_desk\n"
        "from sv_env_config_verification.adapters.opa import OpaAdapter\n"
        "async def main():\n"
        f"    adapter = OpaAdapter(small_desk(opa={RULES!r}), policies=Path({str(policies)!r}))\n"
        "    await adapter.scan({'a.yaml': POD % 'x'})\n"
        "    print(adapter._server.child.process.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).resolve().parents[2]
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root)
    assert owner.stdout is not None
    leash = psutil.Process(int(owner.stdout.readline()))
    family = [leash, *leash.children(recursive=True)]
    assert any("opa" in process.name() for process in family)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert all_end(family)


async def test_a_broken_policy_is_told_in_opas_words(policies):
    need("opa", "opa")
    (policies / "bad.rego").write_text("package sv\nnonsense(\n")
    adapter = OpaAdapter(small_desk(opa=RULES), policies=policies)
    started = time.monotonic()
    with pytest.raises(ToolError, match=r"ended at its start.*bad\.rego"):
        await adapter.scan({"a.yaml": POD % "x"})
    assert time.monotonic() - started < 15


async def test_policies_without_findings_are_an_error(policies):
    need("opa", "opa")
    (policies / "main.rego").write_text("package other\n")
    adapter = OpaAdapter(small_desk(opa=RULES), policies=policies)
    with pytest.raises(ToolError, match="form"):
        await adapter.scan({"a.yaml": POD % "x"})
    await adapter.close()


ROW = '{"rule": "k8s.host-pid", "id": "Pod/default/x", "file": "a.yaml", "line": 1, "message": "bad"}'
LIES = {
    "garbage": "reply(conn, 200, b'hello')",
    "no result": "reply(conn, 200, b'{}')",
    "an error": 'reply(conn, 500, b\'{"code": "internal_error"}\')',
    "no list": "reply(conn, 200, b'{\"result\": {}}')",
    "a row of another shape": "reply(conn, 200, b'{\"result\": [{}]}')",
    "a line that is no number": 'reply(conn, 200, b\'{"result": ['
    + ROW.replace('"line": 1', '"line": "1"')
    + "]}')",
    "an object that is not there": 'reply(conn, 200, b\'{"result": [' + ROW.replace("/x", "/z") + "]}')",
    "an unknown rule": 'reply(conn, 200, b\'{"result": [' + ROW.replace("host-pid", "new") + "]}')",
    "a closed connection": "conn.close()",
    "an error with a result": "reply(conn, 500, b'{\"result\": []}')",
    "too much": "reply(conn, 200, b'{\"result\": []}' + b' ' * 2_000_000)",
    "a crash": "os.abort()",
    "no answer": "time.sleep(60)",
}


@pytest.mark.parametrize("name", list(LIES))
async def test_a_server_that_fails_or_lies_is_an_error_that_names_it(tmp_path, name, monkeypatch):
    monkeypatch.setattr(opa, "_MAX_ANSWER", 1 << 20)
    adapter = fake(tmp_path, LIES[name], timeout_s=1.0 if name == "no answer" else 20.0)
    with pytest.raises(ToolError, match=r"opa|fake"):
        await adapter.scan({"a.yaml": POD % "x"})
    await adapter.close()


async def test_an_honest_double_is_believed(tmp_path):
    adapter = fake(tmp_path, f"reply(conn, 200, b'{{\"result\": [{ROW}]}}')")
    assert [f.object for f in await adapter.scan({"a.yaml": POD % "x"})] == ["Pod/default/x"]
    await adapter.close()


async def test_an_input_that_kills_the_server_is_told_apart(tmp_path):
    adapter = fake(tmp_path, "reply(conn, 200, b'{\"result\": []}') if empty else os.abort()")
    with pytest.raises(InputError, match="refused-by-tool"):
        await adapter.scan({"a.yaml": POD % "x"})
    await adapter.close()


async def test_a_server_that_does_not_start_is_an_error(tmp_path, monkeypatch):
    quits = OpaAdapter(small_desk(opa=RULES), tool=script(tmp_path, "sys.exit('no such flag')"))
    with pytest.raises(ToolError, match="no such flag"):
        await quits.scan({"a.yaml": POD % "x"})
    monkeypatch.setattr(opa, "_START_S", 0.5)
    hangs = OpaAdapter(small_desk(opa=RULES), tool=script(tmp_path, "time.sleep(60)", name="hangs"))
    with pytest.raises(ToolError, match="does not answer"):
        await hangs.scan({"a.yaml": POD % "x"})
    gone = OpaAdapter(small_desk(opa=RULES), tool=Tool("opa", tmp_path / "none", "1"))
    with pytest.raises(ToolError):
        await gone.scan({"a.yaml": POD % "x"})


async def test_a_missing_opa_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("SV_TOOLS_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="opa"):
        await OpaAdapter(small_desk()).version()


async def test_results_are_kept_until_a_policy_changes(policies, tmp_path):
    need("opa", "opa")
    cache = ToolCache(tmp_path / "cache")
    desk = small_desk(cache, opa=RULES)
    for expected, change in [(1, ""), (1, ""), (2, "# another comment\n")]:
        (policies / "main.rego").write_text(POLICY + change)
        adapter = OpaAdapter(desk, policies=policies)
        assert len(await adapter.scan({"a.yaml": POD % "x"})) == 1
        await adapter.close()
        assert cache.stats.misses == expected
    assert cache.stats.hits == 1
    cache.close()


def test_the_hash_of_rules_sees_names_and_contents(tmp_path):
    (tmp_path / "a").write_text("1")
    first = hash_folder(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    second = hash_folder(tmp_path)
    (tmp_path / "b").write_text("2")
    assert len({first, second, hash_folder(tmp_path), hash_folder(tmp_path, extra="x")}) == 4
    (tmp_path / "b").unlink()
    with pytest.raises(ToolError, match="no rules"):
        hash_folder(tmp_path)


async def test_our_own_policies_load_and_are_all_in_the_catalogue():
    need("opa", "opa")
    adapter = OpaAdapter(Desk.open())
    found = await adapter.scan(
        {"a.yaml": POD % "x", "m.tf": 'resource "aws_ebs_volume" "v" {\n  encrypted = false\n}\n'}
    )
    assert {f.object for f in found} == {"Pod/default/x", "aws_ebs_volume.v"}
    assert os.path.isabs(adapter._server._folder)
    await adapter.close()
