"""Fixtures of the tests in which nodes, links and daemons fail."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers import SUPPORT
from machines import Machines

from evaluation.lab.namespaces import Network, why_not

HERE = Path(__file__).parent


@pytest.fixture
def network() -> Iterator[Network]:
    """A network of hosts without any yet; all that runs there ends with the test."""
    if why := why_not():
        pytest.skip(f"no namespaces: {why}")
    with Network() as network:
        yield network


@pytest.fixture
def cluster(
    request: pytest.FixtureRequest, network: Network, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Machines]:  # fmt: skip
    """A head that runs; a parameter is what ``Machines`` is to be made with."""
    code = tmp_path / "code"
    code.mkdir()
    for file in (SUPPORT / "counting.py", HERE / "heavy.py"):
        shutil.copy(file, code)
    monkeypatch.chdir(tmp_path)  # hosts have the working directory that this process has
    with closing(Machines(network, tmp_path, code, **getattr(request, "param", {}))) as machines:
        yield machines
