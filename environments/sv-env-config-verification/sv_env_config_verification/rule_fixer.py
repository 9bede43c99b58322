"""RuleFixer: mends what can be mended by looking at a few lines, the way a quick script would.

It finds the objects of manifests and the blocks of Terraform, looks for settings that are wrong wherever they
stand, and writes a patch. It knows nothing of the statement, of other objects, or of what is missing.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sv_env_config_verification.inputs import InputError
from sv_env_config_verification.manifests import read_manifests
from sv_env_config_verification.shapes import Shapes


class Claim(NamedTuple):
    """A weakness of an object."""

    weakness: str
    object: str


class Repair(NamedTuple):
    """What the rules found, and the patch that mends it; None where nothing was found."""

    claims: tuple[Claim, ...]
    patch: str | None


class _Rule(NamedTuple):
    weakness: str
    wrong: re.Pattern[str]
    right: str
    types: str = ""
    """Beginning of the Terraform types that it is about."""


def _yaml(weakness: str, key: str, wrong: str, right: str | None) -> _Rule:
    """A value that becomes another one, or goes with its key for None."""
    if right is None:
        return _gone(weakness, rf" *{key}: *{wrong}")
    return _Rule(weakness, re.compile(rf"^(?P<k> *(?:- )?{key}: *){wrong}$", re.MULTILINE), rf"\g<k>{right}")


def _gone(weakness: str, *lines: str) -> _Rule:
    """Lines that go, one after the other."""
    return _Rule(weakness, re.compile("".join(f"^{line}\n" for line in lines), re.MULTILINE), "")


def _hcl(weakness: str, key: str, wrong: str, right: str, types: str = "") -> _Rule:
    return _Rule(
        weakness, re.compile(rf"^(?P<k> *{key} *= *){wrong}$", re.MULTILINE), rf"\g<k>{right}", types
    )


# Settings that the operator wants as often as not, such as the host's network, are left alone.
_SECRET = r"[A-Z_]*(?:PASSWORD|SECRET|TOKEN)"
_KUBERNETES = (
    _yaml("privilege-escalation", "allowPrivilegeEscalation", "true", "false"),
    _Rule(
        "privileged-container",
        re.compile(r"^( *)privileged: true$", re.MULTILINE),
        r"\1allowPrivilegeEscalation: false",
    ),
    _yaml("writable-root-filesystem", "readOnlyRootFilesystem", "false", "true"),
    _yaml("host-pid", "hostPID", "true", None),
    _yaml("host-ipc", "hostIPC", "true", None),
    _yaml("unmasked-proc-mount", "procMount", '"?Unmasked"?', None),
    _yaml("root-user", "runAsUser", "0", "10001"),
    _yaml("seccomp-unconfined", "type", '"?Unconfined"?', "RuntimeDefault"),
    _yaml("host-port", "hostPort", "[0-9]+", None),
    _gone("dangerous-capability", " *add:", " *- (?:SYS_MODULE|SYS_ADMIN|NET_ADMIN|SYS_PTRACE)"),
    _gone("unsafe-sysctl", " *sysctls:", r" *- name: kernel\..*", " *value: .*"),
    _gone("env-secret-literal", rf" *- name: {_SECRET}", " *value: .*"),
    _gone("external-ips", " *externalIPs:", " *- .*"),
    _gone(
        "rbac-anonymous-subject", " *- kind: Group", " *name: system:(?:un)?authenticated", " *apiGroup: .*"
    ),
    _gone("default-account-binding", " *- kind: ServiceAccount", " *name: default", " *namespace: .*"),
    _Rule("credential-in-url", re.compile(r"^( *value: .*://)[\w.-]+:[\w.-]+@", re.MULTILINE), r"\1"),
)
_TERRAFORM = (
    _hcl("public-bucket", "acl", '"public-read(-write)?"', '"private"', "aws_s3_bucket"),
    _hcl("no-object-versioning", "status", '"Suspended"', '"Enabled"', "aws_s3_bucket_versioning"),
    _hcl("no-key-rotation", "enable_key_rotation", "false", "true"),
    _hcl("no-key-rotation", "rotation_period", '"[0-9]{8,}s"', '"7776000s"'),
    _hcl("unencrypted-storage", "(storage_|at_rest_)?encrypt(ed|ion_enabled)", "false", "true"),
    _hcl("public-database", "publicly_accessible", "true", "false"),
    _hcl("instance-metadata-v1", "http_tokens", '"optional"', '"required"'),
    _hcl("audit-trail-incomplete", "(is_multi_region_trail|enable_logging)", "false", "true"),
    _hcl("audit-trail-unprotected", "enable_log_file_validation", "false", "true"),
    _hcl("mixed-bucket-acl", "uniform_bucket_level_access", "false", "true"),
    _hcl("weak-cluster-authorization", "enable_legacy_abac", "true", "false"),
    _hcl("password-login", "issue_client_certificate", "true", "false"),
    _hcl("password-login", "disable_password_authentication", "false", "true"),
    _hcl("cleartext-transport", "ssl_mode", '"ALLOW_UNENCRYPTED_AND_ENCRYPTED"', '"ENCRYPTED_ONLY"'),
    _hcl("cleartext-transport", "(https_traffic_only_enabled|https_only)", "false", "true"),
    _hcl("old-tls", "min_tls_version", '"TLS1_[01]"', '"TLS1_2"'),
    _hcl("old-tls", "minimum_tls_version", '"1\\.[01]"', '"1.2"'),
    _hcl("open-storage-network", "default_action", '"Allow"', '"Deny"', "azurerm_storage_account"),
    _hcl("public-bucket", "container_access_type", '"(blob|container)"', '"private"'),
)
_BLOCK = re.compile(r'^(resource|data|module)\s+"([^"]+)"(?:\s+"([^"]+)")?\s*\{')


def repair(files: Mapping[str, str]) -> Repair:
    """The claims and the patch for a workspace; nothing of a file that can't be read."""
    claims: list[Claim] = []
    after: dict[str, str] = {}
    for name in sorted(files):
        text, done, mended = files[name], 0, ""
        for match, rule, owner in _hits(name, text):
            if match.start() < done:
                continue
            claims.append(Claim(rule.weakness, owner))
            if rule.weakness == "privileged-container":
                claims.append(Claim("privilege-escalation", owner))
            mended += text[done : match.start()] + match.expand(rule.right)
            done = match.end()
        after[name] = mended + text[done:]
    return Repair(tuple(dict.fromkeys(claims)), diff(files, after) or None)


def _hits(name: str, text: str) -> list[tuple[re.Match[str], _Rule, str]]:
    """What the rules find in a file, in its order, with the object it is in."""
    owners = owners_of(name, text)
    found = []
    for rule in _TERRAFORM if name.endswith(".tf") else _KUBERNETES:
        for match in rule.wrong.finditer(text):
            owner = owners[text.count("\n", 0, match.start())]
            if owner and owner.startswith(rule.types):
                found.append((match, rule, owner))
    return sorted(found, key=lambda hit: hit[0].start())


def owners_of(name: str, text: str) -> list[str]:
    """The object that each line belongs to, "" for none; the lines are those of `text.split("\\n")`."""
    count = text.count("\n") + 1
    if name.endswith(".tf"):
        return list(_terraform_owners(text))
    try:
        shapes = Shapes(kubernetes=tuple(read_manifests(name, text)))
    except InputError:
        return [""] * count
    return [shapes.object_at(name, number) for number in range(1, count + 1)]


def diff(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """A unified diff between two workspaces of the same files; "" where they are the same."""
    parts: list[str] = []
    for name in sorted(before):
        old, new = (text.splitlines(keepends=True) for text in (before[name], after[name]))
        for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"):
            parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def _terraform_owners(text: str) -> Iterator[str]:
    """By blocks at the margin, which is how `terraform fmt` writes them."""
    owner = ""
    for line in text.split("\n"):
        if found := _BLOCK.match(line):
            kind, first, second = found.groups()
            owner = ".".join(filter(None, ("" if kind == "resource" else kind, first, second)))
        yield owner
        if line.startswith("}") or (found and line.rstrip().endswith("}")):
            owner = ""
