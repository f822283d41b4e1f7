"""Real runs with elastic actors, watched from outside: their processes, images and books."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import psutil
from counted import COUNT, DRAW, LIFE
from helpers import below
from numpy.typing import NDArray
from real_runs import Artos, Outcome, checkpointed, journal, shared_memory, updates

from artos.buffer.shm_folder import IMAGES, PREFIX
from artos.system.shm import shm_root
from workers.checkpoint.criu.cleanup import MARK

Array = NDArray[np.int64]
Kind = Literal["dump", "restore"]
RUN = "run"


class Request(NamedTuple):
    """A CRIU process at work."""

    kind: Kind
    process: psutil.Process


class ElasticRun(Artos):
    """One `artos run` in the folder ``run`` of ``home``, not quiet: warnings are on stderr."""

    def __init__(
        self, home: Path, arguments: tuple[object, ...], settings: Mapping[str, object],
        **environment: str,
    ) -> None:  # fmt: skip
        flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        where = () if "--resume" in arguments else ("--run-dir", RUN)
        super().__init__(home, ("run", *arguments, *where, *flags), **environment)
        self.home, self.folder = home, home / RUN

    @staticmethod
    def clean(home: Path, *runs: str) -> Outcome:
        """`artos clean`."""
        return Artos(home, ("clean", *runs)).wait()

    @property
    def updates(self) -> int:
        """Updates done so far."""
        return updates(self.folder)

    @property
    def images(self) -> Path:
        """Where its images are, once it has begun."""
        (link,) = shm_root().glob(f"{PREFIX}{RUN}.*/{IMAGES}")
        return link.resolve()

    def done(self) -> dict[str, Any]:
        """Wait for its good end; the summary."""
        outcome = self.wait()
        assert outcome.status == 0, outcome.err
        return summary(self.folder)

    def requests(self) -> Iterator[Request]:
        """What CRIU is doing for it at this moment."""
        for process in self._below():
            try:
                # What it restores looks like it, but lives in a PID namespace of its own.
                if process.name() == "criu" and _is_among_us(process.pid):
                    kind: Kind = "restore" if MARK in process.environ() else "dump"
                    yield Request(kind, process)
            except (psutil.Error, OSError):
                continue

    def half_restored(self, image: str) -> Iterator[psutil.Process]:
        """What CRIU is just making an actor of, seen by the image it holds open."""
        for process in self._below():
            with suppress(psutil.Error, OSError):
                if process.name() == "criu" and not _is_among_us(process.pid):
                    folders = {fd.readlink() for fd in _descriptors(process.pid)}
                    if any(path.match(f"{RUN}/images-*/{image}") for path in folders):
                        yield process

    def actors(self) -> dict[int, list[psutil.Process]]:
        """Processes of actors by the number in the name of the log they write to."""
        found: dict[int, list[psutil.Process]] = {}
        for process in self._below():
            number = _actor_of(process.pid)
            if number is not None:
                found.setdefault(number, []).append(process)
        return found

    def _below(self) -> list[psutil.Process]:
        return below(self.process.pid, recursive=False)

    def each_moment(self, see: Callable[[], bool]) -> None:
        """Call ``see`` again and again until it says that it has seen enough, or the run ends."""
        while self.process.poll() is None and not see():
            time.sleep(0.001)


def hold_with_images(run: ElasticRun, actors: int) -> list[Path]:
    """Keep the learner from going on; then every actor is an image after a while."""
    (run.home / "held").touch()
    run.until((run.home / "holding").exists)
    images = [run.images / f"actor-{actor}" for actor in range(actors)]
    run.until(lambda: all(image.is_dir() for image in images))
    return images


def _is_among_us(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return any(line.startswith("NSpid:") and len(line.split()) == 2 for line in status)


def _descriptors(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/fd").iterdir()


def _actor_of(pid: int) -> int | None:
    try:
        log = Path(f"/proc/{pid}/fd/1").readlink()
        if Path(f"/proc/{pid}/comm").read_text().strip() == "criu":
            return None
    except OSError:
        return None
    number = log.name.removeprefix("actor-").removesuffix(".log")
    return int(number) if number.isdecimal() and log.parent.name == "logs" else None


def inhabitants(home: Path) -> list[psutil.Process]:
    """Every process that works in a user's folder: members, templates, CRIU, half-restored."""
    return [
        process
        for process in psutil.process_iter()
        if _folder_of(process).startswith(str(home)) and process.status() != psutil.STATUS_ZOMBIE
    ]


def _folder_of(process: psutil.Process) -> str:
    try:
        return process.cwd()
    except psutil.Error:
        return ""


def assert_nothing_left(home: Path, seconds: float = 5.0) -> None:
    """No process, no shared memory, no image."""
    end = time.monotonic() + seconds
    while inhabitants(home) and time.monotonic() < end:
        time.sleep(0.01)
    assert not inhabitants(home)
    assert not shared_memory()
    assert not list(home.glob("**/*.img"))


def summary(run: Path) -> dict[str, Any]:
    """What a run that ended says of itself."""
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return found


def learned(run: Path) -> dict[int, Array]:
    """By actor: what was learned from, in order, as (actor, step, what ``counted`` writes)."""
    arrays = checkpointed(run)
    book = arrays["learner.book"][: int(arrays["learner.count"][0])]
    return {int(actor): book[book[:, 0] == actor] for actor in np.unique(book[:, 0])}


def book_of(run: Path) -> dict[int, Array]:
    """By actor: the rows learned from, in order; none missing, none twice."""
    found = learned(run)
    for rows in found.values():
        np.testing.assert_array_equal(rows[:, 1], np.arange(len(rows)))
    return {actor: rows[:, 2:] for actor, rows in found.items()}


def lives_of(rows: Array) -> list[Array]:
    """An actor's rows by life, each with its stream from the beginning, whatever came between."""
    cuts = np.flatnonzero(np.diff(rows[:, LIFE])) + 1
    lives = np.split(rows, cuts)
    for life in lives:
        stream = np.random.default_rng(int(life[0, LIFE]))
        np.testing.assert_array_equal(life[:, COUNT], np.arange(len(life)))
        np.testing.assert_array_equal(life[:, DRAW], stream.integers(1 << 60, size=len(life)))
    return lives


def assert_exact(run: Path, rows: int) -> dict[int, list[Array]]:
    """As many rows as asked for, each learned from once; the lives of every actor."""
    lives = {actor: lives_of(found) for actor, found in book_of(run).items()}
    assert sum(len(life) for of in lives.values() for life in of) == rows
    seeds = [int(life[0, LIFE]) for of in lives.values() for life in of]
    assert len(set(seeds)) == len(seeds), "two lives drew from one stream"
    assert summary(run)["steps"] == rows
    assert summary(run)["rows_lost"] == 0
    return lives


def numbers_of_actors(run: Path) -> list[int]:
    """How many there were whenever that changed, as the journal says."""
    return [line["actors"] for line in journal(run) if "actors" in line and "version" in line]
