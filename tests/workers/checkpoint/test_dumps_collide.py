"""Two dumps in one working directory may be in each other's way for a moment: tried again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from elastic import PATIENCE, Stage, needs_criu
from named import acting

from artos.errors import CheckpointRefused
from artos.runs.plan import Site
from artos.specs.members import Members
from workers.checkpoint.checkpointer import Checkpointer, Progress, Shot
from workers.checkpoint.criu.driver import Criu

pytestmark = [needs_criu, pytest.mark.processes]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that another dump just uses in the place where actors work."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "proc.crtools"
    folder.mkdir()
    return folder


@pytest.fixture
def checkpointer(stage: Stage) -> Checkpointer:
    assert isinstance(stage.criu, Criu)
    site = Site(str(stage.folder), *acting(0), Members.of_run(1))
    return Checkpointer(
        site, stage.criu, stage.store, lambda slot: (), lambda actor: Progress(0, 0),
        gives_back=True,
    )  # fmt: skip


def test_a_dump_that_met_another_is_tried_again(
    there: Path, checkpointer: Checkpointer, stage: Stage
) -> None:
    one = stage.subject().serve()
    shot = checkpointer.take(one.pid, "actor-0", 0)
    with pytest.raises(CheckpointRefused):
        shot.operation.wait(PATIENCE)
    there.rmdir()
    assert not checkpointer.is_done(shot)
    shot.operation.wait(PATIENCE)
    assert checkpointer.is_done(shot)
    assert shot.tries == 2
    assert not one.is_alive()
    one.end()


def test_a_folder_that_stays_refuses_the_checkpoint_in_the_end(
    there: Path, checkpointer: Checkpointer, stage: Stage
) -> None:
    one = stage.subject().serve()
    shot = checkpointer.take(one.pid, "actor-0", 0)
    there.chmod(0o700)  # it is new: somebody may be using it
    with pytest.raises(CheckpointRefused):
        _see_through(checkpointer, shot, there)
    assert shot.tries > 1
    assert one.count() == 1


def _see_through(checkpointer: Checkpointer, shot: Shot, there: Path) -> None:
    done = False
    while not done:
        with suppress(CheckpointRefused):
            shot.operation.wait(PATIENCE)
        done = checkpointer.is_done(shot)
        there.chmod(0o700)
