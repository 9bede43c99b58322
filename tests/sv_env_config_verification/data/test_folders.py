"""Folders of real files: every file lies in a sample or is refused with its reason."""

import os

import pytest
import pytest_asyncio

from sv_env_config_verification.data.folders import load_manifests, load_terraform
from sv_env_config_verification.reading import Reader
from sv_shared.errors import DataError

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {hostPID: true}\n"
TF = 'resource "a" "b" {\n  c = 1\n}\n'


@pytest_asyncio.fixture
async def reader():
    own = Reader()
    yield own
    await own.close()


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def told(collection):
    return {refusal.path: refusal.reason for refusal in collection.refused}


async def test_a_manifest_is_a_sample_and_anything_else_is_refused_by_name(tmp_path, reader):
    write(
        tmp_path,
        {
            "a/pod.yaml": POD,
            "b/pod.json": '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}',
            "bad.yaml": "a: [1",
            "twice.yaml": POD + "kind: Pod\n",
            "note.yaml": "just: a mapping\n",
            "empty.yml": "# nothing\n",
            "README.md": "text",
            "latin.yaml": b"a: \xe9\n",
            "zero.yaml": POD + "# \x00",
            "big.yaml": "# " + "x" * (1 << 19),
            "secret/outside.txt": "",
        },
    )
    os.symlink("/etc", tmp_path / "etc")
    os.symlink("/etc/passwd", tmp_path / "passwd.yaml")
    got = await load_manifests(tmp_path, reader)
    assert [(s.id, list(s.files), s.labels) for s in got.samples] == [
        ("a/pod.yaml", ["pod.yaml"], "none"),
        ("b/pod.json", ["pod.json"], "none"),
    ]
    assert told(got) == {
        "bad.yaml": "invalid-yaml",
        "twice.yaml": "duplicate-key",
        "note.yaml": "not-an-object",
        "empty.yml": "no-objects",
        "README.md": "unknown-file-type",
        "latin.yaml": "binary",
        "zero.yaml": "binary",
        "big.yaml": "too-large",
        "secret/outside.txt": "unknown-file-type",
        "etc": "link",
        "passwd.yaml": "link",
    }
    assert got.reasons["unknown-file-type"] == 2
    assert all(refusal.message for refusal in got.refused)


async def test_an_unrendered_chart_is_refused_and_a_rendered_one_loads(tmp_path, reader):
    template = POD.replace("web", '"{{ .Values.name }}"')
    chart = {"c/Chart.yaml": "name: c\n", "c/values.yaml": "name: web\n", "c/templates/pod.yaml": template}
    write(tmp_path, {**chart, "rendered/pod.yaml": "---\n# Source: c/templates/pod.yaml\n" + POD})
    got = await load_manifests(tmp_path, reader)
    assert [sample.id for sample in got.samples] == ["rendered/pod.yaml"]
    assert told(got) == {
        "c/Chart.yaml": "helm-chart",
        "c/values.yaml": "helm-chart",
        "c/templates/pod.yaml": "helm-template",
    }


async def test_a_terraform_folder_is_one_sample_or_none(tmp_path, reader):
    write(
        tmp_path,
        {
            "m/a.tf": TF,
            "m/b.tf": TF.replace('"b"', '"c"'),
            "m/x.tfvars": "a = 1\n",
            "broken/a.tf": TF,
            "broken/b.tf": "resource {",
            "latin/a.tf": TF,
            "latin/b.tf": b"# \xe9\n",
            "vars/v.tf": 'variable "v" {}\n',
        },
    )
    got = await load_terraform(tmp_path, reader)
    assert [(sample.id, sorted(sample.files)) for sample in got.samples] == [
        ("m", ["a.tf", "b.tf", "x.tfvars"])
    ]
    assert told(got) == {
        "broken/a.tf": "folder-refused",
        "broken/b.tf": "invalid-hcl",
        "latin/a.tf": "folder-refused",
        "latin/b.tf": "binary",
        "vars/v.tf": "no-objects",
    }
    assert got.files + len(got.refused) == 8


async def test_variants_of_a_module_are_samples_of_their_own_where_asked(tmp_path, reader):
    write(tmp_path, {"q/positive.tf": TF, "q/negative.tf": TF.replace("1", "2"), "q/bad.tf": "resource {"})
    together = await load_terraform(tmp_path, reader)
    assert (len(together.samples), len(together.refused)) == (0, 3)
    apart = await load_terraform(tmp_path, reader, by_file=True)
    assert [sample.id for sample in apart.samples] == ["q/negative.tf", "q/positive.tf"]
    assert told(apart) == {"q/bad.tf": "invalid-hcl"}


async def test_a_folder_that_is_not_there_is_an_error(tmp_path, reader):
    for load in (load_manifests, load_terraform):
        with pytest.raises(DataError, match="no such folder"):
            await load(tmp_path / "none", reader)


REAL = {
    "kubernetes_goat": (load_manifests, {}, 16, {"helm-template": 4, "helm-chart": 2, "not-an-object": 1}),
    "checkov_helm_charts": (
        load_manifests,
        {},
        0,
        {"helm-chart": 7, "helm-template": 4, "unknown-file-type": 2, "not-an-object": 1},
    ),
    "kubernetes_examples": (
        load_manifests,
        {},
        84,
        {"not-an-object": 2, "helm-template": 2, "duplicate-key": 2, "no-objects": 1},
    ),
    "terragoat": (load_terraform, {}, 5, {"unknown-file-type": 1}),
    "kics_fork_terraform_kubernetes": (load_terraform, {"by_file": True}, 70, {"unknown-file-type": 61}),
}


@pytest.mark.real_data
@pytest.mark.parametrize("name", list(REAL))
async def test_every_file_of_a_real_dataset_is_accounted_for(shared_data, reader, name):
    load, options, samples, reasons = REAL[name]
    folder = shared_data / "E2" / name
    got = await load(folder, reader, **options)
    assert (len(got.samples), got.reasons) == (samples, reasons)
    assert got.files + len(got.refused) == sum(path.is_file() for path in folder.rglob("*"))
