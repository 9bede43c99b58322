"""Every Rego rule against its two fixtures, under the real OPA.

fixtures/<rule>/fail.* holds what the rule is about, pass.* the nearest things that are fine; `fail-...` and
`pass-...` are further ones. Comments in a fixture tell the whole set of findings: `# expect:` those of its
rule, `# also:` those of others.
"""

import asyncio
import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sv_env_config_verification.adapters.opa import POLICIES
from sv_env_config_verification.reading import Reader
from sv_env_config_verification.shapes import Shapes
from sv_shared.tool_folder import find_installed
from sv_shared.tools import run_tool
from tests.sv_env_config_verification.doubles import need

FIXTURES = Path(__file__).with_name("fixtures")
RULES = sorted(
    {
        rule
        for path in POLICIES.rglob("*.rego")
        for rule in re.findall(r'"((?:k8s|tf)\.[a-z0-9-]+)"', path.read_text(encoding="utf-8"))
    }
)
CASES = sorted(f"{path.parent.name}/{path.stem}" for path in FIXTURES.glob("*.*/*"))
KINDS = [
    "Pod",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "Job",
    "CronJob",
]
GROUPS = ["containers", "initContainers", "ephemeralContainers"]

Found = set[tuple[str, str]]
"""(rule, object) pairs."""
Json = Any


def evaluate(inputs: dict[str, Json], policies: Path = POLICIES) -> dict[str, Found]:
    """What one run of OPA finds in each input. A built-in function that is misused is an error here."""
    query = "{name: found | case := input.cases[name]; found := data.sv.findings with input as case}"

    async def run() -> dict[str, Found]:
        opa = await find_installed("opa", version_args=("version",), max_output=256 << 20)
        args = [
            "eval",
            "--strict-builtin-errors",
            "--format=json",
            "--stdin-input",
            "--data",
            policies,
            query,
        ]
        result = await run_tool(opa, args, stdin=json.dumps({"cases": inputs}).encode())
        answer = json.loads(result.stdout)
        assert "result" in answer, str(answer.get("errors"))[:600]
        found = answer["result"][0]["expressions"][0]["value"]
        return {name: {(row["rule"], row["id"]) for row in rows} for name, rows in found.items()}

    need("opa", "opa")
    return asyncio.run(run())


def shapes(files: dict[str, str]) -> dict[str, Json]:
    """The input for each file, read as a workspace of its own."""

    async def read() -> dict[str, Shapes]:
        reader = Reader()
        try:
            return {name: await reader.read({Path(name).name: text}) for name, text in files.items()}
        finally:
            await reader.close()

    return {name: shape.to_input() for name, shape in asyncio.run(read()).items()}


def told(text: str, *marks: str) -> Found:
    """What a fixture's comments tell."""
    found = re.findall(rf"^# (?:{'|'.join(marks)}): (\S+) (\S+)$", text, re.MULTILINE)
    return {(rule, identity) for rule, identity in found}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    paths = [*FIXTURES.glob("k8s.*/*.yaml"), *FIXTURES.glob("tf.*/*.tf")]
    return {str(path.relative_to(FIXTURES)): path.read_text(encoding="utf-8") for path in sorted(paths)}


@pytest.fixture(scope="module")
def inputs(texts: dict[str, str]) -> dict[str, Json]:
    return {name.rsplit(".", 1)[0]: value for name, value in shapes(texts).items()}


@pytest.fixture(scope="module")
def found(inputs: dict[str, Json]) -> dict[str, Found]:
    return evaluate(inputs)


def test_there_are_as_many_rules_as_promised() -> None:
    assert len([rule for rule in RULES if rule.startswith("k8s.")]) >= 25
    assert len([rule for rule in RULES if rule.startswith("tf.")]) >= 15
    for cloud in ("aws", "google", "azure"):
        assert [rule for rule in RULES if rule.startswith(f"tf.{cloud}-")]


def test_each_rule_has_its_two_fixtures_and_no_fixture_is_left_over() -> None:
    assert {case.split("/")[0] for case in CASES} == set(RULES)
    assert {f"{rule}/{side}" for rule in RULES for side in ("fail", "pass")} <= set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_a_fixture_has_exactly_the_findings_that_it_tells(
    case: str, texts: dict[str, str], found: dict[str, Found]
) -> None:
    text = texts[f"{case}.yaml" if case.startswith("k8s.") else f"{case}.tf"]
    rule, side = case.split("/")
    own = told(text, "expect")
    assert side.split("-")[0] in ("fail", "pass")
    assert {name for name, _ in own} == ({rule} if side.startswith("fail") else set())
    assert rule not in {name for name, _ in told(text, "also")}
    assert found[case] == told(text, "expect", "also")


def workload(kind: str, group: str) -> Json:
    """A workload of a kind whose only privileged container is in a group."""
    bad = {"name": "bad", "image": "x", "securityContext": {"privileged": True}}
    spec = {"containers": [{"name": "good", "image": "x"}], group: [bad]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    job = {"jobTemplate": {"spec": {"template": template}}}
    body = {"Pod": spec, "CronJob": job}.get(kind, {"template": template})
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "web"}, "spec": body}


def test_every_kind_of_workload_and_container_is_seen() -> None:
    cases = {f"{kind}/{group}": workload(kind, group) for kind in KINDS for group in GROUPS}
    found = evaluate(shapes({f"{name}.yaml": json.dumps(value) for name, value in cases.items()}))
    for name in cases:
        kind = name.split("/")[0]
        assert ("k8s.privileged-container", f"{kind}/default/web") in found[f"{name}.yaml"], name


def places(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths to everything inside a value."""
    if path:
        yield path
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        yield from places(member, (*path, key))


def replaced(value: Json, path: tuple[str | int, ...], new: Json) -> Json:
    """A copy with something else at a path."""
    out = copy.deepcopy(value)
    inner = out
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return out


def test_a_value_unknown_until_apply_never_adds_a_finding(
    inputs: dict[str, Json], found: dict[str, Found]
) -> None:
    spots = [
        (case, ("terraform", number, "attributes", *path))
        for case, value in inputs.items()
        if "/pass" in case
        for number, resource in enumerate(value["terraform"])
        for path in places(resource["attributes"])
    ]
    # tfparse tells the unknown in both ways; which one comes where is of no matter to the rules.
    unknown = [{"__attribute__": "var.later"}, None]
    changed = {
        f"{case} {path}": replaced(inputs[case], path, unknown[place % 2])
        for place, (case, path) in enumerate(spots)
    }
    assert len(changed) > 500
    for name, findings in evaluate(changed).items():
        assert findings <= found[name.split(" ")[0]], name


JUNK = [None, 5, -1.5, "x", "", "true", "${x}", True, False, [], {}, [None], [[5], "a", {}], {"a": None}]


def test_values_of_any_type_are_judged_without_an_error(inputs: dict[str, Json]) -> None:
    rng = random.Random(1)
    changed = {}
    for number in range(400):
        case = rng.choice(CASES)
        kind, inside = ("kubernetes", "object") if case.startswith("k8s.") else ("terraform", "attributes")
        item = rng.randrange(len(inputs[case][kind]))
        path = rng.choice([*places(inputs[case][kind][item][inside])])
        changed[str(number)] = replaced(inputs[case], (kind, item, inside, *path), rng.choice(JUNK))
    assert evaluate(changed).keys() == changed.keys()


def test_nothing_to_judge_is_an_empty_answer() -> None:
    assert evaluate({"none": Shapes().to_input(), "bare": {}}) == {"none": set(), "bare": set()}
