"""Pairs of a manifest and its labels, as in GenKubeSec (Malul et al., 2024), in JSON or CSV.

GenKubeSec fine-tunes a model on manifests labelled by rule-based tools under one index of misconfigurations,
with a remediation for each. Its data are not in a public repository that we know of, so the columns here are
ours, made after the paper's description:

- `manifest`: YAML text. Needed.
- `labels`: in JSON a list, in CSV a text parted by `;`. Each is a weakness id (`privileged-container`) or a
  tool's rule (`kubelinter:privileged-container`), and may name its object after a space
  (`host-pid Pod/default/web`), which it must where the manifest holds several. Needed; empty for a clean one.
- `fixed`: the mended YAML text. Optional, and so is `id`. Other columns are passed over.

A JSON file is a list of such records, or one record a line (.jsonl).
"""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.data.samples import Collection, Refusal, Sample, violations_of
from sv_env_config_verification.inputs import InputError
from sv_env_config_verification.reading import Reader
from sv_shared.errors import DataError, ToolError

_NAME = "manifest.yaml"
_MAX_BYTES = 256 << 20
"""Largest file of pairs; the whole of it is held in memory."""


class _BadLabel(ValueError):
    """A label that names no weakness or no object of the manifest."""


async def load_pairs(path: Path, reader: Reader) -> Collection:
    """The records of a file, labelled by their source. A bad record is refused and the others are read.

    Reasons besides `inputs.Problem`: `bad-record` (not an object, or without manifest and labels),
    `bad-label` (an unknown weakness or object, or no object where there are several), `bad-fix` (the mended
    manifest can't be read), `duplicate-id`.

    Args:
        path: a .json, .jsonl or .csv file.
        reader: parses the manifests.

    Raises:
        DataError: the file can't be read as what its name says.
    """
    samples: dict[str, Sample] = {}
    refused: list[Refusal] = []
    for number, record in enumerate(_records(path), start=1):
        place = f"{path.name}#{number}"
        got = await _sample(place, record, reader)
        if isinstance(got, Sample) and got.id in samples:
            got = Refusal(place, "duplicate-id", f"the id {got.id!r} was given before")
        if isinstance(got, Sample):
            samples[got.id] = got
        else:
            refused.append(got)
    return Collection(tuple(samples.values()), tuple(refused))


async def _sample(place: str, record: Any, reader: Reader) -> Sample | Refusal:
    if not isinstance(record, Mapping) or not isinstance(record.get("manifest"), str):
        return Refusal(place, "bad-record", "no record with a text as its manifest")
    labels = _labels(record.get("labels"))
    if labels is None:
        return Refusal(place, "bad-record", "labels are neither a list of texts nor a text")
    files = {_NAME: record["manifest"]}
    try:
        objects = [item.id for item in (await reader.read(files)).items()]
    except InputError as error:
        return Refusal(place, error.notices[0].label, error.notices[0].message)
    try:
        violations = violations_of(_pair(label, objects) for label in labels)
    except (_BadLabel, ToolError) as error:
        return Refusal(place, "bad-label", str(error))
    fixed = record.get("fixed") or None
    if fixed is not None:
        if not isinstance(fixed, str):
            return Refusal(place, "bad-fix", "the mended manifest is no text")
        try:
            await reader.read({_NAME: fixed})
        except InputError as error:
            return Refusal(place, "bad-fix", error.notices[0].message)
    mended = None if fixed is None else {_NAME: fixed}
    return Sample(str(record.get("id") or place), "kubernetes", files, violations, "source", mended)


def _labels(value: Any) -> list[str] | None:
    if isinstance(value, str):
        value = value.split(";")
    if not isinstance(value, list) or not all(isinstance(label, str) for label in value):
        return None
    return [label.strip() for label in value if label.strip()]


def _pair(label: str, objects: list[str]) -> tuple[str, str]:
    """(weakness, object) of a label."""
    name, _, identity = label.partition(" ")
    catalogue = load_catalogue()
    tool, colon, rule = name.partition(":")
    if colon:
        found = catalogue.weakness(tool, rule)
        if found is None:
            raise _BadLabel(f"{name} shows no weakness")
        name = found.id
    elif name not in catalogue.weaknesses:
        raise _BadLabel(f"the catalogue knows no weakness {name!r}")
    if not identity and len(objects) != 1:
        raise _BadLabel(f"{name} does not say which of {len(objects)} objects it is about")
    if identity and identity not in objects:
        raise _BadLabel(f"the manifest holds no {identity}")
    return name, identity or objects[0]


def _records(path: Path) -> Iterator[Any]:
    kind = path.suffix.lower()
    if kind not in (".json", ".jsonl", ".csv"):
        raise DataError("pairs are read from .json, .jsonl and .csv files", where=str(path))
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DataError(f"larger than {_MAX_BYTES >> 20} MiB", where=str(path), hint="Split the file")
        text = path.read_text(encoding="utf-8-sig")
        if kind == ".csv":
            return iter(_rows(text))
        if kind == ".jsonl":
            return iter([json.loads(line) for line in text.splitlines() if line.strip()])
        records = json.loads(text)
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise DataError(f"can't be read as {kind[1:].upper()}: {error}", where=str(path)) from error
    if not isinstance(records, list):
        raise DataError("is no list of records", where=str(path))
    return iter(records)


def _rows(text: str) -> list[dict[str | Any, str | Any]]:
    # A manifest is one field, and may be longer than the module's own limit of 128 kB.
    csv.field_size_limit(_MAX_BYTES)
    reader = csv.DictReader(text.splitlines(keepends=True), strict=True)
    if reader.fieldnames is None or not {"manifest", "labels"} <= set(reader.fieldnames):
        raise ValueError("no columns manifest and labels")
    return list(reader)
