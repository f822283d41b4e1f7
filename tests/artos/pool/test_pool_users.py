"""A pool of several users: they take turns in a folder that a group shares, and nobody else can."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pool_peer import Peer

from artos.errors import NotOurs
from artos.pool.folder import pool_folder
from artos.pool.pool import Pool
from artos.pool.view import look

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users"),
]
GROUP, ONE, TWO = 64_200, 64_201, 64_202


@pytest.fixture
def shared() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as parent:  # which others may pass through
        Path(parent).chmod(0o711)
        folder = Path(parent, "pool")
        folder.mkdir()
        os.chown(folder, 0, GROUP)
        folder.chmod(0o2770)
        yield folder
        look(folder)
        assert [*folder.iterdir()] == []


def test_users_of_a_group_take_turns_and_what_a_dead_one_held_is_the_others(shared: Path) -> None:
    with Peer(shared, "one", ONE, GROUP) as one, Peer(shared, "two", TWO, GROUP) as two:
        assert one.do("lease") == "cuda:0"
        two.tell("lease")
        one.do("end")
        assert two.hear() == "cuda:0"
        one.tell("lease")
        two.kill()
        assert one.hear() == "cuda:0"
        assert [each.workload for each in look(shared).holders] == ["one"]
    assert shared.exists(), "it is not ours to remove"


def test_who_is_not_in_the_group_has_no_part(shared: Path) -> None:
    with Peer(shared, "one", ONE, GROUP), pytest.raises(AssertionError, match="did not come up"):
        Peer(shared, "stranger", TWO, TWO)


def test_a_folder_that_everybody_may_enter_is_refused(shared: Path) -> None:
    shared.chmod(0o2777)
    with pytest.raises(NotOurs, match="not just its group"):
        Pool.join(folder=shared)
    shared.chmod(0o2770)


def test_the_folder_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTOS_POOL", str(tmp_path / "p"))
    assert pool_folder() == tmp_path / "p"
    with Pool.join():
        assert (tmp_path / "p").stat().st_mode & 0o777 == 0o700
