"""Keeps a cluster's workers as many as its runs can use: looks, decides, asks the engine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from artos.clock import Clock, SystemClock
from artos.errors import ArtosError
from artos.protocol.views import ClusterView
from artos.system.faults import Faults, Seldom
from artos.transport.address import FILE
from deploy.client.head_client import HeadClient
from deploy.launchers.cluster import Cluster
from deploy.launchers.launcher import EngineFailed, Launcher, Unit
from deploy.launchers.scaling import Scaling

_log = logging.getLogger(__name__)
PERIOD = 3.0
"""Seconds between two looks: engines decide in seconds to hours, and each look is a request."""
_REST = 15.0
"""Seconds until an engine that did not do what it was asked for is asked again."""


class Keeper:
    """The keeper of one cluster; it lives beside the head and ends with it."""

    def __init__(
        self,
        cluster: Cluster,
        launcher: Launcher,
        client: Callable[[], HeadClient] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._cluster, self._launcher, self._clock = cluster, launcher, clock or SystemClock()
        self._client = client or (lambda: HeadClient(f"{FILE}{cluster.address}", cluster.keys))
        self._scaling = Scaling(cluster, launcher.in_order)
        self._seldom, self._faults = Seldom(_log), Faults()
        self._rests_until = float("-inf")

    def run(self, over: threading.Event) -> None:
        """Look again and again until it is ``over``."""
        while not over.wait(PERIOD):
            try:
                with self._client() as head:
                    while not over.wait(PERIOD):
                        self.turn(head.cluster())
            except ArtosError as error:  # the head starts again, or the engine is busy
                self._seldom.warning("the number of workers stays as it is: %s", error)
            except Exception as error:  # of an engine's client: the keeper goes on
                self._faults.add("keeping the number of workers", error)

    def turn(self, view: ClusterView) -> None:
        """Look once and do what is due.

        Raises:
            EngineFailed: the engine did not do what it was asked for; it is left alone for a while.
        """
        now = self._clock.now()
        if now < self._rests_until:
            return
        start: tuple[int, ...] = ()
        left: list[Unit] = []
        try:
            units, notices = self._launcher.units(), self._launcher.notices()
            step = self._scaling.step(view, units, notices, now)
            start, left = step.start, [*step.stop]
            for said in step.says:
                _log.warning("%s", said)
            while left:
                unit = left[0]
                self._launcher.stop(unit, now=unit.state == "waits")
                del left[0]
                _log.info("told worker %d to end (it %s)", unit.index, unit.state)
            if start:
                self._launcher.start(start)
                _log.info("asked for worker %s", ", ".join(map(str, start)))
        except EngineFailed:
            self._scaling.undo(start, left)
            self._rests_until = now + _REST
            raise
