"""`sv tools findings`: what OPA, KubeLinter and Semgrep say of configuration files."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from security_verifiers.cli.options import echo_json
from sv_shared.errors import ToolError, UsageError
from sv_shared.findings import Finding, Severity, tidy, worst
from sv_shared.sarif import Notice

if TYPE_CHECKING:
    from sv_env_config_verification.adapters.toolbox import Toolbox, ToolVersion

SCHEMA_VERSION = 1
ENDINGS = (".yaml", ".yml", ".tf", ".tfvars")
"""Files that are taken from a folder; .json is read only where it is named: most of it is something else."""

WIDTH = 160
"""Columns of the table in a file or a pipe."""


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "sarif"]), default="table", show_default=True
)
@click.option("--tools", default="opa,kubelinter,semgrep", show_default=True, help="Tools to run, by commas.")
@click.option("--allow-fallback", is_flag=True, help="Let opa-eval stand in for OPA; findings then say so.")
@click.option("--skip-missing", is_flag=True, help="Leave out a tool that is not installed, and say so.")
@click.option("--no-cache", is_flag=True, help="Run every tool, whatever is known from earlier.")
@click.option(
    "--fail-on",
    type=click.Choice([str(severity) for severity in Severity]),
    help="Exit with 1 when a weakness is at least this severe.",
)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="File instead of the screen.")
def command(
    paths: tuple[Path, ...],
    form: str,
    tools: str,
    allow_fallback: bool,
    skip_missing: bool,
    no_cache: bool,
    fail_on: str | None,
    output: Path | None,
) -> int:
    """Findings in FILEs (Kubernetes YAML, Terraform) and in the files of folders, which are one workspace.

    Exit code 2 when a file can't be judged; the others still are. Style findings are left out of the table.
    """
    from sv_env_config_verification.adapters.toolbox import Toolbox, cache_folder

    texts, shown = _read(paths)

    async def work() -> (
        "tuple[list[Finding], list[Notice], tuple[ToolVersion, ...], dict[str, str], float | None]"
    ):
        box = await Toolbox.open(
            [name.strip() for name in tools.split(",") if name.strip()],
            allow_fallback=allow_fallback,
            allow_missing=skip_missing,
            cache=None if no_cache else cache_folder(),
        )
        async with box:
            found, notices = await _scan(box, texts)
            missing = {name: str(error) for name, error in box.missing.items()}
            return found, notices, box.versions, missing, box.hit_rate

    found, notices, versions, missing, hit_rate = asyncio.run(work())
    found = [replace(finding, file=shown[finding.file]) for finding in found]
    notices = [replace(notice, file=shown.get(notice.file, notice.file)) for notice in notices]
    for name, why in missing.items():
        click.echo(f"sv: {name} was not run: {why}", err=True)
    for notice in notices:
        place = notice.file if notice.line is None else f"{notice.file}:{notice.line}"
        click.echo(f"sv: {place}: {notice.label}: {notice.message}", err=True)
    _show(form, output, found, notices, versions, missing, hit_rate)
    if notices:
        return 2
    highest = worst(found)
    return 1 if fail_on and highest is not None and highest >= Severity(fail_on) else 0


def _read(paths: Sequence[Path]) -> tuple[dict[str, str], dict[str, str]]:
    """(text by workspace name, path to show by workspace name).

    A workspace name is the path below the deepest folder that holds all files, so that Terraform modules find
    each other and no name leads upwards.

    Raises:
        UsageError: a path is not there or can't be read, or there is nothing to look at.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(p for p in path.rglob("*") if p.is_file() and p.suffix.lower() in ENDINGS)
        elif path.is_file():
            files.append(path)
        else:
            raise UsageError("no such file or folder", where=str(path))
    if not files:
        raise UsageError(
            "there is no file to look at", hint=f"Files in folders end with {', '.join(ENDINGS)}"
        )
    full = {path.absolute(): path for path in files}
    root = _common(list(full))
    texts: dict[str, str] = {}
    shown: dict[str, str] = {}
    for absolute, path in full.items():
        name = absolute.relative_to(root).as_posix()
        try:
            # A byte that is no UTF-8 becomes a lone surrogate, which the reader then names with its line.
            texts[name] = path.read_bytes().decode("utf-8", "surrogateescape")
        except OSError as error:
            raise UsageError(f"it can't be read: {error.strerror}", where=str(path)) from error
        shown[name] = path.as_posix()
    return texts, shown


def _common(paths: Sequence[Path]) -> Path:
    import os

    return Path(os.path.commonpath([path.parent for path in paths]))


async def _scan(box: "Toolbox", texts: Mapping[str, str]) -> tuple[list[Finding], list[Notice]]:
    """Findings in the files that can be judged, and what is wrong with the others, by any tool.

    Raises:
        ToolError: a tool failed, or none is left to run.
    """
    if not box.adapters:
        raise ToolError("no tool was run", hint="Run sv tools install")
    parts = await asyncio.gather(*(_scan_with(box, name, texts) for name in box.adapters))
    found = tidy(finding for part, _ in parts for finding in part)
    return found, list(dict.fromkeys(notice for _, part in parts for notice in part))


async def _scan_with(
    box: "Toolbox", tool: str, texts: Mapping[str, str]
) -> tuple[list[Finding], list[Notice]]:
    """One tool's findings: a file that it refuses is left out for this tool, and the others are scanned."""
    from sv_env_config_verification.inputs import InputError

    left = dict(texts)
    notices: list[Notice] = []
    while left:
        try:
            return await box.scan(left, [tool]), notices
        except InputError as error:
            bad = {notice.file for notice in error.notices} & set(left)
            if not bad:
                raise
            notices += error.notices
            left = {name: text for name, text in left.items() if name not in bad}
    return [], notices


def _show(
    form: str,
    output: Path | None,
    found: Sequence[Finding],
    notices: Sequence[Notice],
    versions: "Sequence[ToolVersion]",
    missing: Mapping[str, str],
    hit_rate: float | None,
) -> None:
    if form == "table":
        if output is None:
            _print_table(sys.stdout, found, versions)
            return
        with output.open("w", encoding="utf-8") as file:
            _print_table(file, found, versions)
        return
    value: Any
    if form == "sarif":
        from sv_env_config_verification.catalogue import load_catalogue
        from sv_shared.sarif import sarif

        ran = [(version.tool, version.engine, version.version) for version in versions]
        value = sarif(found, ran=ran, texts=load_catalogue().texts(), notices=notices)
    else:
        value = {
            "schema_version": SCHEMA_VERSION,
            "tools": [asdict(version) for version in versions],
            "not_run": dict(missing),
            "cache_hit_rate": hit_rate,
            "findings": [finding.to_dict() for finding in found],
            "not_judged": [asdict(notice) for notice in notices],
        }
    if output is None:
        echo_json(value)
        return
    import json

    output.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _print_table(file: Any, found: Sequence[Finding], versions: "Sequence[ToolVersion]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, width=WIDTH)
    colours = {Severity.CRITICAL: "bold red", Severity.HIGH: "red", Severity.MEDIUM: "yellow"}
    rows = [finding for finding in found if finding.weakness]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("severity", "weakness", "object", "place", "rule", "message"):
        table.add_column(heading, overflow="fold")
    for finding in sorted(rows, key=lambda f: -f.severity.rank):
        place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
        table.add_row(
            Text(str(finding.severity), colours.get(finding.severity, "")),
            *map(
                Text,
                (
                    finding.weakness,
                    finding.object,
                    place,
                    f"{finding.engine}: {finding.rule}",
                    finding.message,
                ),
            ),
        )
    if rows:
        console.print(table)
    ran = ", ".join(
        f"{v.tool} {v.version}" if v.tool == v.engine else f"{v.tool} by {v.engine} {v.version}"
        for v in versions
    )
    style = f", {len(found) - len(rows)} about style" if len(found) > len(rows) else ""
    console.print(f"{len(rows)} findings{style} ({ran})", markup=False, soft_wrap=True)
