"""`sv data build`, called as users call it."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from security_verifiers.cli.data import BUILDERS
from security_verifiers.cli.main import main


def sv(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["sv", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("dataset", sorted(BUILDERS))
def test_the_builder_gets_the_folder(dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []
    stub = SimpleNamespace(build=built.append, PATH=tmp_path / "shipped" / "set.jsonl")
    monkeypatch.setitem(sys.modules, BUILDERS[dataset], stub)
    assert sv(monkeypatch, "data", "build", dataset, "--folder", str(tmp_path)) == 0
    assert sv(monkeypatch, "data", "build", dataset) == 0
    assert built == [tmp_path, tmp_path / "shipped"]


@pytest.mark.slow
def test_e1_is_built_to_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sv(monkeypatch, "data", "build", "e1", "--folder", str(tmp_path)) == 0
    shipped = Path(__file__).resolve().parents[3] / "datasets" / "public-mini" / "e1.jsonl"
    assert (tmp_path / "e1.jsonl").read_bytes() == shipped.read_bytes()
