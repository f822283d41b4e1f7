"""What of a benchmark has been measured, kept in a file so that one that was stopped goes on.

``registry`` says where that file is; ``alternate`` passes over what it has.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from artos.errors import ArtosError
from evaluation.core import sources
from evaluation.core.machine import machine
from evaluation.core.report import Results

_KEPT = ("machine", "_values", "_units", "_notes", "_versions", "_times", "_series", "kept")
"""The fields of ``Results`` that measuring fills; goals and ratios follow from them."""


class Asked(msgspec.Struct, frozen=True):
    """What is measured: results of another commit, size, code or machine are not gone on with.

    A commit with ``+`` may be of any code, so ``code`` has the digests of all there is.
    """

    commit: str
    sources: dict[str, str]
    repeats: int
    quick: bool
    code: dict[str, str]
    machine: dict[str, str | int | float]

    @classmethod
    def now(cls, measures: Iterable[str], repeats: int, quick: bool) -> Asked:
        """Of the code that is here, on this machine, which its load does not make another."""
        here = machine()
        del here["load_before"]
        read = sources.digests
        return cls(sources.commit(), read(measures), repeats, quick, read(sources.CODE), here)


class State(msgspec.Struct):
    """The content of the file. ``measured`` has repetition and contestant, ``failed`` its name."""

    asked: Asked
    seconds: float = 0.0
    over: bool = False
    measured: list[tuple[int, str]] = msgspec.field(default_factory=list)
    failed: list[str] = msgspec.field(default_factory=list)
    results: dict[str, Any] = msgspec.field(default_factory=dict)


class Stale(ArtosError):
    """A stopped benchmark that cannot be gone on with. ``path`` is its file, ``why`` says why."""

    def __init__(self, path: Path, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path}: {why}; measure it anew, without --resume")


class Progress:
    """The state of one benchmark, and the file that it is written to after every case."""

    def __init__(self, path: Path, asked: Asked) -> None:
        self.path, self.state, self.restored = path, State(asked), False
        self._since = time.monotonic()

    @classmethod
    def of(cls, path: Path, asked: Asked) -> Progress:
        """Of the file if there is one, else of nothing.

        Raises:
            Stale: what was measured differs from what is asked for.
        """
        found = cls(path, asked)
        if not path.exists():
            return found
        try:
            found.state = msgspec.json.decode(path.read_bytes(), type=State)
        except msgspec.DecodeError as error:
            raise Stale(path, str(error)) from error
        differ = [
            name
            for name in asked.__struct_fields__
            if getattr(asked, name) != getattr(found.state.asked, name)
        ]
        if differ:
            raise Stale(path, f"it has other {', '.join(differ)}")
        return found

    def restore(self, results: Results) -> None:
        """Give the results what has been measured of them, once."""
        types = get_type_hints(Results)
        if not self.restored:
            for name, value in self.state.results.items():
                setattr(results, name, msgspec.convert(value, types[name]))
        self.restored = True

    def measured(self, results: Results, number: int, contestant: str) -> None:
        """Note a measurement, good or not, and write everything so far."""
        self.state.measured.append((number, contestant))
        # A copy: what follows from the measurements is added to the results later.
        self.state.results = msgspec.to_builtins({name: getattr(results, name) for name in _KEPT})
        self._write()

    def end(self) -> None:
        """Note that nothing is left to be measured."""
        self.state.over = True
        self._write()

    def _write(self) -> None:
        now = time.monotonic()
        self.state.seconds, self._since = self.state.seconds + now - self._since, now
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self.state))
        new.replace(self.path)


_CURRENT: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def keeping(progress: Progress) -> Iterator[Progress]:
    """What is measured inside is noted there."""
    token = _CURRENT.set(progress)
    try:
        yield progress
    finally:
        _CURRENT.reset(token)


def current() -> Progress | None:
    """The progress of the benchmark that is run, if it is kept."""
    return _CURRENT.get()
