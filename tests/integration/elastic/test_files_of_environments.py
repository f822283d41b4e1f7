"""What an environment makes outside the run, and removes in ``close``, is gone after a good end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_nothing_left, hold_with_images

pytestmark = [pytest.mark.processes, pytest.mark.long, needs_criu]

ENVIRONMENT = """
import os, tempfile
import counted

HOME = os.path.dirname(os.path.abspath(__file__))

class Leaving(counted.Counting):
    def setup(self, context):
        super().setup(context)
        self.folder = tempfile.mkdtemp(prefix="scene-", dir=HOME)
        self.shared = f"/dev/shm/leaving{HOME.replace(os.sep, chr(46))}-{context.actor}"
        with open(self.shared, "xb") as file:
            file.write(bytes(4096))

    def close(self):
        os.unlink(self.shared)
        os.rmdir(self.folder)

def workload(actors: str = "3", total_steps: int = 48):
    return counted.assemble(Leaving(), actors, total_steps, max_lag=0)
"""


def _shared(home: Path) -> str:
    return f"leaving{str(home).replace('/', '.')}-*"


def left(home: Path) -> list[Path]:
    """Folders and shared memory of the environments."""
    return [*home.glob("**/scene-*"), *Path("/dev/shm").glob(_shared(home))]


@pytest.fixture(autouse=True)
def nothing_stays(home: Path) -> Iterator[None]:
    yield
    for path in Path("/dev/shm").glob(_shared(home)):
        path.unlink()


def test_actors_that_wait_as_images_close_their_environments(
    start: Callable[..., ElasticRun], home: Path
) -> None:
    (home / "leaving.py").write_text(ENVIRONMENT)
    (home / "held").touch()  # before the only update, so that all wait as images when it ends
    run = start("leaving.py:workload", park="checkpoint")
    hold_with_images(run, 3)
    assert len(left(home)) == 6
    (home / "held").unlink()
    run.done()
    assert_nothing_left(home)
    assert not left(home)
