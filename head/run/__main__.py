"""``python -P -m head.run FILE``: the run process of a run on a cluster (``RunOrder``).

What ``artos run`` is on one machine, with its actors on the nodes that the head daemon names. Exit
status: that of ``artos run``.
"""

from __future__ import annotations

import faulthandler
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from artos.buffer.segment import IMAGES
from artos.clock import Clock, SystemClock, WakingClock
from artos.errors import ArtosError
from artos.exit_status import REFUSALS, ExitStatus
from artos.plan import Plan
from artos.protocol import control
from artos.protocol.orders import RunOrder, read_order
from artos.run_state import RUNNING, STOPPING
from artos.system.logging_setup import logging_to, to_stderr
from artos.system.signals import StopRequests
from artos.transport.messenger import HEAD, Messenger
from head.records.run_folder import RunFolder
from head.records.status import Status, Summary
from head.run.cluster import Address, ClusterRun
from head.run.coordination.ledger import Arrivals
from head.run.preparation import Prepared, begun, resumed, stored_request
from head.run.request import Request
from head.run.session import Session
from triggers.registration import Registration
from triggers.wiring import cache_plan, transfers, with_transfer

_log = logging.getLogger(__name__)
_NEWS_SECONDS = 0.5
_AWAY_SECONDS = 5.0
_FAREWELL_SECONDS = 5.0


class NewsView:
    """Tells the head daemon how the run goes; what is noted goes to the run's log.

    While the head is away it is told nothing: it would only have to read what is no news any more.
    """

    def __init__(self, run: str, head: Messenger, cluster: ClusterRun, clock: Clock) -> None:
        self._run, self._head, self._cluster, self._clock = run, head, cluster, clock
        self._due = clock.now()

    @property
    def due(self) -> bool:
        """A few times a second."""
        return self._clock.now() >= self._due

    def show(self, status: Status) -> None:
        """See ``head.run.session.View``."""
        self._due = self._clock.now() + _NEWS_SECONDS
        if self._head.silent().get(HEAD, 0.0) <= _AWAY_SECONDS:
            self._tell(status)

    def _tell(self, status: Status) -> None:
        cluster = self._cluster
        state = STOPPING if cluster.draining else RUNNING
        facts = _plain(msgspec.structs.asdict(status) | cluster.facts())
        self._head.send(HEAD, control.RunNews(self._run, state, cluster.waits_for(), facts))

    def note(self, text: str) -> None:
        """See ``head.run.session.View``."""
        to_stderr(text)

    def last(self, status: Status) -> None:
        """See ``head.run.session.View``; what it said before is some moments old."""
        self._tell(status)

    def finish(self, summary: Summary, folder: RunFolder) -> None:
        """See ``head.run.session.View``."""
        self.note(summary.last_line(folder.path))


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """As JSON says it: what is not finite becomes None, keys become strings."""
    said: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(facts))
    return said


class Ring:
    """Wakes the run, also while it has a line to the head but no board yet."""

    def __init__(self) -> None:
        self.rings: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        """Ring it."""
        self.rings()


class RunProcess:
    """Carries out an order of the head daemon's."""

    def __init__(self, order: RunOrder, head: Messenger, ring: Ring) -> None:
        self._order, self._head, self._ring = order, head, ring
        self._code = Path(order.code or order.folder)

    def run(self) -> Summary:
        """See the run through; raises what ``deploy.local.run.run`` and ``resume`` raise."""
        with StopRequests() as requests:
            return self._resume(requests) if self._order.resume else self._begin(requests)

    def _begin(self, requests: StopRequests) -> Summary:
        request = self._request()
        with request.preload() as preloaded, begun(request, requests, preloaded) as prepared:
            return self._session(prepared, requests).run()

    def _resume(self, requests: StopRequests) -> Summary:
        asked = self._request()
        with RunFolder.resume(Path(self._order.folder)) as folder:
            stored = stored_request(folder, asked.settings, quiet=True)
            request = replace(stored, folder=self._code, origin=asked.origin)
            with (
                request.preload() as preloaded,
                resumed(request, folder, requests, preloaded) as prepared,
            ):
                return self._session(prepared, requests).run()

    def _request(self) -> Request:
        asked = self._order.request
        known = {name: asked[name] for name in Request.__dataclass_fields__ if name in asked}
        folder = Path(self._order.folder)
        return Request(**{**known, "run_dir": folder, "folder": self._code, "quiet": True})

    def _session(self, prepared: Prepared, requests: StopRequests) -> Session:
        order, clock, node = self._order, WakingClock(), prepared.node
        keys = Path(order.keys) if order.keys else None
        bundles = prepared.folder.path / f"{IMAGES}-moving"
        address = Address(order.run, order.epoch, order.code, bundles, order.host, keys)
        here, there = apart(prepared.registration)
        cluster = ClusterRun(
            node, there, address, self._head, clock, requests.undisturbed, here.preloaded
        )
        self._ring.rings = node.board.doorbell.ring
        view = NewsView(order.run, self._head, cluster, SystemClock())
        prepared = replace(prepared, registration=here)
        return Session(prepared, requests, view, cluster, clock, Arrivals(node.blocks))


def apart(registration: Registration) -> tuple[Registration, Plan]:
    """What the head goes by, and the plan of the workers; transfers are the workers' business."""
    plan, table = with_transfer(registration.plan, registration.table)
    shipping = transfers(table)
    own = {target: trigger for target, trigger in table.items() if target not in shipping}
    return replace(registration, plan=plan, table=own), cache_plan(plan, table)


def outcome(run: Callable[[], Summary]) -> tuple[ExitStatus, str]:
    """Exit status and reasons of what ``run`` does."""
    try:
        summary = run()
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED, "stopped at once"
    except REFUSALS as error:
        return ExitStatus.REFUSED, str(error)
    except Exception as error:
        if not isinstance(error, ArtosError):
            _log.exception("the run process failed")
        return ExitStatus.FAILED, f"{type(error).__name__}: {error}"
    return ExitStatus.of_outcome(summary.outcome), ""


def main(arguments: Sequence[str]) -> int:
    """Run the process; returns its exit status."""
    faulthandler.enable()
    order, ring = read_order(Path(arguments[0]), RunOrder), Ring()
    with logging_to(to_stderr), Messenger.connect(order.head, None, order.run, ring) as head:
        status, why = outcome(RunProcess(order, head, ring).run)
        ring.rings = lambda: None
        if why:
            to_stderr(why)
        head.send(HEAD, control.RunNews(order.run, status.outcome, why))
        head.close(_FAREWELL_SECONDS)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
