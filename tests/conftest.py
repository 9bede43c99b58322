"""Fixtures that every test folder shares."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Tool servers are processes of their own; they import the test environments by name too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "tests" / "environments"), *filter(None, [os.environ.get("PYTHONPATH")])]
)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real datasets in native formats; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("SV_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data not present at {folder} (set SV_SHARED_DATA to its folder)")
    return folder
