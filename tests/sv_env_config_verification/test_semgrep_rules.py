"""Every Semgrep rule against its two fixtures, under the real Semgrep.

fixtures/<rule>/fail.* has a comment `# ruleid: <rule>` above each line that the rule has to report (as for
`semgrep --test`); pass.* has none: it holds the nearest things that are fine.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sv_env_config_verification.adapters.base import Desk
from sv_env_config_verification.adapters.semgrep import RULES as FOLDER
from sv_env_config_verification.adapters.semgrep import SemgrepAdapter
from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.reading import Reader
from sv_shared.findings import Finding
from tests.sv_env_config_verification.doubles import need

FIXTURES = Path(__file__).with_name("fixtures")
RULES: dict[str, dict[str, Any]] = {
    rule["id"]: rule
    for path in sorted(FOLDER.glob("*.yaml"))
    for rule in yaml.safe_load(path.read_text(encoding="utf-8"))["rules"]
}
CASES = [f"{rule}/{side}" for rule in RULES for side in ("fail", "pass")]

OTHER_OBJECTS = {
    # Their fixtures have lines outside every resource: providers, variables, outputs, locals.
    "tf-secret-variable-default",
    "tf-provider-credentials",
    "tf-aws-access-key",
    "tf-known-token",
    "tf-url-credentials",
    "tf-plain-secret-output",
    "tf-plain-http-url",
    "tf-tls-verification-off",
    "tf-state-not-encrypted",
}


def suffix(case: str) -> str:
    return "yaml" if case.startswith("k8s-") else "tf"


def told(text: str) -> set[tuple[str, int]]:
    """(rule, line) as a fixture's comments tell; a comment speaks of the line below it."""
    marks = ((number, re.search(r"# ruleid: (\S+)", line)) for number, line in enumerate(text.split("\n"), 1))
    return {(mark[1], number + 1) for number, mark in marks if mark}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {case: (FIXTURES / f"{case}.{suffix(case)}").read_text(encoding="utf-8") for case in CASES}


@pytest.fixture(scope="module")
def found(texts: dict[str, str]) -> dict[str, list[Finding]]:
    """The findings in each fixture; all go through Semgrep in a call or two."""
    need("semgrep", "semgrep")

    async def scan() -> list[list[Finding]]:
        desk = Desk(Reader(), load_catalogue(), None)
        adapter = SemgrepAdapter(desk, linger_s=2.0)
        try:
            await adapter.version()
            jobs = (adapter.scan({f"x.{suffix(case)}": text}) for case, text in texts.items())
            return await asyncio.gather(*jobs)
        finally:
            await adapter.close()
            await desk.close()

    return dict(zip(texts, asyncio.run(scan()), strict=True))


def test_there_are_as_many_rules_as_promised() -> None:
    assert len([rule for rule in RULES if rule.startswith("k8s-")]) >= 12
    assert len([rule for rule in RULES if rule.startswith("tf-")]) >= 10


def test_no_id_is_given_twice_and_none_ends_like_another() -> None:
    ids = re.findall(r"^  - id: (\S+)$", "".join(p.read_text() for p in FOLDER.glob("*.yaml")), re.MULTILINE)
    assert sorted(ids) == sorted(RULES)
    # Semgrep puts a path and a dot before an id.
    assert not [rule for rule in ids if "." in rule]


def test_each_rule_has_its_two_fixtures_and_no_fixture_is_left_over() -> None:
    there = {
        f"{path.parent.name}/{path.stem}" for path in FIXTURES.glob("*/*") if "." not in path.parent.name
    }
    assert there == set(CASES)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_says_what_the_catalogue_says(rule: str) -> None:
    catalogue = load_catalogue()
    weakness = catalogue.weaknesses[catalogue.rules["semgrep"][rule]]
    assert RULES[rule]["metadata"] == {
        "weakness": weakness.id,
        "severity": weakness.severity.value,
        "cwe": f"CWE-{weakness.cwe}",
    }
    assert RULES[rule]["languages"] == (["yaml"] if rule.startswith("k8s-") else ["terraform"])
    expected = {"low": "INFO", "medium": "WARNING", "high": "ERROR", "critical": "ERROR"}
    assert RULES[rule]["severity"] == expected[weakness.severity.value]


@pytest.mark.parametrize("case", CASES)
def test_a_fixture_has_exactly_the_findings_that_it_tells(
    case: str, texts: dict[str, str], found: dict[str, list[Finding]]
) -> None:
    rule, side = case.split("/")
    expected = told(texts[case])
    assert {name for name, _ in expected} == ({rule} if side == "fail" else set())
    assert {(finding.rule, finding.line) for finding in found[case]} == expected


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in OTHER_OBJECTS])
def test_a_finding_names_its_object(rule: str, found: dict[str, list[Finding]]) -> None:
    assert all(finding.object for finding in found[f"{rule}/fail"]), json.dumps(
        found[f"{rule}/fail"], default=str
    )
