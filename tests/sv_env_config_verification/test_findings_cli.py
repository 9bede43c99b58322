"""`sv tools findings`: three formats, exit codes, and files that can't be judged."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from security_verifiers.cli.findings import command
from sv_shared.errors import ToolError, UsageError
from sv_shared.tools import ToolMissing
from tests.sv_env_config_verification.doubles import POD, need
from tests.sv_shared.test_sarif import check


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("SV_TOOL_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def _no_tools(tmp_path, monkeypatch):
    monkeypatch.setenv("SV_TOOLS_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))


def write(name: str, text: str | bytes) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def run(*args: str):
    """(exit code, standard output, standard error) with the fallback engine, which is always there."""
    result = CliRunner().invoke(
        command, [*args, "--tools", "opa", "--allow-fallback"], standalone_mode=False, catch_exceptions=False
    )
    return result.return_value, result.stdout, result.stderr


def test_json_holds_findings_versions_and_paths_as_they_were_given():
    write("k8s/a.yaml", POD % "x")
    write("tf/m.tf", 'resource "aws_ebs_volume" "v" {\n  encrypted = false\n}\n')
    code, out, _ = run("k8s", "tf/m.tf", "--format", "json")
    told = json.loads(out)
    assert code == 0
    assert {(f["object"], f["file"]) for f in told["findings"]} == {
        ("Pod/default/x", "k8s/a.yaml"),
        ("aws_ebs_volume.v", "tf/m.tf"),
    }
    (tool,) = told["tools"]
    assert tool["tool"] == "opa"
    assert {f["engine"] for f in told["findings"]} == {tool["engine"]}
    assert (told["not_judged"], told["not_run"], told["schema_version"]) == ([], {}, 1)


def test_sarif_keeps_the_standard():
    write("a b.yaml", POD % "x")
    code, out, _ = run("a b.yaml", "--format", "sarif")
    log = json.loads(out)
    check(log)
    assert code == 0
    results = log["runs"][0]["results"]
    assert {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results} == {
        "a%20b.yaml"
    }
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert any("external/cwe/" in tag for rule in rules for tag in rule["properties"]["tags"])


def test_the_table_is_for_people_and_names_the_engine():
    write("a.yaml", POD % "x")
    code, out, _ = run("a.yaml")
    assert code == 0
    assert "Pod/default/x" in out
    assert "host-pid" in out
    assert "opa" in out.splitlines()[-1]


def test_output_goes_to_a_file():
    write("a.yaml", POD % "x")
    for form in ("json", "sarif", "table"):
        code, out, _ = run("a.yaml", "--format", form, "--output", f"out.{form}")
        assert (code, out) == (0, "")
        assert "host" in Path(f"out.{form}").read_text()


@pytest.mark.parametrize(("severity", "code"), [("low", 1), ("high", 1), ("critical", 0)])
def test_fail_on_sets_the_exit_code(severity, code):
    write("a.yaml", POD % "x")
    assert run("a.yaml", "--fail-on", severity)[0] == code


def test_what_can_not_be_judged_is_told_and_the_rest_is_judged():
    write("good.yaml", POD % "x")
    write("bad.yaml", "a: [")
    write("helm.yaml", "a: {{ .Values.x }}")
    write("bytes.yaml", b"a: \xff\xfe")
    write("bad.tf", 'resource "a" {\n}\n')
    code, out, err = run("good.yaml", "bad.yaml", "helm.yaml", "bytes.yaml", "bad.tf", "--format", "json")
    told = json.loads(out)
    assert code == 2
    assert {f["file"] for f in told["findings"]} == {"good.yaml"}
    assert {(n["file"], n["label"]) for n in told["not_judged"]} == {
        ("bad.yaml", "invalid-yaml"),
        ("helm.yaml", "helm-template"),
        ("bytes.yaml", "binary"),
        ("bad.tf", "invalid-hcl"),
    }
    assert "bad.tf:1: invalid-hcl" in err


def test_a_file_that_one_tool_refuses_is_judged_by_the_others():
    need("kube-linter", "kube-linter")
    spec = "{replicas: three, template: {spec: {hostPID: true}}}"
    write("a.yaml", f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\nspec: {spec}\n")
    write("b.yaml", POD % "x")
    args = ["a.yaml", "b.yaml", "--tools", "opa,kubelinter", "--allow-fallback", "--format", "json"]
    result = CliRunner().invoke(command, args, standalone_mode=False, catch_exceptions=False)
    told = json.loads(result.stdout)
    host_pid = {(f["tool"], f["file"]) for f in told["findings"] if f["weakness"] == "host-pid"}
    assert host_pid == {("opa", "a.yaml"), ("opa", "b.yaml"), ("kubelinter", "b.yaml")}
    assert [(n["file"], n["label"]) for n in told["not_judged"]] == [("a.yaml", "refused-by-tool")]
    assert result.return_value == 2


@pytest.mark.usefixtures("_no_tools")
def test_no_tool_at_all_is_an_error_and_not_a_clean_bill():
    write("a.yaml", POD % "x")
    result = CliRunner().invoke(command, ["a.yaml", "--skip-missing"], standalone_mode=False)
    assert isinstance(result.exception, ToolError)


def test_files_of_several_folders_are_one_workspace(tmp_path):
    (tmp_path / "other").mkdir()
    path = write(str(tmp_path / "other" / "a.yaml"), POD % "y")
    write("a.yaml", POD % "x")
    _, out, _ = run("a.yaml", path, "--format", "json")
    assert {f["file"] for f in json.loads(out)["findings"]} == {"a.yaml", path}


@pytest.mark.parametrize("args", [["none.yaml"], ["empty"]])
def test_nothing_to_look_at_is_bad_use(args):
    Path("empty").mkdir()
    with pytest.raises(UsageError):
        run(*args)


@pytest.mark.usefixtures("_no_tools")
def test_a_missing_tool_is_an_error_unless_it_may_be_skipped():
    write("a.yaml", POD % "x")
    plain = CliRunner().invoke(command, ["a.yaml"], standalone_mode=False)
    assert isinstance(plain.exception, ToolMissing)
    skipped = CliRunner().invoke(
        command, ["a.yaml", "--skip-missing", "--allow-fallback", "--format", "json"], standalone_mode=False
    )
    told = json.loads(skipped.stdout)
    assert set(told["not_run"]) == {"kubelinter", "semgrep"}
    assert [tool["engine"] for tool in told["tools"]] == ["opa-eval"]
    assert "kubelinter was not run" in skipped.stderr


def test_the_cache_answers_the_second_time():
    write("a.yaml", POD % "x")
    first, second = (json.loads(run("a.yaml", "--format", "json")[1]) for _ in range(2))
    assert (first["cache_hit_rate"], second["cache_hit_rate"]) == (0, 1)
    assert first["findings"] == second["findings"]
    assert json.loads(run("a.yaml", "--format", "json", "--no-cache")[1])["cache_hit_rate"] is None


def test_all_three_real_tools_agree_on_a_privileged_pod():
    for name, binary in (("opa", "opa"), ("kube-linter", "kube-linter"), ("semgrep", "semgrep")):
        need(name, binary)
    text = POD % "x" + "  containers:\n  - {name: c, image: nginx, securityContext: {privileged: true}}\n"
    write("a.yaml", text)
    result = CliRunner().invoke(command, ["a.yaml", "--format", "json"], standalone_mode=False)
    assert not isinstance(result.exception, ToolError)
    told = json.loads(result.stdout)
    privileged = {f["tool"] for f in told["findings"] if f["weakness"] == "privileged-container"}
    assert privileged >= {"opa", "kubelinter"}
    assert [(tool["tool"], tool["engine"]) for tool in told["tools"]] == [
        ("opa", "opa"),
        ("kubelinter", "kubelinter"),
        ("semgrep", "semgrep"),
    ]
