"""The runs of a sweep on a cluster: each is submitted once, awaited and copied here."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from artos.errors import ArtosError, DeadlineExceeded, NoHead, Refused, WrongKeys
from artos.protocol.run_state import OVER
from artos.protocol.views import RunView
from deploy.api.cluster import Cluster
from deploy.api.running import Result, RunFailed
from deploy.api.sweep_places import (
    done_before,
    forget_submitted,
    note_submitted,
    room,
    room_for_copy,
    submitted,
)

_LOOK = 1.0
"""Seconds between two looks at a run."""


class OnCluster:
    """Runs workloads on a cluster, from several threads.

    What was submitted is noted until it is here, so that whoever is killed meanwhile, or loses the
    head, waits for it the next time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._lock = cluster, threading.Lock()
        self._away = False
        self._before: dict[str, RunView] | None = None

    def __call__(
        self, workload: str, settings: Mapping[str, Any], seed: int, place: Path,
        stopping: threading.Event,
    ) -> tuple[Result, str]:  # fmt: skip
        """How the run for this folder ended, and why its files are not there.

        Raises:
            KeyboardInterrupt: it was told to stop; so is the run, unless the head is away.
            RunFailed: the run failed.
            Refused: the head, or the run itself, refuses what was asked for.
            NoHead, WrongKeys, DeadlineExceeded: the head does not answer; the run may go on there.
        """
        with self._asking():
            if stopping.is_set():  # while this thread waited for its turn
                raise KeyboardInterrupt
            run = self._goes_on(place)
            if not run and (before := done_before(place)):
                return before, ""
            run = run or self._submit(workload, settings, seed, place)
        while not self._is_over(run):
            if stopping.wait(_LOOK):
                with self._asking():
                    self._cluster.stop(run)
                    forget_submitted(place)
                raise KeyboardInterrupt
        with self._asking():
            return self._brought(run, place)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """One thread at a time, as a client sends one request at a time; none if the head is away.

        Runs are not stopped because of that: they go on there.
        """
        with self._lock:
            if self._away:
                raise KeyboardInterrupt
            try:
                yield
            except (NoHead, DeadlineExceeded):
                self._away = True
                raise

    def _goes_on(self, place: Path) -> str:
        """The run that was submitted for this folder before, if it goes on or is done; else ""."""
        run = submitted(place)
        if run and self._before is None:
            self._before = {each.name: each for each in self._cluster.list()}
        there = (self._before or {}).get(run)
        if there is None or (there.state in OVER and there.outcome != "done"):
            return ""
        room_for_copy(place, run)
        return run

    def _submit(self, workload: str, settings: Mapping[str, Any], seed: int, place: Path) -> str:
        name = f"{place.parent.name}-{place.name}"
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:100]
        there = f"{plain or 'run'}-{secrets.token_hex(4)}"  # others have sweeps of that name, too
        note_submitted(room(place), there)  # before it is: this process may be killed meanwhile
        try:
            return self._cluster.submit(workload, seed=seed, run_dir=there, **settings)
        except (Refused, NoHead, WrongKeys):
            forget_submitted(place)
            raise

    def _is_over(self, run: str) -> bool:
        with self._asking():
            return self._cluster.over(run)

    def _brought(self, run: str, place: Path) -> tuple[Result, str]:
        try:
            result = self._cluster.wait(run)
        except (Refused, RunFailed) as error:
            forget_submitted(place)
            if isinstance(error, RunFailed):
                with suppress(ArtosError, OSError):  # it may have failed before it had files
                    self._cluster.get(run, place)
            raise
        try:
            self._cluster.get(run, place)
        except (ArtosError, OSError) as error:  # the other runs go on
            return result, f"not copied, artos get {run} {place} does: {error}"
        forget_submitted(place)
        return result, ""
