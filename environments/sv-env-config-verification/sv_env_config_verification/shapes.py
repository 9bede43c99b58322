"""Configuration files in the shape that rules are written for: Kubernetes documents and Terraform blocks."""

from dataclasses import dataclass
from typing import Any

Json = Any
"""A value made of dict, list, str, int, float, bool and None only."""


@dataclass(frozen=True, slots=True)
class Document:
    """One Kubernetes object.

    Attributes:
        file: name of its file.
        index: its place among the objects of the file, from 0; members of a List count one by one.
        line: line where it starts, from 1.
        last_line: line where it ends.
        id: its identity, `Kind/namespace/name`.
        object: the manifest.
    """

    file: str
    index: int
    line: int
    last_line: int
    id: str
    object: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Resource:
    """One Terraform resource, data source or module call; several where `count` or `for_each` makes several.

    Attributes:
        file: name of its file.
        line: line where its block starts, from 1.
        last_line: line where it ends.
        id: its address without an index: `type.name`, `data.type.name`, `module.m.type.name`, `module.m`.
        type: such as "aws_s3_bucket"; "module" for a module call.
        name: its name.
        attributes: what the block sets: variables and locals resolved, each nested block in a list. What is
            unknown until apply is {"__attribute__": address}, null, or text that holds "${address}".
        references: ids of the resources that the block names.
    """

    file: str
    line: int
    last_line: int
    id: str
    type: str
    name: str
    attributes: dict[str, Json]
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shapes:
    """A workspace, parsed.

    Attributes:
        kubernetes: objects in the order of files and documents.
        terraform: blocks in the order of files and lines.
    """

    kubernetes: tuple[Document, ...] = ()
    terraform: tuple[Resource, ...] = ()

    def items(self) -> "tuple[Document | Resource, ...]":
        """All of it: documents, then blocks."""
        return (*self.kubernetes, *self.terraform)

    def to_input(self) -> dict[str, Json]:
        """The input of the Rego rules: plain JSON values."""
        return {
            "kubernetes": [
                {"file": d.file, "index": d.index, "line": d.line, "id": d.id, "object": d.object}
                for d in self.kubernetes
            ],
            "terraform": [
                {
                    "file": r.file,
                    "line": r.line,
                    "id": r.id,
                    "type": r.type,
                    "name": r.name,
                    "attributes": r.attributes,
                    "references": list(r.references),
                }
                for r in self.terraform
            ],
        }

    def object_at(self, file: str, line: int) -> str:
        """Identity of what a line belongs to; "" for a line outside every object, such as a variable's."""
        inside = [item for item in self.items() if item.file == file and item.line <= line <= item.last_line]
        # The innermost one: a member of a List starts later than another that its lines could belong to.
        return max(inside, key=lambda item: (item.line, -item.last_line)).id if inside else ""


CLUSTER_SCOPED = frozenset(
    {
        "APIService",
        "CertificateSigningRequest",
        "ClusterRole",
        "ClusterRoleBinding",
        "ComponentStatus",
        "CSIDriver",
        "CSINode",
        "CustomResourceDefinition",
        "FlowSchema",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PodSecurityPolicy",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "RuntimeClass",
        "SecurityContextConstraints",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    }
)
"""Kinds without a namespace (`kubectl api-resources --namespaced=false`); others count as namespaced."""


def identity(manifest: dict[str, Json]) -> str:
    """The identity of a Kubernetes object: `Kind/namespace/name`.

    The namespace is "default" where a namespaced object names none, and empty for cluster-scoped kinds. An
    object with `generateName` only has that as its name; a name that is missing or no text is empty.
    """
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kind = _text(manifest.get("kind"))
    name = _text(metadata.get("name")) or _text(metadata.get("generateName"))
    namespace = "" if kind in CLUSTER_SCOPED else _text(metadata.get("namespace")) or "default"
    return f"{kind}/{namespace}/{name}"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
