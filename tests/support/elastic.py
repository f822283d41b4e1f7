"""What the tests of real checkpoints share: when they can run, and processes to try it on."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import subject
from helpers import PATIENCE, ROOT

from artos.buffer.doorbell import Doorbell
from artos.buffer.segment import Segment
from artos.system.closing import Closing
from workers.checkpoint.criu.driver import Criu, NoCriu, Operation, Outcome, criu_here
from workers.checkpoint.facts import Facts
from workers.checkpoint.images import Image, ImageStore
from workers.checkpoint.own_rights import own_rights_missing
from workers.checkpoint.tiers import rights_missing

_APART = ("unshare", "--pid", "--fork", "--kill-child=KILL", "setsid")


@functools.cache
def why_not() -> str:
    """Why processes cannot be checkpointed here; empty if they can."""
    driver = criu_here()
    if isinstance(driver, NoCriu):
        return str(driver.why)
    return rights_missing()


@functools.cache
def why_no_images() -> str:
    """Why runs and workers have no images here; empty if they do."""
    driver = criu_here()
    if isinstance(driver, NoCriu):
        return str(driver.why)
    return rights_missing() and own_rights_missing()


needs_images = pytest.mark.skipif(bool(why_no_images()), reason=f"no images: {why_no_images()}")
"""Of what is started by `artos`, which takes the rights that it lacks."""
needs_criu = pytest.mark.skipif(bool(why_not()), reason=f"needs CRIU: {why_not()}")


class Subject:
    """A process apart, its segment, its log; ended with the test, also after it was restored."""

    def __init__(self, folder: Path, name: str = "subject") -> None:
        self.folder, self.name = folder, name
        self.log = folder / f"{name}.log"
        self.log.touch()
        self.segment = Segment.create(folder / f"{name}.segment", subject.BYTES)
        self._ask = Doorbell(self.segment.memory, subject.ASK, create=True)
        self._answer = Doorbell(self.segment.memory, subject.ANSWER, create=True)
        self._words = self.segment.memory[subject.WORDS :].cast("q")
        self._start: subprocess.Popen[bytes] | None = None
        self.pid = 0
        """Its process id as seen from here."""

    def start(self, mode: str, place: Path, *extras: str, apart: bool = True) -> Subject:
        """Run it and wait until it serves or, as a template, waits for its signal."""
        command = [sys.executable, "-P", subject.__file__, mode, str(place), *extras]
        with self.log.open("ab") as log:
            self._start = subprocess.Popen(
                [*(_APART if apart else ()), *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=not apart,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        self.heard()
        self.pid = _only_child(self._start.pid) if apart else self._start.pid
        return self

    def serve(self, *extras: str, apart: bool = True) -> Subject:
        """Run it as one that serves at once."""
        return self.start("serve", self.segment.path, *extras, apart=apart)

    def heard(self) -> None:
        """Wait for its answer."""
        assert self._answer.wait(PATIENCE), f"no answer from {self.name}: {self.log.read_text()}"

    def ask(self) -> None:
        """Ring its doorbell."""
        self._ask.ring()

    def answers_or_ends(self) -> None:
        """Ring, and wait until it has answered or is dead."""
        self.ask()
        until("an answer or its end", lambda: self._answer.wait(0.0) or not self.is_alive())

    def count(self) -> int:
        """Ring, wait for the answer, and return how many rings it has answered."""
        self.ask()
        self.heard()
        return self._words[subject.COUNT]

    @property
    def own_pid(self) -> int:
        """The process id it sees itself."""
        return self._words[subject.PID]

    @property
    def sum(self) -> int:
        """What it found when it last looked at its ballast."""
        return self._words[subject.SUM]

    def revived(self, pid: int) -> None:
        """It lives again as that child of ours."""
        self.pid = pid

    def is_alive(self) -> bool:
        """Whether its process runs (a zombie does not)."""
        return state(self.pid) not in ("", "Z")

    def gone(self) -> None:
        """Wait until what started it is gone, as it is after a dump."""
        if self._start is not None:
            self._start.wait(PATIENCE)
            self._start = None

    def end(self) -> None:
        """Kill it and reap it."""
        for pid in filter(None, (self.pid, self._start.pid if self._start else 0)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.pid:
            until("its end", lambda: not self.is_alive())
        if self._start is not None:
            self.gone()
        elif self.pid:
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        self.pid = 0


def state(pid: int) -> str:
    """The letter the kernel gives a process's state; empty if there is none of that number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def until(what: str, true: Callable[[], object]) -> None:
    """Wait until ``true()``, looking often; fails with ``what`` did not come."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.001)


def _only_child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


class Stage(Closing):
    """Driver, store and subjects of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = ImageStore(folder / "images", 4 << 30)
        driver = criu_here()
        assert isinstance(driver, Criu)
        self.criu = driver
        self.subjects: list[Subject] = []

    def subject(self, name: str = "subject") -> Subject:
        """A subject, not yet started."""
        self.subjects.append(Subject(self.folder, name))
        return self.subjects[-1]

    def dump(self, one: Subject, name: str = "image") -> Image:
        """Dump it, wait for that, and seal the image."""
        facts = Facts.of(one.pid, self.criu.version)
        image = self.store.begin(name)
        self.criu.dump(one.pid, image).wait(PATIENCE)
        image.seal(facts)
        one.gone()
        return image

    def restore(self, image: Image, one: Subject, **options: bool) -> Outcome:
        """Restore the subject of that image and wait for that."""
        outcome = self.begin_restore(image, one, **options).wait(PATIENCE)
        one.revived(outcome.pid)
        return outcome

    def begin_restore(
        self,
        image: Image,
        one: Subject,
        inherit: Mapping[Path, Path] | None = None,
        **options: bool,
    ) -> Operation:
        """Begin to restore it; its log, and what ``inherit`` says, are handed over."""
        with ExitStack() as stack:
            handed = {str(one.log): stack.enter_context(one.log.open("ab")).fileno()}
            for was, now in (inherit or {}).items():
                handed[str(was)] = stack.enter_context(now.open("r+b")).fileno()
            return self.criu.restore(image, handed, **options)

    def close(self) -> None:
        """End every process and remove every image."""
        for one in self.subjects:
            one.end()
        self.store.close()
