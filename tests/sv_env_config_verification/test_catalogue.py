"""The taxonomy: every rule of every tool is in it, and what it says of standards has the right form."""

import asyncio
import json
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from sv_env_config_verification.adapters.opa import POLICIES
from sv_env_config_verification.adapters.semgrep import RULES as SEMGREP_RULES
from sv_env_config_verification.catalogue import FOLDER, load_catalogue
from sv_shared.findings import Severity
from sv_shared.tool_folder import find_installed
from sv_shared.tools import run_tool
from tests.sv_env_config_verification.doubles import need

CWES = {
    78: "OS Command Injection",
    94: "Code Injection",
    214: "Invocation of Process Using Visible Sensitive Information",
    250: "Execution with Unnecessary Privileges",
    261: "Weak Encoding for Password",
    266: "Incorrect Privilege Assignment",
    269: "Improper Privilege Management",
    295: "Improper Certificate Validation",
    306: "Missing Authentication for Critical Function",
    309: "Use of Password System for Primary Authentication",
    311: "Missing Encryption of Sensitive Data",
    312: "Cleartext Storage of Sensitive Information",
    319: "Cleartext Transmission of Sensitive Information",
    321: "Use of Hard-coded Cryptographic Key",
    324: "Use of a Key Past its Expiration Date",
    326: "Inadequate Encryption Strength",
    353: "Missing Support for Integrity Check",
    489: "Active Debug Code",
    494: "Download of Code Without Integrity Check",
    522: "Insufficiently Protected Credentials",
    526: "Cleartext Storage of Sensitive Information in an Environment Variable",
    532: "Insertion of Sensitive Information into Log File",
    653: "Improper Isolation or Compartmentalization",
    668: "Exposure of Resource to Wrong Sphere",
    693: "Protection Mechanism Failure",
    732: "Incorrect Permission Assignment for Critical Resource",
    770: "Allocation of Resources Without Limits or Throttling",
    778: "Insufficient Logging",
    798: "Use of Hard-coded Credentials",
    829: "Inclusion of Functionality from Untrusted Control Sphere",
    863: "Incorrect Authorization",
    918: "Server-Side Request Forgery (SSRF)",
    923: "Improper Restriction of Communication Channel to Intended Endpoints",
    1125: "Excessive Attack Surface",
    1188: "Initialization of a Resource with an Insecure Default",
    1357: "Reliance on Insufficiently Trustworthy Component",
}
"""The numbers in use, with their names in the Common Weakness Enumeration (compared by hand)."""

NSA_SECTIONS = {
    '"Non-root" containers and "rootless" container engines',
    "Immutable container file systems",
    "Building secure container images",
    "Pod security enforcement",
    "Protecting Pod service account tokens",
    "Hardening container environments",
    "Namespaces",
    "Network policies",
    "Resource policies",
    "Control plane hardening",
    "Encryption",
    "Secrets",
    "Protecting sensitive cloud infrastructure",
    "Authentication",
    "Role-based access control",
}
BENCHMARKS = {
    "CIS Kubernetes 1.10": r"1\.2\.[16]|2\.2|4\.2\.1|5\.[1-7]\.\d{1,2}",
    "CIS AWS Foundations 3.0": r"1\.16|2\.[1-4]\.\d|3\.\d|5\.\d",
    "CIS GCP Foundations 3.0": r"[1-7]\.\d{1,2}",
    "CIS Azure Foundations 3.0": r"[2-9]\.\d{1,2}(\.\d)?",
    "CIS GKE 1.6": r"5\.[1-9]\.\d",
    "CIS EKS 1.5": r"5\.[1-5]\.\d",
}


def raw(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))


def test_the_catalogue_knows_exactly_our_own_rules() -> None:
    rules = load_catalogue().rules
    rego = "".join(path.read_text(encoding="utf-8") for path in POLICIES.rglob("*.rego"))
    assert set(rules["opa"]) == set(re.findall(r'"((?:k8s|tf)\.[a-z0-9-]+)"', rego))
    files = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in SEMGREP_RULES.glob("*.yaml"))
    assert set(rules["semgrep"]) == {rule["id"] for file in files for rule in file["rules"]}


def test_all_checks_of_kubelinter_are_known() -> None:
    assert len(load_catalogue().rules["kubelinter"]) == 63


def test_the_checks_are_those_of_the_real_kubelinter() -> None:
    need("kube-linter", "kube-linter")

    async def names() -> set[str]:
        tool = await find_installed("kube-linter", version_args=("version",))
        result = await run_tool(tool, ["checks", "list", "--format", "json"])
        return {check["name"] for check in json.loads(result.stdout)}

    assert set(load_catalogue().rules["kubelinter"]) == asyncio.run(names())


def test_the_checks_of_kubelinters_own_tests_are_known(shared_data: Path) -> None:
    path = shared_data / "E2" / "kubelinter_checks" / "expected.json"
    if not path.is_file():
        pytest.skip(f"KubeLinter's own tests are not there: {path}")
    cases = json.loads(path.read_text(encoding="utf-8")).values()
    named = {check for case in cases for check in case["include"]}
    assert len(named) > 50
    assert named <= set(load_catalogue().rules["kubelinter"])


def test_every_weakness_is_shown_by_a_rule() -> None:
    catalogue = load_catalogue()
    shown = {weakness for rules in catalogue.rules.values() for weakness in rules.values()} - {""}
    assert shown == set(catalogue.weaknesses)


def test_names_are_kebab_case_and_titles_are_not_repeated() -> None:
    weaknesses = load_catalogue().weaknesses.values()
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", weakness.id) for weakness in weaknesses)
    titles = Counter(weakness.title.lower() for weakness in weaknesses)
    assert not [title for title, times in titles.items() if times > 1]
    assert all(0 < len(weakness.title) <= 80 and not weakness.title.endswith(".") for weakness in weaknesses)


def test_every_severity_is_in_use() -> None:
    assert {weakness.severity for weakness in load_catalogue().weaknesses.values()} == set(Severity)


def test_weakness_numbers_are_real() -> None:
    assert {weakness.cwe for weakness in load_catalogue().weaknesses.values()} == set(CWES)


def test_controls_are_sections_that_the_standards_have() -> None:
    for weakness in load_catalogue().weaknesses.values():
        assert len(set(weakness.controls)) == len(weakness.controls), weakness.id
        for control in weakness.controls:
            standard, section = control.split(": ", 1)
            if standard == "NSA/CISA Kubernetes Hardening Guide 1.2":
                assert section in NSA_SECTIONS, weakness.id
            else:
                assert re.fullmatch(BENCHMARKS[standard], section), (weakness.id, control)


def test_a_rule_without_a_weakness_says_why() -> None:
    rows = raw("rules.toml")
    without = {
        (tool, rule): row
        for tool, rules in rows.items()
        for rule, row in rules.items()
        if not isinstance(row, str)
    }
    assert {tool for tool, _ in without} == {"kubelinter"}
    for place, row in without.items():
        assert row.keys() == {"weakness", "reason"}, place
        assert row["weakness"] == "", place
        assert len(row["reason"]) > 10, place
    assert not [place for rules in rows.values() for place, row in rules.items() if row == ""]


def test_a_rule_named_after_a_weakness_shows_that_one() -> None:
    catalogue = load_catalogue()
    for tool, rules in catalogue.rules.items():
        for rule, weakness in rules.items():
            name = rule.removeprefix("k8s.").removeprefix("tf.")
            if name in catalogue.weaknesses and weakness:
                assert weakness == name, (tool, rule)


def test_the_three_tools_meet_in_the_taxonomy() -> None:
    catalogue = load_catalogue()
    known = Counter(len(catalogue.tools_for(weakness)) for weakness in catalogue.weaknesses)
    assert set(known) == {1, 2, 3}
    assert known[2] + known[3] >= 25
