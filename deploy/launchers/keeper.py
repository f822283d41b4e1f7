"""Keeps a cluster's workers as many as its runs can use: looks, decides, asks the engine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from artos.clock import Clock, SystemClock
from artos.errors import ArtosError
from artos.system.faults import Faults, Seldom
from artos.transport.address import FILE
from deploy.client.head_client import HeadClient
from deploy.launchers.cluster import HEAD, LEAVE_SHARE, Cluster
from deploy.launchers.demand import decisive
from deploy.launchers.launcher import EngineFailed, Launcher, Unit
from deploy.launchers.scaling import MOST_IN_A_ROW, Scaling

_log = logging.getLogger(__name__)
PERIOD = 3.0
"""Seconds between two looks: engines decide in seconds to hours, and each look is a request."""
_REST = 15.0
"""Seconds until an engine that did not do what it was asked for is asked again."""
_SURE = 15.0
"""Seconds for which an engine is not asked for its units once all are with the head, as long as the
head still sees them there: to ask takes a process for each host, or a request for each unit."""


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
        self._rests_until = self._sure_until = float("-inf")
        self._seen: object = None
        """What the head saw when the engine was asked last."""
        self._head_is_taken = False

    def run(self, over: threading.Event) -> None:
        """Look again and again until it is ``over``."""
        while self._cluster.scaled and not over.wait(PERIOD):
            try:
                with self._client() as head:
                    while not over.wait(PERIOD):
                        self.turn(head)
            except ArtosError as error:  # the head starts again, or the engine is busy
                self._seldom.warning("the number of workers stays as it is: %s", error)
            except Exception as error:  # of an engine's client: the keeper goes on
                self._faults.add("keeping the number of workers", error)

    def turn(self, head: HeadClient) -> None:
        """Look once and do what is due.

        Raises:
            EngineFailed: the engine did not do what it was asked for; it is left alone for a while,
                but for its notices.
        """
        now = self._clock.now()
        view, notices = head.cluster(), self._launcher.notices()
        alive = {node.name for node in view.nodes if node.alive}
        for index, seconds in notices.items():
            # Each time: the first may have been lost, and the engine may give less time later.
            if (node := self._cluster.node(index)) in alive:
                head.reclaim(node, LEAVE_SHARE * seconds)
        # It is not moved before that: its runs save every few seconds anyway, and an engine that
        # ends what it holds with its unit leaves nobody to ask for another one.
        if HEAD in notices and not self._head_is_taken:
            _log.warning(
                "the machine of the head is taken back in %.0f s: the head is started elsewhere "
                "then, and its runs go on from their last checkpoints",
                notices[HEAD],
            )
        self._head_is_taken = HEAD in notices
        if now < self._rests_until:  # a notice cannot wait, all else can
            return
        seen = decisive(view)
        if seen == self._seen and now < self._sure_until and not notices:
            return
        start, left = tuple[int, ...](), list[Unit]()
        try:
            units = self._launcher.units()
            step = self._scaling.step(view, units, notices, now)
            self._seen = seen
            self._sure_until = now + _SURE if self._scaling.settled(step, view, units) else now
            start, left = step.start, [*step.stop]
            for index in step.unable:
                _log.warning(
                    "worker %d ended %d times as soon as it had begun, and is not started again: "
                    "%s says why",
                    index,
                    MOST_IN_A_ROW,
                    self._launcher.log(index),
                )
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
