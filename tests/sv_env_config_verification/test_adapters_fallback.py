"""The fallback engine: labelled in every finding, and agreeing with the real OPA on (rule, object)."""

import re
from dataclasses import replace

import pytest

from sv_env_config_verification.adapters import fallback
from sv_env_config_verification.adapters.base import Desk
from sv_env_config_verification.adapters.fallback import OpaEvalAdapter
from sv_env_config_verification.adapters.opa import POLICIES, OpaAdapter
from sv_env_config_verification.adapters.toolbox import Toolbox, ToolVersion, cache_folder
from sv_env_config_verification.inputs import InputError
from sv_shared.errors import ToolError, UsageError
from sv_shared.tool_cache import ToolCache
from sv_shared.tools import ToolMissing
from tests.sv_env_config_verification.doubles import POD, need, script, small_desk
from tests.sv_env_config_verification.test_adapters_opa import SERVER


@pytest.fixture
def nothing_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("SV_TOOLS_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))


async def test_every_finding_names_the_engine():
    found = await OpaEvalAdapter(Desk.open()).scan({"a.yaml": POD % "x"})
    assert "k8s.host-pid" in {f.rule for f in found}
    assert {(f.tool, f.engine, f.is_fallback) for f in found} == {("opa", "opa-eval", True)}


async def test_it_reads_every_policy():
    """Each package's text holds every rule of its files, so none is lost where files are put together."""
    texts = fallback._packages(POLICIES)
    assert set(texts) == {"sv.kubernetes", "sv.terraform"}
    for path in POLICIES.glob("*/*.rego"):
        for line in path.read_text().splitlines():
            if line.startswith("findings contains"):
                assert line in texts[f"sv.{path.parent.name}"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("package sv.x\nimport rego.v1\nfindings contains x if { some x in [1] ", "does not take"),
        ("package sv.x\nimport data.sv.y\nfindings := {1}", "import nothing"),
        ("findings := {1}", "import nothing"),
        ("package sv.x\nimport rego.v1\nfindings := {7}", "form"),
        ("package sv.x\nimport rego.v1\nfindings := 7", "refuse"),
    ],
)
async def test_policies_that_it_can_not_run_are_an_error(tmp_path, text, message):
    folder = tmp_path / "policies" / "x"
    folder.mkdir(parents=True)
    (folder / "x.rego").write_text(text)
    adapter = OpaEvalAdapter(small_desk(), policies=folder.parent)
    with pytest.raises((ToolError, InputError), match=message):
        await adapter.scan({"a.yaml": POD % "x"})


async def test_it_stands_in_only_where_it_is_allowed(nothing_installed):
    with pytest.raises(ToolMissing, match="opa"):
        await Toolbox.open(["opa"])
    async with await Toolbox.open(["opa"], allow_fallback=True) as box:
        assert [(v.tool, v.engine) for v in box.versions] == [("opa", "opa-eval")]
        assert await box.scan({"a.yaml": POD % "x"})
    with pytest.raises(ToolMissing, match="kube-linter"):
        await Toolbox.open(allow_fallback=True)  # nothing stands in for KubeLinter


async def test_missing_tools_are_left_out_only_on_request(nothing_installed):
    async with await Toolbox.open(allow_missing=True, allow_fallback=True) as box:
        assert set(box.missing) == {"kubelinter", "semgrep"}
        assert list(box.adapters) == ["opa"]


async def test_an_unknown_tool_is_bad_use():
    with pytest.raises(UsageError, match="trivy"):
        await Toolbox.open(["trivy"])


async def test_the_real_tool_goes_first_and_the_cache_is_shared(tmp_path):
    need("opa", "opa")
    async with await Toolbox.open(["opa"], allow_fallback=True, cache=tmp_path) as box:
        (version,) = box.versions
        assert version.engine == "opa"
        assert re.fullmatch(r"\d+\.\d+\.\d+", version.version)
        assert isinstance(version, ToolVersion)
        first = await box.scan({"a.yaml": POD % "x"})
        assert (await box.scan({"a.yaml": POD % "x"}), box.hit_rate) == (first, 0.5)
        await box.clear_cache()
        await box.scan({"a.yaml": POD % "x"})
        assert box.hit_rate == pytest.approx(1 / 3)


async def test_results_of_the_engines_are_kept_apart(tmp_path):
    """An OPA of the same version that finds nothing is not given what the fallback engine found."""
    cache = ToolCache(tmp_path / "cache")
    desk = replace(Desk.open(), cache=cache)
    stand_in = OpaEvalAdapter(desk)
    assert await stand_in.scan({"a.yaml": POD % "x"})
    tool = script(tmp_path, SERVER + "    reply(conn, 200, b'{\"result\": []}')")
    real = OpaAdapter(desk, tool=replace(tool, version=await stand_in.version()))
    assert await real.scan({"a.yaml": POD % "x"}) == []
    assert cache.stats.hits == 0
    await real.close()
    cache.close()


def test_the_cache_lies_where_the_user_says(tmp_path):
    assert cache_folder({"SV_TOOL_CACHE_DIR": str(tmp_path)}) == tmp_path
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "security-verifiers" / "tool-cache"
    assert cache_folder({"XDG_CACHE_HOME": "relative"}).parts[-3:] == (
        ".cache",
        "security-verifiers",
        "tool-cache",
    )


async def _conformance(files: dict[str, dict[str, str]]) -> tuple[int, list[str]]:
    """(findings of the real tool, workspaces on which the engines differ)."""
    desk = Desk.open()
    real, stand_in = OpaAdapter(desk), OpaEvalAdapter(desk)
    total, differing = 0, []
    for name, workspace in files.items():
        try:
            left = {(f.rule, f.object, f.file) for f in await real.scan(workspace)}
        except InputError:
            continue
        right = {(f.rule, f.object, f.file) for f in await stand_in.scan(workspace)}
        total += len(left)
        if left != right:
            differing.append(f"{name}: {sorted(left ^ right)}")
    await real.close()
    await desk.close()
    return total, differing


async def test_both_engines_agree_on_the_fixtures():
    need("opa", "opa")
    folder = POLICIES.parents[3] / "tests" / "sv_env_config_verification" / "fixtures"
    paths = [p for p in folder.rglob("*") if p.suffix in (".yaml", ".tf")]
    if not paths:
        pytest.skip("there are no fixtures")
    total, differing = await _conformance({str(p): {p.name: p.read_text()} for p in paths})
    assert total > 40
    assert differing == []


@pytest.mark.slow
@pytest.mark.real_data
async def test_both_engines_agree_on_real_files(shared_data):
    need("opa", "opa")
    paths = [
        p for p in (shared_data / "E2").rglob("*") if p.suffix in (".yaml", ".yml", ".tf") and p.is_file()
    ]
    total, differing = await _conformance({str(p): {p.name: p.read_text()} for p in paths})
    assert total > 2000
    assert differing == []
