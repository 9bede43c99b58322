"""Reading Terraform into Resources: tfparse evaluates it in a process of its own, which is kept warm."""

import asyncio
import json
import posixpath
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from sv_env_config_verification.children import Child
from sv_env_config_verification.inputs import InputError, Problem, problem
from sv_env_config_verification.shapes import Json, Resource
from sv_shared.errors import ToolError
from sv_shared.sarif import Notice
from sv_shared.tools import Tool

MAX_DEPTH = 100
"""Most nested brackets; tfparse ends its process on a few hundred thousand."""

TIMEOUT_S = 10.0
"""Wall time for one workspace; a usual one takes some milliseconds."""

_MAX_ANSWER = 32 << 20
_BRACKETS = re.compile(r"[\[({]|[])}]")
_PLACE = re.compile(r"(?P<file>[^\s:]+\.tf):(?P<line>\d+),\d+(?:-\d+(?:,\d+)?)?: (?P<why>.*)", re.DOTALL)
_INDEX = re.compile(r"\[[^]]*\]")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_GOOD = {"main.tf": 'resource "x" "y" {\n  z = 1\n}\n'}


class TerraformParser:
    """Parses Terraform workspaces, one at a time. One event loop uses an instance; `close` it in the end.

    Nothing is downloaded: a module that is not part of the workspace stays a module call.

    Args:
        timeout_s: wall time for one workspace.
    """

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()
        self._child: Child | None = None
        self._said = ""
        self._tool = Tool("tfparse", Path(sys.executable), "", timeout_s=timeout_s)

    async def parse(self, files: Mapping[str, str]) -> list[Resource]:
        """The resources, data sources and module calls of a workspace.

        Args:
            files: text by name, .tf and .tfvars, already checked (`inputs.check_files`). Each folder is a
                root module, unless another one's module call leads there. `terraform.tfvars` and
                `*.auto.tfvars` count.

        Raises:
            InputError: the text is no Terraform, or costs more than a parse may.
            ToolError: the parser does not work, whatever the text.
        """
        for name, text in files.items():
            _check_depth(name, text)
        async with self._turn:
            answer = await self._ask(files)
            if answer is None:
                if await self._ask(_GOOD) is None:
                    raise ToolError(
                        f"the Terraform parser does not work, not even on one resource: {self._said!r}",
                        where=str(self._tool.binary),
                        hint="Install the project again with make setup",
                    )
                message = f"takes more than {self._timeout_s:g} s or too much memory to evaluate"
                raise problem(Problem.TOO_COMPLEX, message, min(files))
        if isinstance(answer, str):
            raise _refusal(answer, files)
        found = resources(answer)
        _check_places(found, files)
        return found

    async def close(self) -> None:
        """End the process. A second call does nothing."""
        if self._child is not None:
            await self._child.stop()
            self._said = self._child.last_words()
            self._child = None

    async def _ask(self, files: Mapping[str, str]) -> list[Json] | str | None:
        """What tfparse makes of each folder; or its complaint; or None where it did not survive."""
        with tempfile.TemporaryDirectory(prefix="sv-hcl-") as temp:
            root = Path(temp)
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="")
            parsed: list[Json] = []
            for folder in sorted({str(PurePosixPath(name).parent) for name in files if name.endswith(".tf")}):
                answer = await self._exchange(root / folder, _variables(folder, files))
                if answer is None or "error" in answer:
                    return None if answer is None else f"{folder}\n{answer['error']}"
                parsed.append((folder, answer["parsed"]))
            return parsed

    async def _exchange(self, folder: Path, variables: list[str]) -> dict[str, Json] | None:
        request = {"folder": str(folder), "vars": variables}
        child = self._child
        try:
            async with asyncio.timeout(self._timeout_s):
                if child is None or not child.alive:
                    await self.close()
                    self._child = child = await self._start()
                assert child.process.stdin is not None
                assert child.process.stdout is not None
                child.process.stdin.write(json.dumps(request).encode() + b"\n")
                line = await child.process.stdout.readline()
            answer: dict[str, Json] = json.loads(line)
        except (TimeoutError, ConnectionError, ValueError):
            # ValueError: a line over the limit, or a process that ended in the middle of one.
            await self.close()
            return None
        except BaseException:
            await self.close()  # its answer would be taken for the next one's
            raise
        return answer

    async def _start(self) -> Child:
        args = ["-I", "-m", "sv_env_config_verification.hcl_worker"]
        return await Child.start(self._tool, args, talks=True, max_line=_MAX_ANSWER)


def _variables(folder: str, files: Mapping[str, str]) -> list[str]:
    """Names of the variable files that Terraform reads in a folder; tfparse takes them without the folder."""
    paths = [PurePosixPath(name) for name in sorted(files)]
    names = [path.name for path in paths if str(path.parent) == folder]
    return [n for n in names if n == "terraform.tfvars"] + [n for n in names if n.endswith(".auto.tfvars")]


def _check_depth(name: str, text: str) -> None:
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth = depth + 1 if match[0] in "[({" else max(0, depth - 1)
        if depth > MAX_DEPTH:
            line = text.count("\n", 0, match.start()) + 1
            raise problem(Problem.TOO_COMPLEX, f"nests deeper than {MAX_DEPTH} brackets", name, line)


def _refusal(complaint: str, files: Mapping[str, str]) -> InputError:
    folder, _, text = complaint.partition("\n")
    place = _PLACE.search(text)
    if place is None:
        return problem(Problem.INVALID_HCL, " ".join(text.split())[:200], min(files))
    file = posixpath.normpath(posixpath.join(folder, place["file"]))
    why = " ".join(place["why"].split())[:200]
    return InputError([Notice(file, int(place["line"]), Problem.INVALID_HCL.value, why)])


def _check_places(found: list[Resource], files: Mapping[str, str]) -> None:
    """Refuse a module call that leads out of the workspace, and an address that is given twice."""
    seen: dict[tuple[str, str], Resource] = {}
    for resource in found:
        if resource.file not in files:
            raise problem(Problem.BAD_NAME, f"{resource.id} lies outside the workspace", min(files))
        key = (str(PurePosixPath(resource.file).parent), resource.id)
        first = seen.setdefault(key, resource)
        if (first.file, first.line) != (resource.file, resource.line):
            message = f"{resource.id} is given twice, first in {first.file}:{first.line}"
            raise problem(Problem.DUPLICATE_KEY, message, resource.file, resource.line)


def resources(parsed: list[tuple[str, dict[str, Json]]]) -> list[Resource]:
    """tfparse's answers as Resources.

    tfparse gives each block a random `id` and puts it where another block refers to that one; here a
    reference is {"__attribute__": "<address>.*"}, or "${<address>.*}" in a text, and no random id is left.

    Args:
        parsed: (folder, answer) of each folder of a workspace.

    Returns:
        Resources by file, line and id. What a module's folder holds is told once: through the call that leads
        there, where there is one, because only then its variables are known.
    """
    found: list[tuple[str, Resource]] = []
    for folder, answer in parsed:
        blocks = [block for group in answer.values() for block in group]
        names = {block["id"]: _address(block) for block in blocks if _address(block)}
        found += [(folder, _resource(folder, block, names)) for block in blocks if _is_resource(block)]
    called = {(r.file, r.line) for folder, r in found if r.id.startswith("module.") and r.type != "module"}
    kept = [r for _, r in found if (r.file, r.line) not in called or r.id.startswith("module.")]
    unique = {json.dumps([r.file, r.line, r.id, r.attributes], sort_keys=True): r for r in kept}
    return [
        unique[key] for key in sorted(unique, key=lambda k: (unique[k].file, unique[k].line, unique[k].id, k))
    ]


def _is_resource(block: dict[str, Json]) -> bool:
    meta = block["__tfmeta"]
    return meta.get("type") in ("resource", "data") or bool(re.search(r"(^|\.)module\.[^.]+$", meta["path"]))


def _address(block: dict[str, Json]) -> str:
    return _INDEX.sub("", block["__tfmeta"].get("path", ""))


def _resource(folder: str, block: dict[str, Json], names: Mapping[str, str]) -> Resource:
    meta = block["__tfmeta"]
    address = _address(block)
    label = meta["label"] if meta.get("type") in ("resource", "data") else "module"
    linked = (names.get(reference["id"], "") for reference in meta.get("references", []))
    return Resource(
        file=posixpath.normpath(posixpath.join(folder, meta["filename"])),
        line=int(meta["line_start"]),
        last_line=int(meta["line_end"]),
        id=address,
        type=label,
        name=address.rsplit(".", 1)[-1],
        attributes=_clean(block, names),
        references=tuple(sorted({name for name in linked if name and name != address})),
    )


def _clean(value: Json, names: Mapping[str, str]) -> Any:
    """The value without tfparse's marks: nested blocks in lists, references by address."""
    if isinstance(value, dict):
        return {
            key: [_clean(item, names)] if _is_block(item) else _clean(item, names)
            for key, item in value.items()
            if key != "__tfmeta" and not (key == "id" and "__tfmeta" in value and _is_random(item))
        }
    if isinstance(value, list):
        return [_clean(item, names) for item in value]
    if isinstance(value, str):
        if value in names:
            return {"__attribute__": f"{names[value]}.*"}
        return _UUID.sub(lambda found: f"${{{names[found[0]]}.*}}" if found[0] in names else found[0], value)
    return value


def _is_block(value: Json) -> bool:
    return isinstance(value, dict) and "__tfmeta" in value


def _is_random(value: Json) -> bool:
    return isinstance(value, str) and _UUID.fullmatch(value) is not None
