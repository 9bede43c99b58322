"""How far E2's tools agree with Checkov's fixtures, and the fallback engine with OPA.

.venv/bin/python scripts/e2_conformance.py --data DIR

Prints the tables of docs/e2-conformance.md. DIR holds checkov_kubernetes/ and checkov_terraform_aws_gcp/,
each with an expected.json.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.data.checkov import (
    kubernetes_expectations,
    load_checks,
    terraform_expectations,
)
from sv_env_config_verification.data.conformance import Confusion, Judged, confusion, judge
from sv_env_config_verification.inputs import InputError
from sv_env_config_verification.reading import Reader
from sv_shared.findings import weaknesses


def main() -> None:
    """Scan all fixtures and print what agrees and what does not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the datasets")
    parser.add_argument(
        "--allow-missing", action="store_true", help="do without tools that are not installed"
    )
    given = parser.parse_args()
    asyncio.run(_run(given.data, given.allow_missing))


async def _run(data: Path, allow_missing: bool) -> None:
    folders = {"kubernetes": data / "checkov_kubernetes", "terraform": data / "checkov_terraform_aws_gcp"}
    checks = load_checks()
    reader = Reader()
    async with await Toolbox.open(allow_missing=allow_missing) as toolbox:
        print("Tools: " + ", ".join(f"{v.tool} {v.version}" for v in toolbox.versions))
        print("Missing: " + (", ".join(toolbox.missing) or "none"))
        manifests, silent = await kubernetes_expectations(folders["kubernetes"], reader)
        expected = [*manifests, *terraform_expectations(folders["terraform"])]
        judged = await judge(folders, expected, checks, toolbox, reader)
    await reader.close()
    mapped = {one.check.id for one in judged}
    unsaid = sum(line.split(" ", 1)[0] in mapped for line in silent)
    print(f"Checks: {len({e.check for e in expected})}, of which mapped: {len(mapped)}")
    print(f"File names of mapped checks that tell nothing: {unsaid}\n")
    _print_parts(judged)
    _print_weaknesses(judged)
    _print_disagreements(judged)
    await _print_fallback(folders, expected)


def _print_parts(judged: list[Judged]) -> None:
    ruled = [one for one in judged if not one.check.gap]
    parts: list[tuple[str, list[Judged]]] = [("all classes of the taxonomy", judged)]
    parts += [("checks with a rule of ours", ruled)]
    for language in ("kubernetes", "terraform"):
        own = [one for one in judged if one.expectation.language == language]
        parts.append((f"{language}, all", own))
        parts.append((f"{language}, with a rule", [one for one in own if not one.check.gap]))
    parts.append(("of whole files", [one for one in judged if not one.expectation.object]))
    _head("Part", "Checks")
    for name, rows in parts:
        _row(f"{name} | {len({one.check.id for one in rows})}", confusion(rows))
    print()


def _print_weaknesses(judged: list[Judged]) -> None:
    _head("Weakness")
    for name in sorted({one.check.weaknesses[0] for one in judged}):
        _row(f"`{name}`", confusion(one for one in judged if one.check.weaknesses[0] == name))
    print()


def _print_disagreements(judged: list[Judged]) -> None:
    wrong = [one for one in judged if not one.agrees]
    classes = Counter(one.reason.split(":", 1)[0] for one in wrong)
    print("Reasons: " + ", ".join(f"{reason} {count}" for reason, count in classes.most_common()))
    for one in wrong:
        e = one.expectation
        said = "fails" if e.fails else "passes"
        place = e.object or ", ".join(e.files)
        print(f"{e.check} {said} {place} ({', '.join(one.check.weaknesses)}): {one.reason}")


async def _print_fallback(folders: dict[str, Path], expected: Iterable[object]) -> None:
    """How many fixture files get the same (weakness, object) pairs from OPA and from the fallback engine."""
    from sv_env_config_verification.adapters.base import Desk
    from sv_env_config_verification.adapters.fallback import OpaEvalAdapter
    from sv_env_config_verification.adapters.opa import OpaAdapter

    desk = Desk.open()
    opa, fallback = OpaAdapter(desk), OpaEvalAdapter(desk)
    same = total = refused = 0
    for folder in folders.values():
        for path in sorted(p for p in folder.rglob("*") if p.suffix in (".yaml", ".yml", ".json", ".tf")):
            files = {path.name: path.read_text(encoding="utf-8")}
            try:
                a, b = weaknesses(await opa.scan(files)), weaknesses(await fallback.scan(files))
            except InputError:
                refused += 1
                continue
            total, same = total + 1, same + (a == b)
    await opa.close()
    await fallback.close()
    await desk.reader.close()
    print(f"\nFallback engine: the same pairs as OPA in {same} of {total} files ({refused} refused by both)")


def _head(*names: str) -> None:
    columns = (*names, "Both", "Missed", "Extra", "Neither", "Untold", "Agreement", "Strict")
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))


def _row(name: str, c: Confusion) -> None:
    shares = ["-" if share is None else f"{share:.1%}" for share in (c.agreement, c.strict)]
    cells = [name, *map(str, (c.both, c.missed, c.extra, c.neither, c.untold)), *shares]
    print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
