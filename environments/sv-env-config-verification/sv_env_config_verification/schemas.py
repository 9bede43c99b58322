"""Schemas: whether manifests are what the Kubernetes API takes, decided offline.

The schemas are those of one Kubernetes version, carried by kubernetes-validate, in their strict form: a field
that the API does not know is an error, so that a misspelt hardening does not pass for one. Terraform has no
schemas that could be carried along; there the allow-list of `preservation` decides on attributes.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sv_env_config_verification.fields import same
from sv_env_config_verification.shapes import Document, Json
from sv_shared.errors import ToolError

KUBERNETES_VERSION = "1.35.0"
"""The version whose schemas are used."""

_KIND = re.compile(r"[A-Za-z0-9]{1,63}")
_API_VERSION = re.compile(r"(?:[a-z0-9][a-z0-9.-]{0,252}/)?v[0-9][a-z0-9]{0,30}")


def schema_problems(before: Sequence[Document], after: Sequence[Document]) -> list[str]:
    """What the API would refuse of the objects of `after`; objects that stand in `before` as they are, pass.

    A kind without a schema (a custom resource, an API that is gone) passes where `before` has an object of
    that kind and version, and is a problem elsewhere. An object whose original already has unknown fields is
    held against the schema that lets them be.

    Args:
        before: the original objects.
        after: the objects to judge.

    Returns:
        One line a problem, "<identity>: <field>: <why>".

    Raises:
        ToolError: the schemas are not installed.
    """
    unchanged = [document.object for document in before]
    known = {(d.object["apiVersion"], d.object["kind"]) for d in before}
    originals = {document.id: document.object for document in before}
    problems: list[str] = []
    for document in after:
        manifest = document.object
        if any(same(manifest, original) for original in unchanged):
            continue
        found = check(manifest)
        if found is None:
            if (manifest["apiVersion"], manifest["kind"]) not in known:
                problems.append(f"{document.id}: no schema for {manifest['kind']}")
        elif found and document.id in originals and check(originals[document.id]):
            problems += [f"{document.id}: {line}" for line in check(manifest, strict=False) or []]
        else:
            problems += [f"{document.id}: {line}" for line in found]
    return problems


def check(manifest: dict[str, Json], *, strict: bool = True) -> list[str] | None:
    """What the API would refuse of a manifest, as "<field>: <why>"; None where there is no schema for it.

    Args:
        manifest: an object with apiVersion and kind.
        strict: whether unknown fields are refused.

    Raises:
        ToolError: the schemas are not installed.
    """
    kind, version = manifest["kind"], manifest["apiVersion"]
    # Both become part of a file's name.
    if not _KIND.fullmatch(kind) or not _API_VERSION.fullmatch(version):
        return None
    validator = _validator(kind, version, strict)
    if validator is None:
        return None
    errors = validator.iter_errors(manifest)
    return [f"{error.json_path}: {error.message[:200]}" for error in errors]


@lru_cache(maxsize=256)
def _validator(kind: str, api_version: str, strict: bool) -> Any:
    """The validator of a kind; None where there is no schema."""
    from jsonschema.validators import Draft202012Validator  # type: ignore[import-untyped]
    from kubernetes_validate.utils import schema_contents

    group, slash, version = api_version.rpartition("/")
    prefix = f"{group.partition('.')[0]}-" if slash else ""
    folder = _folder(strict)
    try:
        schema = schema_contents(f"{folder}/{kind.lower()}-{prefix}{version}.json", KUBERNETES_VERSION)
    except FileNotFoundError:
        return None
    return Draft202012Validator(schema, registry=_registry(folder))


def _folder(strict: bool) -> str:
    return f"kubernetes-json-schema/v{KUBERNETES_VERSION}-local" + ("-strict" if strict else "")


@lru_cache(maxsize=2)
def _registry(folder: str) -> Any:
    from kubernetes_validate.utils import VersionNotSupportedError, schema_contents
    from referencing import Registry, Resource

    try:
        definitions = schema_contents(f"{folder}/_definitions.json", KUBERNETES_VERSION)
    except (FileNotFoundError, VersionNotSupportedError) as error:
        raise ToolError(
            f"the schemas of Kubernetes {KUBERNETES_VERSION} are not installed",
            hint="Install the project again with make setup",
        ) from error
    resource = Resource.from_contents(definitions)
    return Registry().with_resource(str(definitions.get("$id", "")), resource)
