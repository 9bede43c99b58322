"""Folders of manifests and Terraform trees as they come: one sample a manifest file, or a Terraform folder.

Besides `inputs.Problem`, a file may be refused as
- `link`: a symbolic link, which could lead out of the folder,
- `unreadable`: the system gives no access,
- `helm-chart`: a part of an unrendered Helm chart that is no template, such as values.yaml,
- `no-objects`: a file with nothing in it to judge,
- `folder-refused`: sound, but another file of its Terraform folder is not.
"""

import os
from collections import defaultdict
from pathlib import Path, PurePosixPath

from sv_env_config_verification.data.samples import Collection, Refusal, Sample
from sv_env_config_verification.inputs import MAX_BYTES, InputError, Problem, is_helm_template
from sv_env_config_verification.reading import Reader
from sv_env_config_verification.rows import Format
from sv_shared.errors import DataError

_MANIFESTS = frozenset({".yaml", ".yml", ".json"})
_TERRAFORM = frozenset({".tf", ".tfvars"})


async def load_manifests(folder: Path, reader: Reader) -> Collection:
    """Every Kubernetes manifest below a folder (Datree's and Kubesec's samples, kubernetes-goat), unlabelled.

    A rendered Helm chart (`helm template`) is plain YAML and loads; an unrendered one is refused.

    Args:
        folder: the dataset.
        reader: parses each file, so that no sample is given out that the tools would refuse.

    Raises:
        DataError: the folder is not there.
        ToolError: the Terraform parser does not work.
    """
    texts, refused = _read(folder, _MANIFESTS)
    charts = {path.parent for path in _walk(folder) if path.name == "Chart.yaml"}
    samples: list[Sample] = []
    for path, text in texts.items():
        chart = any((folder / path).is_relative_to(chart) for chart in charts)
        if chart and not is_helm_template(text) and "{{" not in text:
            refused.append(Refusal(path, "helm-chart", "part of an unrendered chart; render it first"))
            continue
        name = PurePosixPath(path).name
        got = await _sample(path, "kubernetes", {name: text}, reader)
        samples += got.samples
        refused += [Refusal(path, refusal.reason, refusal.message) for refusal in got.refused]
    return _ordered(samples, refused)


async def load_terraform(folder: Path, reader: Reader, *, by_file: bool = False) -> Collection:
    """Every folder with Terraform files below a folder (TerraGoat), unlabelled.

    The files of one folder are one module and are judged together, as Terraform does; where one of them
    can't be read none of them is taken, since the rest would be another module.

    Args:
        folder, reader: as in `load_manifests`, and so are the errors.
        by_file: each file is a module of its own: KICS keeps variants of one module side by side.
    """
    texts, refused = _read(folder, _TERRAFORM)
    modules: dict[str, dict[str, str]] = defaultdict(dict)
    for path, text in texts.items():
        module = path if by_file else str(PurePosixPath(path).parent)
        modules[module][PurePosixPath(path).name] = text
    lost = {str(PurePosixPath(r.path).parent) for r in refused if PurePosixPath(r.path).suffix in _TERRAFORM}
    samples: list[Sample] = []
    for module, files in sorted(modules.items()):
        if module in lost:
            got = Collection((), tuple(_bystander(name) for name in files))
        else:
            got = await _sample(module, "terraform", files, reader)
        samples += got.samples
        parent = PurePosixPath(module).parent if by_file else PurePosixPath(module)
        refused += [Refusal(str(parent / r.path), r.reason, r.message) for r in got.refused]
    return _ordered(samples, refused)


async def _sample(sample: str, form: Format, files: dict[str, str], reader: Reader) -> Collection:
    """The sample; or a refusal a file, its path being the file's name."""
    try:
        shapes = await reader.read(files)
    except InputError as error:
        told = {notice.file: Refusal(notice.file, notice.label, notice.message) for notice in error.notices}
        return Collection((), tuple(told.get(name) or _bystander(name) for name in files))
    if not shapes.items():
        empty = (Refusal(name, "no-objects", "holds nothing to judge") for name in files)
        return Collection((), tuple(empty))
    return Collection((Sample(sample, form, files),), ())


def _bystander(name: str) -> Refusal:
    return Refusal(name, "folder-refused", "another file of its folder can't be read")


def _read(folder: Path, suffixes: frozenset[str]) -> tuple[dict[str, str], list[Refusal]]:
    """Text by path of the files with these endings; all others refused."""
    if not folder.is_dir():
        raise DataError("no such folder", where=str(folder), hint="Give the folder of the dataset")
    texts: dict[str, str] = {}
    refused: list[Refusal] = []
    for path in _walk(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file():
            refused.append(Refusal(name, "link", "a link or no plain file"))
        elif path.suffix.lower() not in suffixes:
            what = f"the ending {path.suffix!r} is not among {', '.join(sorted(suffixes))}"
            refused.append(Refusal(name, Problem.UNKNOWN_KIND.value, what))
        else:
            text = _text(path)
            if isinstance(text, str):
                texts[name] = text
            else:
                refused.append(Refusal(name, *text))
    return texts, refused


def _text(path: Path) -> str | tuple[str, str]:
    """A file's text, or (reason, message)."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return Problem.TOO_LARGE.value, f"larger than {MAX_BYTES:,} bytes"
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        return Problem.BINARY.value, f"not UTF-8: {error.reason} at byte {error.start}"
    except OSError as error:
        return "unreadable", str(error.strerror)


def _walk(folder: Path) -> list[Path]:
    """Everything below a folder that is no folder, in order; links to folders are told and not followed."""
    found: list[Path] = []
    for at, folders, names in os.walk(folder):
        linked = [name for name in folders if (Path(at) / name).is_symlink()]
        found += [Path(at) / name for name in (*names, *linked)]
    return sorted(found)


def _ordered(samples: list[Sample], refused: list[Refusal]) -> Collection:
    return Collection(
        tuple(sorted(samples, key=lambda sample: sample.id)),
        tuple(sorted(refused, key=lambda refusal: (refusal.path, refusal.reason))),
    )
