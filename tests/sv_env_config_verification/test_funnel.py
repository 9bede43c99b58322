"""The funnel and the grade that comes of it, with a tool of ours and with the Rego rules."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.funnel import LAYERS, run_funnel, scan_baseline
from sv_env_config_verification.grading import METRICS, grade
from sv_env_config_verification.rewards import Weights
from sv_env_config_verification.rows import Row
from sv_shared.errors import DataError, ToolError
from sv_shared.outcomes import Outcome
from tests.sv_env_config_verification.audit_rows import (
    BUCKET,
    INTENT,
    MENDED,
    PRIVILEGED,
    WEB,
    bucket_row,
    clean_row,
    reply,
    row,
    to_file,
    toolbox,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

ONE = row(violations=PRIVILEGED[:1])
"""A row whose one violation the tool of ours sees."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box() -> AsyncIterator[Toolbox]:
    async with await Toolbox.open(["opa"], allow_fallback=True) as opened:
        yield opened


def edited(old: str, new: str, text: str = MENDED) -> str:
    """A patch from WEB to a text with one change more."""
    assert old in text
    return to_file(WEB, text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("layer", "patch", "cause"),
    [
        ("applies", "hello", "patch-not-a-diff"),
        ("parses", edited("kind: Service", "kind: [Service"), "invalid-yaml"),
        ("schema_valid", edited("replicas: 2", "replicas: two"), "schema: Deployment/shop/web"),
        ("targets_gone", edited("replicas: 2", "replicas: 2 # why", WEB), "still-there: privileged"),
        ("preserved", edited("replicas: 2", "replicas: 1"), "not-preserved: field"),
        ("intent_holds", edited("web:1.2.3", "web:1.2.4"), "intent-broken"),
    ],
)
async def test_a_patch_dies_at_the_first_layer_that_it_does_not_pass(
    layer: str, patch: str, cause: str
) -> None:
    image = {"kind": "image_is", "object": "Deployment/shop/web", "container": "web"}
    item = row(violations=PRIVILEGED[:1], intent=[*INTENT, image | {"image": "registry.example/web:1.2.3"}])
    tools, _ = toolbox()
    async with tools:
        result = await run_funnel(item, patch, tools)
    at = LAYERS.index(layer)
    assert result.layers == {name: i < at for i, name in enumerate(LAYERS)}
    assert result.cause.startswith(cause)
    assert not result.repaired
    assert not result.tampering
    assert not result.crashed


async def test_the_reference_repairs(box: Toolbox) -> None:
    for item in (row(), bucket_row()):
        assert item.patch is not None
        result = await run_funnel(item, item.patch, box)
        assert result.repaired, result
        assert result.cause == ""


async def test_a_new_weakness_is_no_repair(box: Toolbox) -> None:
    patch = edited("    spec:\n      containers", "    spec:\n      hostPID: true\n      containers")
    result = await run_funnel(row(), patch, box)
    assert result.layers["targets_gone"]
    assert not result.layers["no_new_findings"]
    assert result.cause == "new-finding: host-pid Deployment/shop/web"


async def test_the_baseline_is_asked_once_where_it_is_given() -> None:
    tools, tool = toolbox()
    async with tools:
        baseline = await scan_baseline(ONE, tools)
        assert tool.scans == 1
        assert baseline == ONE.pairs
        for _ in range(2):
            assert (await run_funnel(ONE, str(ONE.patch), tools, baseline)).repaired
    assert tool.scans == 3


async def test_a_violation_that_no_tool_sees_needs_its_predicates() -> None:
    tools, _ = toolbox()
    key = "service-to-privileged-pod Service/shop/web"
    fix = {
        "kind": "field_equals",
        "object": "Deployment/shop/web",
        "path": "spec.template.spec.containers[*].securityContext.runAsNonRoot",
        "value": True,
    }
    async with tools:
        with pytest.raises(DataError, match="no tool at hand"):
            await run_funnel(row(), str(row().patch), tools)
        unseen = row(fixes={key: [fix]})
        half = await run_funnel(unseen, str(unseen.patch), tools)
        assert half.cause == f"still-there: {key}"
        whole = edited("privileged: false", "privileged: false\n            runAsNonRoot: true")
        assert (await run_funnel(unseen, whole, tools)).repaired
        with pytest.raises(DataError, match="clean"):
            await run_funnel(clean_row(), "x", tools)


async def test_a_tool_that_only_this_patch_breaks_is_the_patch_s_fault() -> None:
    tools, tool = toolbox(broken="privileged: false")
    async with tools:
        result = await run_funnel(ONE, str(ONE.patch), tools)
        assert result.crashed
        assert result.tampering
        assert result.cause == "tool-failed: the tool fell over"
        verdict = await grade(reply(ONE, ONE.patch), ONE, tools, Weights(), True)
        assert verdict.reward == 0.0
        assert verdict.components == {"floor": 0.0}
    assert tool.scans == 6  # baseline, patch and control, twice


async def test_a_tool_that_is_broken_anyway_is_ours() -> None:
    tools, _ = toolbox(broken="Deployment")
    async with tools:
        with pytest.raises(ToolError, match="fell over"):
            await run_funnel(ONE, str(ONE.patch), tools, ONE.pairs)


async def test_terraform_patches_meet_the_same_layers(box: Toolbox) -> None:
    item = bucket_row()
    private = BUCKET.replace("public-read", "private")

    async def cause(text: str) -> str:
        return (await run_funnel(item, to_file(BUCKET, text, "main.tf"), box)).cause

    assert await cause(private.replace("value = aws", "sensitive = true\n  value = aws")) == ""
    assert (
        await cause(private.replace("acme-logs", "other"))
        == "not-preserved: field-not-open-to-repair aws_s3_bucket.logs bucket"
    )
    assert (await cause(private.replace(".id", ".arn"))).startswith(
        "not-preserved: field-not-open-to-repair out"
    )
    assert await cause(private.replace('"logs" {', '"logs" {\n  count = 0')) == (
        "not-preserved: object-gone aws_s3_bucket.logs"
    )
    assert (await cause(private[:-3])).startswith("invalid-hcl")


# Grades ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [True, False])
async def test_the_reference_answer_earns_everything(box: Toolbox, tools: bool) -> None:
    for item in (row(), bucket_row(), clean_row()):
        restored = Row.model_validate_json(item.model_dump_json())
        verdict = await grade(reply(item, item.patch), restored, box, Weights(), tools)
        assert verdict.reward == pytest.approx(1.0)
        assert verdict.flags == ()
        assert set(verdict.metrics) == set(METRICS)
        assert verdict.metrics["repaired"] == 1.0


@pytest.mark.parametrize(
    ("text", "settings", "outcome"),
    [
        ("", {}, Outcome.PARSE_FAIL),
        ('{"violations": []}', {}, Outcome.PARSE_FAIL),
        ("I can't help with that.", {}, Outcome.REFUSED),
        ("", {"finish_reason": "content_filter"}, Outcome.REFUSED),
        (json.dumps({"violations": [], "patch": None}), {"refusal": "no"}, Outcome.REFUSED),
    ],
    ids=str,
)
async def test_no_answer_scores_the_floor(text: str, settings: Any, outcome: Outcome) -> None:
    tools, tool = toolbox()
    async with tools:
        for item in (ONE, clean_row()):
            verdict = await grade(text, item, tools, Weights(), True, **settings)
            assert (verdict.outcome, verdict.reward) == (outcome, 0.0)
            assert set(verdict.metrics) == set(METRICS)
            assert verdict.cause
            assert sum(verdict.metrics[name] for name in ("answered", "parse_fail", "refused")) == 1.0
    assert tool.scans == 0


async def test_parts_are_paid_apart() -> None:
    tools, _ = toolbox()
    async with tools:
        found = await grade(reply(ONE, None), ONE, tools, Weights(), True)
        assert found.components == pytest.approx({"detection": 0.3, "repair": 0.0})
        mended = await grade(reply(ONE, ONE.patch, []), ONE, tools, Weights(), False)
        assert mended.components == pytest.approx({"detection": 0.0, "repair": 0.4})
        assert mended.metrics["patched"] == 1.0
        assert mended.truth == {"violations": PRIVILEGED[:1]}


async def test_a_clean_row_pays_for_leaving_it_alone() -> None:
    tools, tool = toolbox()
    item = clean_row()
    async with tools:
        kept = await grade(reply(item, "  "), item, tools, Weights(), True)
        assert kept.reward == pytest.approx(1.0)
        touched = await grade(reply(item, "anything"), item, tools, Weights(), True)
        assert touched.components == pytest.approx({"detection": 0.3, "repair": 0.0})
        accused = await grade(reply(item, None, PRIVILEGED), item, tools, Weights(), True)
        assert accused.components == pytest.approx({"detection": 0.0, "repair": 0.7})
    assert tool.scans == 0
