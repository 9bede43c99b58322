"""The stand-in world."""

from pathlib import Path

import pytest

from tests.security_verifiers.toolchain.doubles import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Stand-ins that succeed."""
    return World(tmp_path)
