"""Kubernetes YAML in, documents out: Go's reading of scalars, identities, lines, bounds on hostile text."""

import json
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sv_env_config_verification.inputs import MAX_BYTES, InputError, check_files, language
from sv_env_config_verification.manifests import MAX_DEPTH, MAX_NODES, read_manifests
from sv_env_config_verification.shapes import Document, Resource, Shapes, identity

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"


def read(text: str) -> list[Document]:
    """What the reader does with one file."""
    check_files({"a.yaml": text})
    return read_manifests("a.yaml", text)


def label(text: str) -> tuple[str, int | None]:
    """The problem of a text, and its line."""
    with pytest.raises(InputError) as caught:
        read(text)
    notice = caught.value.notices[0]
    assert notice.file == "a.yaml"
    return notice.label, notice.line


def spec(text: str) -> object:
    return read_manifests("a.yaml", f"{POD}spec: {text}\n")[0].object["spec"]


# What Kubernetes makes of a scalar: sigs.k8s.io/yaml over YAML 1.1 as Go reads it.
SCALARS = [
    ("yes", True),
    ("Off", False),
    ("'yes'", "yes"),
    ("y", "y"),
    ("0644", 420),
    ("0o17", 15),
    ("0x1F", 31),
    ("-12", -12),
    ("+3", 3),
    ("1_000", 1000),
    ("08", 8.0),
    ("1e3", 1000.0),
    ("1.5", 1.5),
    (".5", 0.5),
    ("22:22", "22:22"),
    ("2001-01-01", "2001-01-01"),
    ("1.2.3", "1.2.3"),
    ("~", None),
    ("", None),
    ("Null", None),
    ("!!str 12", "12"),
    ("!!binary aGk=", "aGk="),
    ("=", "="),
    ("10m", "10m"),
    ("1Gi", "1Gi"),
]


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_scalars_mean_what_they_mean_to_kubernetes(text, value):
    read = spec(text)
    assert read == value
    assert type(read) is type(value)


def test_keys_are_text_and_merges_are_resolved():
    document = read_manifests("a.yaml", POD + "1: a\ntrue: b\nbase: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\n")[
        0
    ]
    assert document.object["1"] == "a"
    assert document.object["true"] == "b"
    assert document.object["own"] == {"x": 1, "y": 3}


# Beyond U+FFFF, JSON escapes a character as two, which YAML does not read as one: that is tested below.
letters = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(letters, max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc<é ", max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(json_values)
def test_json_comes_out_as_it_went_in(value):
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": value}
    assert read_manifests("a.json", json.dumps(manifest))[0].object == manifest


@given(
    st.text(st.characters(codec="utf-8"), max_size=60) | st.text("a:-[]{}&*!|>'\"#,? \n<%@`~", max_size=40)
)
def test_any_text_gives_documents_or_a_labelled_problem(text):
    try:
        documents = read(text)
    except InputError:
        return  # any other error is a defect
    # An independent reader agrees on how many documents hold something.
    assert len(documents) == sum(value is not None for value in yaml.safe_load_all(text))


def test_documents_keep_their_lines():
    text = f"---\n{POD}---\n# nothing\n---\n{POD}spec:\n  x: 1\n"
    documents = read_manifests("a.yaml", text)
    assert [(d.index, d.line) for d in documents] == [(0, 2), (1, 8)]
    shapes = Shapes(tuple(documents))
    lines = text.splitlines()
    assert shapes.object_at("a.yaml", lines.index("  x: 1") + 1) == "Pod/default/web"
    assert shapes.object_at("b.yaml", 2) == ""


def test_lists_are_flattened_and_typed():
    item = POD.replace("\n", "\n  ").rstrip()
    documents = read_manifests(
        "a.yaml", f"apiVersion: v1\nkind: List\nitems:\n- {item}\n- {item.replace('web', 'b')}\n"
    )
    assert [(d.id, d.line) for d in documents] == [("Pod/default/web", 4), ("Pod/default/b", 7)]
    shapes = Shapes(tuple(documents))
    assert shapes.object_at("a.yaml", 8) == "Pod/default/b"
    typed = read_manifests("a.yaml", "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n")
    assert typed[0].object == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    assert read_manifests("a.yaml", "apiVersion: v1\nkind: List\nitems: []\n") == []


@pytest.mark.parametrize(
    ("kind", "metadata", "expected"),
    [
        ("Pod", {"name": "a"}, "Pod/default/a"),
        ("Pod", {"name": "a", "namespace": "n"}, "Pod/n/a"),
        ("Pod", {"name": "a", "namespace": ""}, "Pod/default/a"),
        ("ClusterRole", {"name": "a"}, "ClusterRole//a"),
        ("Namespace", {"name": "a", "namespace": "n"}, "Namespace//a"),
        ("Job", {"generateName": "j-"}, "Job/default/j-"),
        ("Widget", {"name": 7}, "Widget/default/"),
        ("Pod", None, "Pod/default/"),
    ],
)
def test_identity(kind, metadata, expected):
    assert identity({"kind": kind, "metadata": metadata}) == expected


ALIASES = "a: &a [1,2,3,4,5,6,7,8]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 8)}]\n" for i in range(8)
)
MERGES = (
    POD
    + f"b: &b {{{','.join(f'k{i}: 1' for i in range(1000))}}}\n"
    + "".join(f"c{i}: {{<<: *b}}\n" for i in range(80))
)
HOSTILE = {
    "alias bomb": (ALIASES, "too-complex"),
    "merge bomb": (MERGES, "too-complex"),
    "alias to itself": ("a: &a [*a]\n", "too-complex"),
    "alias to nothing": (POD + "a: *b\n", "too-complex"),
    "deep flow": ("[" * 200_000, "too-complex"),
    "deep blocks": ("- " * 100_000, "too-complex"),
    "many values": (POD + "a:\n" + "- x\n" * (MAX_NODES + 1), "too-complex"),
    "five megabytes": ("a" * (5 << 20), "too-large"),
    "many bytes a character": ("\u4e2d" * (MAX_BYTES // 2), "too-large"),
    "NUL": (POD + "a: \0", "binary"),
    "lone surrogate": (POD + "a: \ud800", "binary"),
    "escape codes": (POD + "a: \x1b[0m", "binary"),
    "duplicate key": (POD + "a: 1\nb: 2\na: 3\n", "duplicate-key"),
    "duplicate key of another type": (POD + "a: {1: x, '1': y}\n", "duplicate-key"),
    "python object": ("!!python/object/apply:os.system ['true']", "invalid-yaml"),
    "own tag": (POD + "a: !x 1", "invalid-yaml"),
    "infinity": (POD + "a: .inf", "invalid-yaml"),
    "overflow": (POD + "a: 1e999", "invalid-yaml"),
    "huge number": (POD + "a: " + "9" * 10_000, "invalid-yaml"),
    "number beyond 64 bits": (POD + "a: 99999999999999999999", "invalid-yaml"),
    "mapping as a key": (POD + "? {a: 1}\n: 2", "invalid-yaml"),
    "no key": (POD + "? \n: 2", "invalid-yaml"),
    "escaped surrogate": (POD + 'a: "\\ud800"', "invalid-yaml"),
    "unclosed": (POD + "a: [1", "invalid-yaml"),
    "Helm template": (POD + "a: {{ .Values.x }}", "helm-template"),
    "Helm template in quotes": (POD + 'image: "{{ .Values.x }}"', "helm-template"),
    "Helm control": ('{{- if eq .x "y" }}\n' + POD, "helm-template"),
    "other template": (POD + "a: {{ name }}", "helm-template"),
    "no object": ("a: 1", "not-an-object"),
    "no mapping": ("hello", "not-an-object"),
    "list of no objects": ("apiVersion: v1\nkind: List\nitems: [1]", "not-an-object"),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_text_is_labelled_in_bounded_time(name):
    text, expected = HOSTILE[name]
    started = time.process_time()
    assert label(text)[0] == expected
    assert time.process_time() - started < 2


def test_problems_tell_their_line():
    assert label(POD + "a: 1\nb: 2\na: 3\n") == ("duplicate-key", 6)
    assert label(POD + "a: [1\n")[1] == 5
    assert label(POD + "a: \0")[1] == 4


def test_what_is_legitimate_passes():
    assert spec('"{{ $labels.instance }}"') == "{{ $labels.instance }}"  # Prometheus, not Helm
    assert spec("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
    assert read_manifests("a.yaml", "\ufeff" + POD.replace("\n", "\r\n"))[0].id == "Pod/default/web"
    assert read_manifests("a.yaml", "# nothing\n---\n---\n") == []
    large = POD + "data: |\n" + "  text of a line that is long enough\n" * 12_000
    assert len(large) < MAX_BYTES
    assert read_manifests("a.yaml", large)


@pytest.mark.parametrize(
    "name",
    ["../a.yaml", "/etc/a.yaml", "a//b.yaml", "./a.yaml", "a\\b.yaml", "a\nb.yaml", "", "x" * 300 + ".yaml"],
)
def test_names_that_lead_elsewhere_are_refused(name):
    with pytest.raises(InputError, match=r"bad-name|unknown-file-type"):
        check_files({name: POD})


def test_all_bad_files_are_told_at_once():
    with pytest.raises(InputError) as caught:
        check_files({"a.yaml": "\0", "b.exe": "", "c.tf": "x", "../d.tf": ""})
    assert caught.value.labels == {"binary", "unknown-file-type", "bad-name"}
    with pytest.raises(InputError, match="files"):
        check_files({f"{i}.yaml": "" for i in range(501)})
    with pytest.raises(InputError, match="together"):
        check_files({f"{i}.yaml": "a" * (MAX_BYTES - 1) for i in range(5)})


def test_languages_go_by_the_ending():
    assert [language(n) for n in ("a.YML", "b/c.json", "m.tf", "x.auto.tfvars")] == [
        "yaml",
        "yaml",
        "hcl",
        "tfvars",
    ]


def test_the_input_of_the_rules_is_plain_json():
    document = Document("a.yaml", 0, 1, 3, "Pod/default/web", {"kind": "Pod"})
    resource = Resource("m.tf", 2, 4, "aws_x.y", "aws_x", "y", {"a": [1]}, ("aws_z.y",))
    told = json.loads(json.dumps(Shapes((document,), (resource,)).to_input()))
    assert told == {
        "kubernetes": [
            {"file": "a.yaml", "index": 0, "line": 1, "id": "Pod/default/web", "object": {"kind": "Pod"}}
        ],
        "terraform": [
            {
                "file": "m.tf",
                "line": 2,
                "id": "aws_x.y",
                "type": "aws_x",
                "name": "y",
                "attributes": {"a": [1]},
                "references": ["aws_z.y"],
            }
        ],
    }


@pytest.mark.real_data
def test_the_real_manifests_are_read(shared_data):
    """Every manifest of Kubernetes' own examples: those that fail do so for a reason that a look confirms."""
    folder = shared_data / "E2" / "kubernetes_examples"
    labels: dict[str, str] = {}
    paths = [path for path in folder.rglob("*.y*ml") if path.is_file()]
    for path in paths:
        try:
            read_manifests(path.name, path.read_text())
        except InputError as error:
            labels[path.name] = error.notices[0].label
    assert len(paths) > 80
    assert labels == {
        "newrelic-config-template.yaml": "helm-template",
        "quobyte-admin-secret.yaml": "duplicate-key",
        "etcd-discovery-controller.yaml": "duplicate-key",
        "cassandra.yaml": "not-an-object",
    }
