"""Rows, diffs and toolboxes for tests of the audit's grading."""

import difflib
import json
from collections.abc import Mapping
from typing import Any

from sv_env_config_verification.adapters.base import Adapter, Desk, Hit
from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.rows import Row
from sv_shared.errors import ToolError
from sv_shared.findings import Finding

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  replicas: 2
  selector:
    matchLabels:
      app: web
  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
        - name: web
          image: registry.example/web:1.2.3
          ports:
            - containerPort: 8080
          securityContext:
            privileged: true
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
spec:
  selector:
    app: web
  ports:
    - port: 80
      targetPort: 8080
"""
"""One Deployment with a privileged container, and its Service."""

MENDED = WEB.replace("privileged: true", "privileged: false")

BUCKET = """\
variable "log_name" {
  default = "acme-logs"
}

resource "aws_s3_bucket" "logs" {
  bucket = var.log_name
  acl    = "public-read"

  versioning {
    enabled = true
  }
}

output "name" {
  value = aws_s3_bucket.logs.id
}
"""
"""One public bucket, a variable and an output."""

PRIVILEGED = [
    {"id": "privileged-container", "object": "Deployment/shop/web", "severity": "critical"},
    {"id": "service-to-privileged-pod", "object": "Service/shop/web", "severity": "high"},
]

INTENT = [
    {"kind": "selects", "service": "Service/shop/web", "workload": "Deployment/shop/web"},
    {"kind": "port_open", "object": "Service/shop/web", "port": 80},
]


def diff(before: Mapping[str, str], after: Mapping[str, str], context: int = 3) -> str:
    """A unified diff between two workspaces."""
    parts: list[str] = []
    for name in sorted(before):
        lines = [text.splitlines(keepends=True) for text in (before[name], after[name])]
        for line in difflib.unified_diff(*lines, f"a/{name}", f"b/{name}", n=context):
            parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def row(**changes: Any) -> Row:
    """A row with WEB's two violations; fields may be changed."""
    fields: dict[str, Any] = {
        "id": "row-1",
        "format": "kubernetes",
        "files": {"web.yaml": WEB},
        "intent": INTENT,
        "violations": PRIVILEGED,
        "patch": diff({"web.yaml": WEB}, {"web.yaml": MENDED}),
        "difficulty": "easy",
        "cluster": "web",
        "kind": "tools-agree",
    }
    return Row.model_validate(fields | changes)


def bucket_row(**changes: Any) -> Row:
    """A row with BUCKET and its violation."""
    fields: dict[str, Any] = {
        "format": "terraform",
        "files": {"main.tf": BUCKET},
        "intent": [
            {"kind": "field_equals", "object": "aws_s3_bucket.logs", "path": "bucket", "value": "acme-logs"}
        ],
        "violations": [{"id": "public-bucket", "object": "aws_s3_bucket.logs", "severity": "critical"}],
        "patch": to_file(BUCKET, BUCKET.replace("public-read", "private"), "main.tf"),
    }
    return row(**(fields | changes))


def clean_row() -> Row:
    """A row with nothing wrong."""
    return row(files={"web.yaml": MENDED}, violations=[], patch=None, kind="clean")


def to_file(before: str, after: str, name: str = "web.yaml") -> str:
    """The diff of one file."""
    return diff({name: before}, {name: after})


def reply(item: Row, patch: str | None, violations: list[Any] | None = None) -> str:
    """An answer that names the row's own violations, or those given."""
    named = [v.model_dump(mode="json") for v in item.violations] if violations is None else violations
    return json.dumps({"violations": named, "patch": patch})


class PrivilegeTool:
    """A tool that knows one rule: no privileged containers. It breaks on a text that holds `broken`."""

    name = engine = "opa"

    def __init__(self, desk: Desk, broken: str | None = None) -> None:
        self._desk, self._broken, self.scans = desk, broken, 0

    async def version(self) -> str:
        return "1"

    async def scan(self, files: Mapping[str, str]) -> list[Finding]:
        self.scans += 1
        if self._broken is not None and any(self._broken in text for text in files.values()):
            raise ToolError("the tool fell over")
        shapes = await self._desk.reader.read(files)
        hits = [
            Hit("k8s.privileged-container", d.id, d.file, d.line, "privileged")
            for d in shapes.kubernetes
            if "'privileged': True" in str(d.object)
        ]
        return self._desk.findings(self.name, self.engine, "1", hits)

    async def close(self) -> None:
        return None


def toolbox(broken: str | None = None) -> tuple[Toolbox, PrivilegeTool]:
    """A toolbox with nothing but a PrivilegeTool."""
    desk = Desk.open()
    tool = PrivilegeTool(desk, broken)
    adapter: Adapter = tool
    return Toolbox(desk, {"opa": adapter}, ()), tool
