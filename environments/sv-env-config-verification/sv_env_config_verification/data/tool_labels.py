"""Labels for real files that have none: the union of what the tools report. No truth, and marked so."""

import asyncio
from dataclasses import replace

from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.data.samples import Collection, Refusal, Sample, violations_of
from sv_env_config_verification.inputs import InputError
from sv_shared.findings import weaknesses

_AT_ONCE = 16
"""Samples scanned at the same time: enough to fill the adapters' batches."""


async def label_with_tools(collection: Collection, toolbox: Toolbox) -> Collection:
    """The collection with the tools' (weakness, object) pairs as labels: "tools".

    A tool that reports the like of a human reviewer is not thereby right; such a set shows that the pipeline
    takes real files and is for tests only (`Sample.is_test_only`). A sample with its own labels keeps them.
    Findings of no object (a line outside every block) are left out, since an answer has to name an object.

    Args:
        collection: what a loader gave.
        toolbox: the tools, whose versions belong beside the labels.

    Returns:
        The samples in their order; one that a tool refuses becomes a refusal for each of its files.

    Raises:
        ToolError: a tool does not work.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    got = await asyncio.gather(*(_label(sample, toolbox, gate) for sample in collection.samples))
    samples = tuple(one for one in got if isinstance(one, Sample))
    refused = [refusal for one in got if not isinstance(one, Sample) for refusal in one]
    everything = sorted([*collection.refused, *refused], key=lambda refusal: (refusal.path, refusal.reason))
    return Collection(samples, tuple(everything))


async def _label(sample: Sample, toolbox: Toolbox, gate: asyncio.Semaphore) -> Sample | list[Refusal]:
    if sample.labels != "none":
        return sample
    async with gate:
        try:
            findings = await toolbox.scan(sample.files)
        except InputError as error:
            first = error.notices[0]
            return [Refusal(_path(sample, name), first.label, first.message) for name in sample.files]
    pairs = {(weakness, owner) for weakness, owner in weaknesses(findings) if owner}
    return replace(sample, violations=violations_of(pairs), labels="tools")


def _path(sample: Sample, name: str) -> str:
    """A file's path in its dataset: a sample's id is that of its one file, or of its folder."""
    return sample.id if sample.id.endswith(f"/{name}") or sample.id == name else f"{sample.id}/{name}"
