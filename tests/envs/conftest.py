from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture
def atari() -> None:
    """Skip where the extra is not installed."""
    if importlib.util.find_spec("ale_py") is None:
        pytest.skip("needs the extra: pip install 'artos[atari]'")
