"""Checkov's own fixtures: which resource of which file fails which check."""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.inputs import InputError
from sv_env_config_verification.reading import Reader
from sv_env_config_verification.shapes import CLUSTER_SCOPED, Document
from sv_shared.errors import DataError

MAPPING = Path(__file__).with_name("checkov.toml")
_VERDICT = re.compile(r"PASSED|FAILED", re.IGNORECASE)
_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Check:
    """A Checkov check that the taxonomy covers.

    Attributes:
        id: Checkov's id.
        weaknesses: classes, any of which is what it finds.
        tests: what passes it, in words.
        gap: why none of our rules can see it; "" where one can.
        differs: how it asks for more or less than the class, "reason-class: words"; "" where it does not.
    """

    id: str
    weaknesses: tuple[str, ...]
    tests: str
    gap: str = ""
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What Checkov says of one resource, or of a file where its tests name no resource.

    Attributes:
        check: the check's id.
        language: "kubernetes" or "terraform".
        files: paths of the files that are judged together.
        object: identity of the resource; "" for the whole file, which fails where any resource does.
        fails: whether it fails the check.
    """

    check: str
    language: str
    files: tuple[str, ...]
    object: str
    fails: bool


def load_checks(path: Path = MAPPING) -> dict[str, Check]:
    """The mapping, by check id.

    Raises:
        DataError: it can't be read, a check is not complete, or it names a weakness that is not there.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        checks = {
            key: Check(key, **{**row, "weaknesses": tuple(row["weaknesses"])}) for key, row in table.items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"the mapping of checks can't be read: {error}", where=str(path)) from error
    known = load_catalogue().weaknesses
    for check in checks.values():
        if not check.weaknesses or not set(check.weaknesses) <= set(known):
            raise DataError(f"{check.id} names no known weakness: {check.weaknesses}", where=str(path))
    return checks


def terraform_expectations(folder: Path) -> list[Expectation]:
    """The resources that expected.json names, a folder of fixtures being one module.

    Raises:
        DataError: expected.json is missing or damaged.
    """
    return [
        Expectation(row["check_id"], "terraform", tuple(row["files"]), name, fails)
        for row in _expected(folder)
        for key, fails in (("passing_resources", False), ("failing_resources", True))
        for name in row[key]
    ]


async def kubernetes_expectations(folder: Path, reader: Reader) -> tuple[list[Expectation], list[str]]:
    """What Checkov expects of the manifests, as finely as its tests tell.

    A resource counts by its name where the tests name it. Else the file names tell (-PASSED, -FAILED): of
    every resource where the numbers of resources in such files are those that the tests expect, else of the
    file as a whole, which says less.

    Returns:
        The expectations, and "check path" of the files whose names tell nothing.

    Raises:
        DataError: expected.json is missing or damaged.
    """
    told: list[Expectation] = []
    silent: list[str] = []
    for row in _expected(folder):
        objects = await _objects(folder, row["dir"], reader)
        if row.get("failing_resources") is not None and row.get("passing_resources") is not None:
            told += _named(row, objects)
            continue
        verdicts = {path: _verdict(path) for path in objects}
        silent += [f"{row['check_id']} {path}" for path, verdict in verdicts.items() if verdict is None]
        sure = {path: verdict for path, verdict in verdicts.items() if verdict is not None}
        own = _by_counts(row, objects, sure) or _by_file(row, sure)
        told += own
        silent += [] if own else [f"{row['check_id']} {path}" for path in sure]
    return told, silent


def _expected(folder: Path) -> list[dict[str, Any]]:
    path = folder / "expected.json"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"can't be read: {error}", where=str(path)) from error
    if not isinstance(rows, list) or not all(
        isinstance(r, dict) and {"check_id", "dir"} <= set(r) for r in rows
    ):
        raise DataError("is no list of checks with check_id and dir", where=str(path))
    return rows


async def _objects(folder: Path, name: str, reader: Reader) -> dict[str, Sequence[Document]]:
    """The objects of each manifest in a folder of fixtures; none for one that can't be read."""
    found: dict[str, Sequence[Document]] = {}
    for path in sorted((folder / name).iterdir()):
        if path.suffix in _SUFFIXES:
            try:
                shapes = await reader.read({path.name: path.read_text(encoding="utf-8")})
            except InputError:
                found[f"{name}/{path.name}"] = ()
            else:
                found[f"{name}/{path.name}"] = shapes.kubernetes
    return found


def _named(row: dict[str, Any], objects: dict[str, Sequence[Document]]) -> list[Expectation]:
    told: list[Expectation] = []
    homes = {document.id: path for path, documents in objects.items() for document in documents}
    for key, fails in (("passing_resources", False), ("failing_resources", True)):
        for name in row[key]:
            kind, namespace, rest = name.split(".", 2)
            identity = f"{kind}/{'' if kind in CLUSTER_SCOPED else namespace}/{rest}"
            files = (homes[identity],) if identity in homes else ()
            told.append(Expectation(row["check_id"], "kubernetes", files, identity, fails))
    return told


def _verdict(path: str) -> bool | None:
    """True for a file said to fail, False for one said to pass, None where its name says both or neither."""
    said = {word.upper() for word in _VERDICT.findall(Path(path).name)}
    return said == {"FAILED"} if len(said) == 1 else None


def _by_counts(
    row: dict[str, Any], objects: dict[str, Sequence[Document]], sure: dict[str, bool]
) -> list[Expectation]:
    """Each resource by the name of its file, where the numbers prove that this is meant; else nothing."""
    everything = [(path, document, fails) for path, fails in sure.items() for document in objects[path]]
    workloads = [entry for entry in everything if _has_pod(entry[1])]
    for chosen in (everything, workloads):
        counts = (sum(not fails for *_, fails in chosen), sum(fails for *_, fails in chosen))
        if chosen and counts == (row.get("passed"), row.get("failed")):
            blank = Expectation(row["check_id"], "kubernetes", (), "", False)
            return [replace(blank, files=(p,), object=d.id, fails=fails) for p, d, fails in chosen]
    return []


def _by_file(row: dict[str, Any], sure: dict[str, bool]) -> list[Expectation]:
    """Each file by its name; nothing where more are named so than the tests expect."""
    fails = sum(sure.values())
    if fails > row.get("failed", 0) or len(sure) - fails > row.get("passed", 0):
        return []
    return [Expectation(row["check_id"], "kubernetes", (path,), "", fails) for path, fails in sure.items()]


def _has_pod(document: Document) -> bool:
    spec = document.object.get("spec")
    return isinstance(spec, dict) and any(key in spec for key in ("containers", "template", "jobTemplate"))
