"""Semgrep's adapter: files share calls, names are never seen, and no failure looks like "no findings"."""

import asyncio

import pytest
import pytest_asyncio

from sv_env_config_verification.adapters.base import Desk
from sv_env_config_verification.adapters.semgrep import SemgrepAdapter
from sv_env_config_verification.inputs import InputError
from sv_shared.errors import ToolError
from sv_shared.tool_cache import ToolCache
from sv_shared.tools import ToolMissing
from tests.sv_env_config_verification.doubles import POD, need, script, small_desk

RULES = {"sv-host-pid": "host-pid", "sv-tf-http": "host-pid"}
TF = 'resource "a" "b" {\n  url = "http://x"\n}\n'
RULE_FILE = """rules:
- id: sv-host-pid
  languages: [yaml]
  severity: ERROR
  message: bad
  pattern: "hostPID: true"
- id: sv-tf-http
  languages: [terraform]
  severity: ERROR
  message: plain
  pattern: url = "=~/http:.*/"
"""
ANSWER = """
def files():
    return sorted(p for p in Path(sys.argv[-1]).iterdir())
def answer(results, scanned=None, errors=(), code=0, **more):
    paths = [str(p) for p in (files() if scanned is None else scanned)]
    print(json.dumps({"results": results, "errors": list(errors), "paths": {"scanned": paths}, **more}))
    sys.exit(code)
def hit(path, rule="rules.sv-host-pid", line=5, message="bad"):
    return {"check_id": rule, "path": str(path), "start": {"line": line}, "extra": {"message": message}}
"""
HONEST = ANSWER + "answer([hit(p) for p in files() if 'hostPID: true' in p.read_text()])"


@pytest.fixture
def rules(tmp_path):
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "own.yaml").write_text(RULE_FILE)
    return folder


@pytest_asyncio.fixture
async def real(rules):
    need("semgrep", "semgrep")
    adapter = SemgrepAdapter(small_desk(semgrep=RULES), rules=rules, linger_s=0.2)
    await adapter.version()
    yield adapter
    await adapter.close()


def fake(folder, rules, body, desk=None, **limits):
    desk = desk or small_desk(semgrep=RULES)
    return SemgrepAdapter(desk, tool=script(folder, body, **limits), rules=rules, linger_s=0.01)


async def test_a_result_becomes_a_finding_of_the_object_at_its_line(tmp_path, rules):
    files = {"sub/a.yaml": POD % "x" + "---\n" + POD % "y", "b.yaml": POD.replace("true", "false") % "z"}
    body = ANSWER + "answer([hit(files()[1], line=n) for n in (5, 11)])"
    found = await fake(tmp_path, rules, body).scan(files)
    assert [(f.object, f.file, f.line, f.rule, f.weakness) for f in found] == [
        ("Pod/default/x", "sub/a.yaml", 5, "sv-host-pid", "host-pid"),
        ("Pod/default/y", "sub/a.yaml", 11, "sv-host-pid", "host-pid"),
    ]


async def test_many_workspaces_take_one_call(tmp_path, rules):
    adapter = fake(tmp_path, rules, HONEST)
    texts = [(POD if i % 2 else POD.replace("true", "false")) % f"n{i}" for i in range(20)]
    found = await asyncio.gather(*(adapter.scan({"a.yaml": text}) for text in texts))
    assert [[f.object for f in rows] for rows in found] == [
        [f"Pod/default/n{i}"] if i % 2 else [] for i in range(20)
    ]
    assert adapter.batches.calls == 1


async def test_names_of_files_never_reach_the_tool(tmp_path, rules):
    body = ANSWER + "import re\nassert all(re.fullmatch(r'[0-9]{5}\\.yaml', p.name) for p in files())\n"
    body += "assert 'evil' not in ' '.join(sys.argv)\n" + HONEST
    name = "tests/--config=evil; rm -rf $(x) `y`.yaml"
    found = await fake(tmp_path, rules, body).scan({name: POD % "x", ".semgrepignore.yaml": POD % "y"})
    assert {f.file for f in found} == {name, ".semgrepignore.yaml"}


LIES = {
    "garbage": "print('fine')",
    "nothing": "",
    "null": "print('null')",
    "no results": "print('{}')",
    "a file passed over": ANSWER + "answer([], scanned=[])",
    "a file that is not ours": ANSWER + "answer([hit('/etc/passwd')])",
    "a rule error": ANSWER + "answer([], errors=[{'type': 'Rule parse error', 'message': 'bad rule'}])",
    "a skipped rule": ANSWER + "answer([], skipped_rules=['x'])",
    "an unknown status": ANSWER + "answer([], code=2)",
    "an unknown rule": ANSWER + "answer([hit(files()[0], rule='rules.other')])",
    "a line that is no number": ANSWER + "answer([hit(files()[0], line='x')])",
    "a crash": "os.abort()",
    "too much": "print('x' * 5_000_000)",
    "no end": "time.sleep(60)",
}


@pytest.mark.parametrize("name", list(LIES))
async def test_a_tool_that_fails_or_lies_is_an_error_that_names_it(tmp_path, rules, name):
    limit = 2.0 if name == "no end" else 20.0
    adapter = fake(tmp_path, rules, LIES[name], timeout_s=limit, max_output=1_000_000)
    with pytest.raises(ToolError, match=r"fake|semgrep"):
        await adapter.scan({"a.yaml": POD % "x"})


async def test_a_file_that_it_can_not_read_is_the_inputs_problem(tmp_path, rules):
    body = ANSWER + "answer([], errors=[{'type': 'Timeout', 'message': 'slow', 'path': str(files()[0])}])"
    cache = ToolCache(tmp_path / "cache")
    adapter = fake(tmp_path, rules, body, small_desk(cache, semgrep=RULES))
    for _ in range(2):
        with pytest.raises(InputError, match=r"refused-by-tool.*a\.yaml") as caught:
            await adapter.scan({"a.yaml": POD % "x", "b.yaml": POD % "y"})
        assert [notice.file for notice in caught.value.notices] == ["a.yaml"]
    assert (adapter.batches.calls, cache.stats.hits) == (1, 2)
    cache.close()


async def test_an_input_that_kills_the_tool_is_told_apart_and_spares_its_batch(tmp_path, rules):
    body = ANSWER + "any('deadly' in p.read_text() for p in files()) and os.abort()\n" + HONEST
    adapter = fake(tmp_path, rules, body)
    names = ["a", "deadly", "b"]
    results = await asyncio.gather(
        *(adapter.scan({"f.yaml": POD % n}) for n in names), return_exceptions=True
    )
    assert [type(result).__name__ for result in results] == ["list", "InputError", "list"]


async def test_a_tool_failure_goes_before_a_files_problem(tmp_path, rules):
    body = (
        ANSWER
        + "answer([hit(p, rule='new') for p in files()[1:]], errors=[{'type': 'x', 'path': str(files()[0])}])"
    )
    with pytest.raises(ToolError, match="catalogue"):
        await fake(tmp_path, rules, body).scan({"a.yaml": POD % "x", "b.yaml": POD % "y"})


async def test_a_missing_tool_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("SV_TOOLS_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="semgrep"):
        await SemgrepAdapter(small_desk()).scan({"a.yaml": POD % "x"})


async def test_first_scans_that_come_together_look_for_the_tool_once(tmp_path, rules, monkeypatch):
    searches = []

    async def search(*_, **__):
        searches.append(1)
        await asyncio.sleep(0.05)
        return script(tmp_path, HONEST)

    monkeypatch.setattr("sv_env_config_verification.adapters.semgrep.find_installed", search)
    adapter = SemgrepAdapter(small_desk(semgrep=RULES), rules=rules, linger_s=0.01)
    found = await asyncio.gather(*(adapter.scan({"a.yaml": POD % f"n{i}"}) for i in range(8)))
    assert [len(rows) for rows in found] == [1] * 8
    assert len(searches) == 1


async def test_results_are_kept_by_the_files_content(tmp_path, rules):
    cache = ToolCache(tmp_path / "cache")
    adapter = fake(tmp_path, rules, HONEST, small_desk(cache, semgrep=RULES))
    await adapter.scan({"a.yaml": POD % "x", "b.yaml": POD % "y"})
    found = await adapter.scan({"new/name.yaml": POD % "x", "b.yaml": POD % "y", "c.yaml": POD % "z"})
    assert [(f.file, f.object) for f in found] == [
        ("b.yaml", "Pod/default/y"),
        ("c.yaml", "Pod/default/z"),
        ("new/name.yaml", "Pod/default/x"),
    ]
    assert (adapter.batches.requests, adapter.batches.calls, cache.stats.hits) == (3, 2, 2)
    cache.close()


async def test_the_real_tool_finds_in_both_languages(real):
    found = await real.scan({"a.yaml": POD % "x", "m.tf": TF})
    assert [(f.object, f.file, f.line, f.rule) for f in found] == [
        ("Pod/default/x", "a.yaml", 5, "sv-host-pid"),
        ("a.b", "m.tf", 2, "sv-tf-http"),
    ]
    assert real.batches.calls == 1


async def test_comments_and_folders_switch_nothing_off(real):
    quiet = (POD % "x").replace("hostPID: true", "hostPID: true # nosemgrep")
    found = await real.scan(
        {"tests/node_modules/a.yaml": quiet, "m.tf": TF.replace('x"', 'x" # nosemgrep: sv-tf-http')}
    )
    assert {f.rule for f in found} == set(RULES)


async def test_odd_but_sound_files_are_all_looked_at(real):
    """Semgrep passes over some files unasked; one that it passed over would be an error here."""
    odd = {"empty.yaml": "", "note.yaml": "# x\n", "empty.tf": "", "terraform.tfvars": 'a = "x"\n'}
    found = await real.scan(
        {**odd, "bom.yaml": "\ufeff" + POD % "x", "crlf.yml": (POD % "y").replace("\n", "\r\n")}
    )
    assert {f.file for f in found} == {"bom.yaml", "crlf.yml"}


async def test_a_broken_rule_is_an_error(real, rules):
    (rules / "bad.yaml").write_text(
        "rules:\n- id: broken\n  languages: [yaml]\n  severity: ERROR\n  message: m\n  pattern: '{{{'\n"
    )
    with pytest.raises(ToolError):
        await real.scan({"a.yaml": POD % "x"})


async def test_our_own_rules_load_and_are_all_in_the_catalogue():
    need("semgrep", "semgrep")
    adapter = SemgrepAdapter(Desk.open())
    found = await adapter.scan({"m.tf": TF})
    assert {f.object for f in found} == {"a.b"}
    await adapter.close()
