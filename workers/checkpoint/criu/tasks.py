"""The two tasks, dump and restore: what they ask of CRIU, and how they clean up after a failure."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Mapping, Sequence

from artos.errors import ArtosError, CheckpointRefused, RestoreFailed
from artos.system.pidfd import has_ended
from artos.system.regular_file import opened
from artos.system.shm import free_bytes
from workers.checkpoint.criu.cleanup import MARK, Traces, end_half_restored
from workers.checkpoint.criu.log import CLOSE, FULL, Culprit, culprit, error_lines, read_log
from workers.checkpoint.criu.operation import Outcome, Task, Worker
from workers.checkpoint.criu.options import CriuAnswer, Dump, Restore
from workers.checkpoint.criu.suspects import suspects
from workers.checkpoint.images import Image

_DUMP_LOG = "dump.log"
_FULL = 1 << 16
_numbers = itertools.count(1)


class DumpTask(Task):
    """A process becomes an image."""

    def __init__(self, pid: int, image: Image, *, stays: bool = False) -> None:
        self._pid, self._image, self._stays = pid, image, stays
        self._log = image.folder / _DUMP_LOG

    @property
    def name(self) -> str:
        """A name for messages."""
        return f"dump of process {self._pid} to image {self._image.name}"

    def start(self, command: Sequence[str]) -> Worker:
        """Start CRIU with the request.

        Raises:
            CheckpointRefused: CRIU cannot be started.
        """
        try:
            return Worker(command, self._request, self._image.folder, self._log)
        except OSError as error:
            raise self.failed(f"CRIU cannot be started ({error})", None) from error

    def _request(self, folder: int) -> bytes:
        return Dump(self._pid, folder, _DUMP_LOG, self._stays).encode()

    def done(self, answer: CriuAnswer, seconds: float) -> Outcome:
        """The outcome: the image is complete, but not yet sealed."""
        del answer
        self._log.unlink(missing_ok=True)
        return Outcome(self._pid, seconds)

    def failed(self, why: str, answer: CriuAnswer | None) -> ArtosError:
        """Remove the image; the process runs on."""
        del answer
        log = read_log(self._log)
        # CRIU itself may die when the process ends during the dump (``BUG at criu/cgroup.c``).
        if has_ended(self._pid):
            why = "the process is gone"
        if why:
            words, remedy = Culprit(why)
        elif free_bytes(self._image.folder) < _FULL:
            words, remedy = FULL  # the log says nothing about it: it is on the same filesystem
        else:
            words, remedy = culprit(log)
            held = suspects(self._pid)
            words, remedy = "; ".join([words, *held]), remedy or (CLOSE if held else "")
        self._image.abandon(log)
        return CheckpointRefused(self._pid, words, error_lines(log), remedy)


class RestoreTask(Task):
    """An image becomes a process. Others may have the files of ``inherit`` that are ``shared``."""

    def __init__(
        self, image: Image, inherit: Mapping[str, int], shared: Collection[str] = ()
    ) -> None:
        self._image, self._inherit, self._shared = image, inherit, shared
        self._log = image.folder / image.next_name("restore", ".log")
        self._traces = Traces(f"{os.getpid()}-{next(_numbers)}")

    @property
    def name(self) -> str:
        """A name for messages."""
        return f"restore of image {self._image.name}"

    def start(self, command: Sequence[str]) -> Worker:
        """Start CRIU with the request.

        Raises:
            RestoreFailed: CRIU, or the command that runs it, cannot be started.
        """
        try:
            keep, folder = tuple(self._inherit.values()), self._image.folder
            for path, descriptor in self._inherit.items():
                if path not in self._shared:
                    self._traces.add_file(descriptor)
            mark = {MARK: self._traces.mark}
            worker = Worker(command, self._request, folder, self._log, keep, mark)
        except OSError as error:
            raise self.failed(f"CRIU cannot be started ({error})", None) from error
        self._traces.add_criu(worker.pid)
        return worker

    def _request(self, folder: int) -> bytes:
        return Restore(folder, self._log.name, self._inherit).encode()

    def done(self, answer: CriuAnswer, seconds: float) -> Outcome:
        """The outcome: the process is there."""
        self._log.unlink(missing_ok=True)
        return Outcome(answer.pid, seconds)

    def failed(self, why: str, answer: CriuAnswer | None) -> ArtosError:
        """Remove the process; the log stays in the image's folder."""
        if answer is not None:
            self._traces.pid = answer.pid
        if self._log.exists():
            with opened(self._log) as file:
                self._traces.add_file(file.fileno())
        end_half_restored(self._traces)
        log = read_log(self._log)
        return RestoreFailed(self._image.name, why or culprit(log).words, error_lines(log))
