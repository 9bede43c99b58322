"""The doctor beside tools that are missing, broken, too old, or lie; and beside the real ones."""

from collections.abc import Callable
from pathlib import Path

import pytest

from security_verifiers.toolchain import doctor
from security_verifiers.toolchain.doctor import Checkup, examine
from security_verifiers.toolchain.pins import load_pins
from sv_shared.errors import ToolError
from tests.security_verifiers.toolchain.doubles import go_program, script

OPA_PACKAGE = "github.com/open-policy-agent/opa"
GOOD_OPA = """\
#!/bin/sh
[ "$1" = version ] && echo "Version: VERSION" && exit
case $(cat) in
*true*) value='["privileged"]' ;;
*) value='[]' ;;
esac
echo "{\\"result\\": [{\\"expressions\\": [{\\"value\\": $value}]}]}"
"""
PINNED = load_pins().tools["opa"].version or ""

Plant = Callable[[str], None]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Puts a script in the place of OPA."""
    monkeypatch.setenv("SV_TOOLS_DIR", str(tmp_path))

    async def no_stand_in() -> None:
        raise ToolError("no stand-in in these tests")

    monkeypatch.setattr(doctor, "FALLBACKS", {"opa-eval": no_stand_in})
    return lambda text: void(script(tmp_path / "opa/current/bin/opa", text))


def void(_: object) -> None:
    """Nothing."""


async def opa(timeout_s: float = 20, environments: tuple[str, ...] = ("e2",)) -> Checkup:
    (checkup,) = await examine(load_pins(), ("opa",), environments=environments, timeout_s=timeout_s)
    return checkup


async def test_one_that_works(plant: Plant, tmp_path: Path) -> None:
    plant(GOOD_OPA.replace("VERSION", PINNED))
    checkup = await opa()
    assert checkup == Checkup(
        name="opa",
        path=str(tmp_path / "opa/current/bin/opa"),
        version=PINNED,
        pinned=PINNED,
        engine="real",
        works=True,
        needed_by=("e2",),
        required=True,
        problem="",
    )


async def test_one_of_another_version_works_and_is_named(plant: Plant) -> None:
    plant(GOOD_OPA.replace("VERSION", "1.3.0"))
    checkup = await opa()
    assert (checkup.works, checkup.version) == (True, "1.3.0")
    assert "not the pinned version" in checkup.problem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\nexit 1\n", "does not tell its version"),
        (f"#!/bin/sh\necho Version: {PINNED}\n", "no JSON"),
        (f"#!/bin/sh\n[ $1 = version ] && echo {PINNED} && exit\necho '{{}}'\n", "lacks result"),
        (
            f"#!/bin/sh\n[ $1 = version ] && echo {PINNED} && exit\necho oops >&2; exit 3\n",
            "exit status 3, 'oops'",
        ),
        (f"#!/bin/sh\n[ $1 = version ] && echo {PINNED} && exit\nkill -SEGV $$\n", "SIGSEGV"),
        (f"#!/bin/sh\n[ $1 = version ] && echo {PINNED} && exit\nyes\n", "wrote more than"),
        (GOOD_OPA.replace("VERSION", PINNED).replace("'[]'", "'[\"privileged\"]'"), "instead of"),
        (GOOD_OPA.replace("VERSION", PINNED).replace("'[\"privileged\"]'", "'[]'"), "instead of"),
    ],
    ids=["no-version", "no-json", "empty", "fails", "crashes", "floods", "always", "never"],
)
async def test_one_that_lies_or_breaks_does_not_work(plant: Plant, text: str, said: str) -> None:
    plant(text)
    checkup = await opa()
    assert (checkup.works, checkup.engine) == (False, None)
    assert said in checkup.problem


async def test_one_that_hangs_is_ended(plant: Plant) -> None:
    plant(f"#!/bin/sh\n[ $1 = version ] && echo {PINNED} && exit\nsleep 60\n")
    checkup = await opa(timeout_s=0.3)
    assert not checkup.works
    assert "did not end within 0.3 s" in checkup.problem


async def test_the_build_info_is_believed_over_what_is_printed(plant: Plant, tmp_path: Path) -> None:
    shell = GOOD_OPA.replace("VERSION", PINNED).removeprefix("#!/bin/sh\n")
    plant("")
    program = go_program(package=OPA_PACKAGE, version="v1.3.0", shell=shell)
    (tmp_path / "opa/current/bin/opa").write_bytes(program)
    checkup = await opa()
    assert (checkup.works, checkup.version) == (True, "1.3.0")
    assert "not the pinned version" in checkup.problem


async def test_a_stand_in_is_labelled_and_does_not_count_as_working(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def works() -> None:
        return None

    plant("#!/bin/sh\nexit 1\n")
    monkeypatch.setattr(doctor, "FALLBACKS", {"opa-eval": works})
    monkeypatch.setattr(doctor, "version", lambda name: "0.1.1")
    checkup = await opa()
    assert (checkup.engine, checkup.works) == ("fallback", False)
    assert "opa-eval 0.1.1 would stand in" in checkup.problem


async def test_only_installed_environments_require(plant: Plant) -> None:
    plant("#!/bin/sh\nexit 1\n")
    assert (await opa()).required
    assert not (await opa(environments=("e1",))).required


async def test_the_stand_in_really_works() -> None:
    pytest.importorskip("opa_eval", reason="the stand-in for OPA is not installed (PyPI opa-eval)")
    await doctor.probe_opa_eval()


@pytest.mark.parametrize("name", list(load_pins().tools))
async def test_the_real_tools_work(name: str) -> None:
    (checkup,) = await examine(load_pins(), (name,), environments=("e2", "e3"))
    if checkup.path is None:
        pytest.skip(f"{name} is not installed here: sv tools install {name}")
    assert checkup.works, checkup.problem
    assert checkup.engine == "real"
    if checkup.pinned is not None and "/security-verifiers/tools/" in checkup.path:
        assert checkup.version == checkup.pinned
