"""Weights by way of a server that acts in place of the actors, and is told of new versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from artos.clock import Deadline
from artos.errors import DeadlineExceeded, InferenceServerFailed
from artos.system.locks import FileLock
from artos.transport.weights.channel import Channel, Floats
from artos.transport.weights.files import Files
from artos.transport.weights.vllm import Completion, VllmServer

_TRIES = 5


class Answered(NamedTuple):
    """Completions, all by one version."""

    version: int
    completions: list[Completion]


class Served(Channel):
    """The learner writes ``files``; the first actor that needs a version has the server load it.

    The name that the server is given for a version is the version's folder. One actor at a time
    tells the server, which then finishes what it is at, loads, and goes on.
    """

    def __init__(self, files: Files, server: VllmServer, patience: float) -> None:
        self.files, self.server, self._patience = files, server, patience

    def send(self, version: int, params: Floats) -> None:
        """Write a version to the folder."""
        self.files.send(version, params)

    def receive(self, version: int, params: Floats) -> tuple[int, Floats]:
        """Have the server answer by that version, or by a newer one of this run; says which."""
        deadline = Deadline(self._patience)
        newest = self.files.awaited(version, deadline)
        found = self._version(self.server.version())
        if found is not None and version <= found <= newest.version and not self.server.paused():
            return found, params
        with self._telling(deadline):
            # Another actor may have told it, or been killed while it did.
            found = self._version(self.server.version())
            newest = self.files.awaited(version, deadline)
            if found is None or not version <= found <= newest.version:
                found = newest.version
                step = str(self.files.folder / newest.folder)
                self.server.load(step, step)
            elif self.server.paused():
                self.server.resume()
        return found, params

    def complete(
        self, prompts: Sequence[Sequence[int]], n: int, most: int, seed: int, *, greedy: bool
    ) -> Answered:
        """``n`` completions of each prompt, each of at most ``most`` tokens, by one version.

        Raises:
            InferenceServerFailed: the server goes back to weights that are not of this run.
        """
        found = ""
        for _ in range(_TRIES):
            if self._version(self.server.version()) is None or self.server.paused():
                newest = self.files.signal()
                self.receive(0 if newest is None else newest.version, _NOTHING)
            before = self.server.version()
            answers = self.server.complete(prompts, n, most, seed, greedy=greedy)
            found = self.server.version()
            version = self._version(found)
            if before == found and version is not None:
                return Answered(version, answers)
        raise InferenceServerFailed(self.server.url, f"answers by {found!r}", _SHARED)

    def _version(self, name: str) -> int | None:
        """The version of this run that the server calls so."""
        at = Path(name)
        number = at.name.removeprefix("step_")
        return int(number) if at.parent == self.files.folder and number.isdigit() else None

    @contextmanager
    def _telling(self, deadline: Deadline) -> Iterator[None]:
        lock = FileLock.take(self.files.folder / ".telling", seconds=deadline.left)
        if lock is None:
            what = f"another actor that has {self.server.url} load weights"
            raise DeadlineExceeded(what, self._patience)
        with lock:
            yield


_NOTHING: Floats = np.empty(0, np.float32)
_SHARED = (
    "these are not the weights that this run has it load: give each run a server of its own, and "
    "let nobody else change its weights"
)
