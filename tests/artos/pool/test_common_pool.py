"""The pool of a machine's accounts: theirs as long as a daemon that is root has it open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from artos.errors import NotOurs
from artos.pool.common import common_pool
from artos.pool.folder import VARIABLE, PoolFolder, pool_folder
from artos.system.shm import shm_root

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has processes of others")


@pytest.fixture(autouse=True)
def _none_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_daemons_of_a_machine_have_the_same_and_the_last_removes_it() -> None:
    with common_pool() as group:
        assert group is not None
        with common_pool() as again:
            assert again == group
            with PoolFolder.open(pool_folder(), create=False) as folder:
                assert folder.group == group
        assert pool_folder().is_dir(), "another daemon has it still"
        path = pool_folder()
    assert not path.exists()
    assert VARIABLE not in os.environ


def test_a_pool_that_an_administrator_named_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "pool"))
    with common_pool() as group:
        assert group is None
        assert pool_folder() == tmp_path / "pool"
    assert os.environ[VARIABLE] == str(tmp_path / "pool")


def test_what_a_neighbour_has_put_there_is_refused() -> None:
    path = shm_root() / "artos-pool-accounts"
    path.mkdir()
    os.chown(path, 65_534, 65_534)
    try:
        with pytest.raises(NotOurs, match="belongs to user 65534"), common_pool():
            pass
    finally:
        path.rmdir()
