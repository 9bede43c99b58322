"""KubeLinter's adapter: workspaces don't mix, ignores have no effect, no failure looks like "no findings"."""

import asyncio
import json

import pytest
import pytest_asyncio

from sv_env_config_verification.adapters.base import Desk
from sv_env_config_verification.adapters.kubelinter import EXCLUDED, KubeLinterAdapter
from sv_env_config_verification.inputs import InputError
from sv_shared.errors import ToolError
from sv_shared.tool_cache import ToolCache
from sv_shared.tools import ToolMissing
from tests.sv_env_config_verification.doubles import POD, need, script, small_desk

SERVICE = """apiVersion: v1
kind: Service
metadata: {name: s}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""
WEB = """apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: c, image: i}]}
"""

ANSWER = """
def files():
    return sorted(Path(sys.argv[-1]).rglob("*.yaml"))
def answer(reports, checks=("host-pid",), code=None):
    print(json.dumps({"Checks": [{"name": c} for c in checks], "Reports": reports}))
    sys.exit((1 if reports else 0) if code is None else code)
def report(path, message="bad", check="host-pid"):
    place = {"Metadata": {"FilePath": str(path)}}
    return {"Object": place, "Check": check, "Diagnostic": {"Message": message}}
"""
HONEST = ANSWER + "answer([report(p) for p in files() if '\"hostPID\": true' in p.read_text()])"


def fake(folder, body, desk=None, **limits):
    desk = desk or small_desk(kubelinter={"host-pid": "host-pid"})
    return KubeLinterAdapter(desk, tool=script(folder, body, **limits), linger_s=0.01)


@pytest_asyncio.fixture
async def real():
    need("kube-linter", "kube-linter")
    adapter = KubeLinterAdapter(Desk.open(), linger_s=0.2)
    await adapter.version()
    yield adapter
    await adapter.close()


async def test_a_report_becomes_a_finding_of_its_object(tmp_path):
    found = await fake(tmp_path, HONEST).scan({"a.yaml": WEB + "---\n" + POD % "x", "b.yaml": POD % "y"})
    assert [(f.object, f.file, f.line, f.rule, f.weakness, f.severity) for f in found] == [
        ("Pod/default/x", "a.yaml", 6, "host-pid", "host-pid", "high"),
        ("Pod/default/y", "b.yaml", 1, "host-pid", "host-pid", "high"),
    ]
    assert {(f.tool, f.engine, f.tool_version, f.message) for f in found} == {
        ("kubelinter", "kubelinter", "9.9", "bad")
    }


async def test_many_workspaces_take_one_call_and_get_their_own_findings(tmp_path):
    adapter = fake(tmp_path, HONEST)
    workspaces = [
        {"a.yaml": (POD if i % 2 else WEB.replace("web", "%s")).replace("%s", f"n{i}")} for i in range(30)
    ]
    found = await asyncio.gather(*(adapter.scan(files) for files in workspaces))
    assert [[f.object for f in rows] for rows in found] == [
        [f"Pod/default/n{i}"] if i % 2 else [] for i in range(30)
    ]
    assert adapter.batches.calls == 1
    assert adapter.batches.requests == 30


async def test_terraform_alone_calls_nothing(tmp_path):
    adapter = fake(tmp_path, "sys.exit(9)")
    assert await adapter.scan({"m.tf": 'resource "a" "b" {\n}\n'}) == []


LIES = {
    "garbage": "print('fine')",
    "nothing": "",
    "null": "print('null')",
    "no reports": "print('{}')",
    "another shape": "print(json.dumps({'Checks': [{'name': 'host-pid'}], 'Reports': [{}]}))",
    "failure without a report": ANSWER + "answer([], code=1)",
    "reports and success": ANSWER + "answer([report(p) for p in files()], code=0)",
    "an unknown status": ANSWER + "answer([], code=3)",
    "fewer checks": ANSWER + "answer([], checks=())",
    "more checks": ANSWER + "answer([], checks=('host-pid', 'new-check'))",
    "a file that is not ours": ANSWER + "answer([report('/etc/passwd.yaml')])",
    "an object that is not there": ANSWER + "answer([report(files()[0].parent / '00007.yaml')])",
    "a message that is no text": ANSWER + "answer([report(files()[0], message=3)])",
    "a crash": "os.abort()",
    "an exit by a signal": "os.kill(os.getpid(), 9)",
    "too much": "print('x' * 5_000_000)",
    "no end": "time.sleep(60)",
}


@pytest.mark.parametrize("name", list(LIES))
async def test_a_tool_that_fails_or_lies_is_an_error_that_names_it(tmp_path, name):
    adapter = fake(tmp_path, LIES[name], timeout_s=2.0 if name == "no end" else 20.0, max_output=1_000_000)
    with pytest.raises(ToolError, match=r"fake|kubelinter"):
        await adapter.scan({"a.yaml": POD % "x"})


async def test_a_missing_tool_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("SV_TOOLS_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="kube-linter"):
        await KubeLinterAdapter(small_desk()).scan({"a.yaml": POD % "x"})


async def test_an_input_that_kills_the_tool_is_told_apart_and_spares_its_batch(tmp_path):
    deadly = HONEST.replace(
        "answer([report(p)",
        "any('deadly' in p.read_text() for p in files()) and os.abort()\nanswer([report(p)",
    )
    adapter = fake(tmp_path, deadly)
    names = ["a", "b", "deadly", "c"]
    results = await asyncio.gather(
        *(adapter.scan({"f.yaml": POD % n}) for n in names), return_exceptions=True
    )
    assert [type(r).__name__ for r in results] == ["list", "list", "InputError", "list"]
    assert "refused-by-tool" in str(results[2])
    assert [f.object for f in results[3]] == ["Pod/default/c"]


async def test_an_object_that_it_can_not_load_is_the_inputs_problem(tmp_path):
    body = (
        ANSWER
        + "print(f'Warning: failed to load object from {files()[1]}: no int', file=sys.stderr)\nanswer([])"
    )
    with pytest.raises(InputError) as caught:
        await fake(tmp_path, body).scan({"a.yaml": POD % "x", "b.yaml": "\n\n" + POD % "y"})
    notice = caught.value.notices[0]
    assert (notice.file, notice.line, notice.label) == ("b.yaml", 3, "refused-by-tool")
    assert "Pod/default/y: no int" in notice.message


async def test_results_are_kept_by_content_and_not_by_name(tmp_path):
    cache = ToolCache(tmp_path / "cache")
    calls = tmp_path / "calls"
    desk = small_desk(cache, kubelinter={"host-pid": "host-pid"})
    adapter = fake(tmp_path, f"open({str(calls)!r}, 'a').write('x')\n" + HONEST, desk)
    first = await adapter.scan({"a.yaml": POD % "x"})
    second = await adapter.scan({"other.yaml": POD % "x"})
    assert calls.read_text() == "x"
    assert cache.stats.hit_rate == 0.5
    assert [(f.file, f.object) for f in first + second] == [
        ("a.yaml", "Pod/default/x"),
        ("other.yaml", "Pod/default/x"),
    ]
    await adapter.scan({"a.yaml": POD % "y"})
    newer = tmp_path / "newer"
    newer.mkdir()
    tool = script(newer, HONEST)
    assert (
        await KubeLinterAdapter(desk, tool=type(tool)("fake", tool.binary, "10")).scan({"a.yaml": POD % "x"})
    )[0].tool_version == "10"
    assert cache.stats.misses == 3
    cache.close()


async def test_a_refusal_is_kept_too(tmp_path):
    cache = ToolCache(tmp_path / "cache")
    body = (
        ANSWER + "print(f'Warning: failed to load object from {files()[0]}: no', file=sys.stderr)\nanswer([])"
    )
    adapter = fake(tmp_path, body, small_desk(cache, kubelinter={"host-pid": "host-pid"}))
    for name in ("a.yaml", "b.yaml"):
        with pytest.raises(InputError, match=name):
            await adapter.scan({name: POD % "x"})
    assert (adapter.batches.calls, cache.stats.hits) == (1, 1)
    cache.close()


async def test_garbage_is_not_kept(tmp_path):
    cache = ToolCache(tmp_path / "cache")
    flag = tmp_path / "mended"
    adapter = fake(
        tmp_path,
        f"if not os.path.exists({str(flag)!r}): print('oops'); sys.exit(0)\n" + HONEST,
        small_desk(cache, kubelinter={"host-pid": "host-pid"}),
    )
    with pytest.raises(ToolError):
        await adapter.scan({"a.yaml": POD % "x"})
    flag.touch()
    assert len(await adapter.scan({"a.yaml": POD % "x"})) == 1
    cache.close()


# -- With the real binary.


async def test_cross_object_checks_do_not_mix_workspaces(real):
    """A Service whose pods are in another answer of the same call is still a dangling one."""
    split, whole = [{"a.yaml": SERVICE}, {"b.yaml": WEB}], [{"s.yaml": SERVICE, "sub/p.yaml": WEB}]
    found = await asyncio.gather(*(real.scan(files) for files in [*split, *whole, *split]))
    assert real.batches.calls == 1
    dangling = [[f.object for f in rows if f.rule == "dangling-service"] for rows in found]
    assert dangling == [["Service/default/s"], [], [], ["Service/default/s"], []]


async def test_a_batch_gives_what_single_calls_give(real):
    workspaces = [
        {"a.yaml": SERVICE},
        {"a.yaml": SERVICE + "---\n" + WEB},
        {"a.yaml": POD % "x"},
        {"b.yaml": WEB},
    ]
    together = await asyncio.gather(*(real.scan(files) for files in workspaces))
    assert real.batches.calls == 1
    assert [await real.scan(files) for files in workspaces] == together
    assert real.batches.calls == 5


async def test_annotations_switch_nothing_off(real):
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n%sspec: {hostPID: true, containers: [{name: c}]}\n"
    )
    ignore = (
        "  annotations: {kube-linter.io/ignore-all: x, ignore-check.kube-linter.io/host-pid: x, own: x}\n"
    )
    plain, ignored = await real.scan({"a.yaml": text % ""}), await real.scan({"a.yaml": text % ignore})
    assert {f.rule for f in plain} == {f.rule for f in ignored}
    assert "host-pid" in {f.rule for f in ignored}


async def test_an_object_of_the_wrong_type_is_refused_and_not_passed_over(real):
    text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: three}\n"
    with pytest.raises(InputError, match="refused-by-tool"):
        await real.scan({"a.yaml": text})


async def test_all_checks_are_on_but_the_one_that_needs_the_network(real):
    known = set(Desk.open().catalogue.rules["kubelinter"])
    assert len(known) == 63
    assert {"schema-validation"} == EXCLUDED
    assert await real.scan({"a.yaml": WEB})  # raises where another set of checks ran
    assert json.loads(json.dumps(await real.version()))
