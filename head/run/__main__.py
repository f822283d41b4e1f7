"""``python -P -m head.run FILE``: the run process of a run on a cluster (``RunOrder``).

It does what ``artos run`` does on one machine, with actors on the nodes that the head daemon names.
The exit status is that of ``artos run``.
"""

from __future__ import annotations

import faulthandler
import logging
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from artos.buffer.shm_folder import MOVING
from artos.clock import Clock, Deadline, SystemClock, WakingClock
from artos.errors import ArtosError, DeadlineExceeded, Refused, RunExists, ShmTooSmall
from artos.protocol import control
from artos.protocol.run_state import RUNNING, STARTING, STOPPING
from artos.protocol.views import RunFacts, Status
from artos.runs import packages
from artos.runs.exit_status import REFUSALS, ExitStatus
from artos.runs.orders import RunOrder, read_order
from artos.runs.plan import Plan
from artos.specs.devices import CPU, sought
from artos.system.child import end_with_parent, ignore_sigterm
from artos.system.child_modules import ChildModule
from artos.system.logging_setup import logging_to, to_stderr
from artos.system.shm import allowed_bytes
from artos.system.signals import CLOSE, StopRequests, forget_interrupt
from artos.transport.keys import Keys
from artos.transport.messenger import HEAD, Messenger
from head.records.run_folder import RunFolder
from head.records.status import Summary
from head.run.cluster import ClusterRun, RunAddress
from head.run.coordination.rows import Arrivals
from head.run.preparation import PreparedRun, begun, resumed, stored_request
from head.run.request import Request
from head.run.session import Session
from triggers.registration import Registration
from triggers.wiring import cache_plan, transfers, with_transfer

_log = logging.getLogger(__name__)
_REPORT_SECONDS = 0.5
_AWAY_SECONDS = 5.0
_CLOSE_SECONDS = 5.0
_LEAVE_SECONDS, _LOOK_SECONDS = 120.0, 0.5
"""How long, and how often, it is looked whether an earlier process has left the run's folder."""


class HeadView:
    """Reports the run's status to the head daemon; notes go to the run's log.

    Nothing is sent while the head is unreachable: it would only have to read outdated reports.
    """

    def __init__(self, run: str, head: Messenger, cluster: ClusterRun, clock: Clock) -> None:
        self._run, self._head, self._cluster, self._clock = run, head, cluster, clock
        self._due = clock.now()

    @property
    def due(self) -> bool:
        """Whether a report is due: a few times a second, and when a node waits for one."""
        return self._clock.now() >= self._due or (self._cluster.emptied and self._hears)

    @property
    def _hears(self) -> bool:
        return self._head.silent().get(HEAD, 0.0) <= _AWAY_SECONDS

    def show(self, status: Status) -> None:
        """Send the status, unless the head has been silent for a while."""
        self._due = self._clock.now() + _REPORT_SECONDS
        if self._hears:
            self._report(status)

    def _report(self, status: Status) -> None:
        cluster = self._cluster
        state = STOPPING if cluster.draining else RUNNING
        # As JSON has them: a number that is not finite becomes None.
        facts = msgspec.json.decode(msgspec.json.encode(cluster.facts(status)), type=RunFacts)
        self._head.send(HEAD, control.RunNews(self._run, state, cluster.waits_for(), facts))

    def note(self, text: str) -> None:
        """Write the line to the run's log."""
        to_stderr(text)

    def last(self, status: Status) -> None:
        """Send the status in any case: the report before this one is some moments old."""
        self._report(status)

    def finish(self, summary: Summary, folder: RunFolder) -> None:
        """Write the summary's last line to the run's log."""
        self.note(summary.last_line(folder.path))


class RunWaker:
    """Wakes the run; may be called while the run is connected to the head but has no board yet."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        """Wake the run."""
        self.wake()


class RunProcess:
    """Carries out an order of the head daemon."""

    def __init__(self, order: RunOrder, head: Messenger, waker: RunWaker) -> None:
        self._order, self._head, self._waker = order, head, waker
        self._code = Path(order.code or order.folder)

    def run(self) -> Summary:
        """Run to the end; raises what ``deploy.local.run.run`` and ``resume`` raise."""
        with StopRequests((CLOSE, signal.SIGINT, signal.SIGHUP)) as requests:
            given, path = self._order.request, Path(self._order.folder)
            known = {name: given[name] for name in Request.__dataclass_fields__ if name in given}
            asked = Request(**{**known, "run_dir": path, "folder": self._code, "quiet": True})
            left = left_folder(path) if self._order.resume else None
            if left is None:
                with (
                    asked.preload() as preloaded,
                    begun(asked, requests, preloaded, self._tell_device, on_nodes=True) as prepared,
                ):
                    return self._session(prepared, requests).run()
            with left as folder:
                stored = stored_request(folder, asked.settings, True, asked.deadline)
                request = replace(stored, folder=self._code, origin=asked.origin)
                with (
                    request.preload() as preloaded,
                    resumed(request, folder, requests, preloaded, on_nodes=True) as prepared,
                ):
                    return self._session(prepared, requests).run()

    def _tell_device(self, plan: Plan) -> Sequence[str]:
        """The head may know a machine with the device that the code names; no fault of this one."""
        if (device := sought(plan.devices)) != CPU:
            self._head.send(HEAD, control.RunNews(self._order.run, STARTING, device=device))
        return ()

    def _session(self, prepared: PreparedRun, requests: StopRequests) -> Session:
        order, clock, node = self._order, WakingClock(), prepared.node
        keys = Path(order.keys) if order.keys else None
        bundles = prepared.folder.path / MOVING
        address = RunAddress(order.run, order.epoch, order.code, bundles, order.host, keys)
        here, there = apart(prepared.registration)
        cluster = ClusterRun(
            node,
            there,
            address,
            self._head,
            clock,
            requests.undisturbed,
            here.preloaded,
            prepared.states,
        )
        self._waker.wake = node.board.doorbell.ring
        view = HeadView(order.run, self._head, cluster, SystemClock())
        prepared = replace(prepared, registration=here, epoch=order.epoch)
        return Session(prepared, requests, view, cluster, clock, Arrivals(node.blocks))


def left_folder(path: Path, clock: Clock | None = None) -> RunFolder | None:
    """The folder of a run that goes on, once an earlier process of the run has left it.

    None if that one saved no checkpoint: its records are removed, and the run begins anew.

    The head may have given a node up on which that one still runs, or a file system of several
    machines may not have noticed yet that it has ended.

    Raises:
        RunExists: it has not left it in time.
        CheckpointFault, NotOurs, Refused: as ``RunFolder.resume``; records cannot be removed.
    """
    deadline = Deadline(_LEAVE_SECONDS, clock or SystemClock())
    told = False
    while True:
        try:
            if RunFolder.clear(path):
                return None
            return RunFolder.resume(path)
        except RunExists:
            if deadline.passed:
                raise
            if not told:
                told = True
                _log.warning("an earlier process of the run still has its folder: waiting for it")
            time.sleep(min(_LOOK_SECONDS, deadline.left))


def apart(registration: Registration) -> tuple[Registration, Plan]:
    """The head's registration and the workers' plan; the transfer triggers are the workers'."""
    plan, table = with_transfer(registration.plan, registration.table)
    shipping = transfers(table)
    own = {target: trigger for target, trigger in table.items() if target not in shipping}
    return replace(registration, plan=plan, table=own), cache_plan(plan, table)


def outcome(run: Callable[[], Summary]) -> tuple[ExitStatus, str]:
    """Call ``run``; returns the exit status, and why the run was refused or failed ("" if not)."""
    try:
        summary = run()
    except KeyboardInterrupt:
        forget_interrupt()
        return ExitStatus.INTERRUPTED, "stopped at once"
    except ShmTooSmall as error:
        fits = bool(error.folder) and error.needed <= _room_in_all(Path(error.folder))
        return ExitStatus.NO_ROOM if fits else ExitStatus.REFUSED, str(error)
    except REFUSALS as error:
        return ExitStatus.REFUSED, str(error)
    except Exception as error:
        if not isinstance(error, ArtosError):
            _log.exception("the run process failed")
        return ExitStatus.FAILED, f"{type(error).__name__}: {error}"
    return ExitStatus.of_outcome(summary.outcome), ""


def _room_in_all(folder: Path) -> int:
    total, allowed = shutil.disk_usage(folder).total, allowed_bytes(folder)
    return total if allowed is None else min(total, allowed)


def main(arguments: Sequence[str]) -> int:
    """Run the process; returns its exit status."""
    faulthandler.enable()
    ignore_sigterm()
    order, waker = read_order(Path(arguments[0]), RunOrder), RunWaker()
    if order.call_keys:  # the head goes on with it elsewhere once this worker's daemon is gone
        end_with_parent()
    with logging_to(to_stderr):
        if order.note:
            _log.warning("%s", order.note)
        unmet = ""
        try:
            packages.enter(Path(order.code or order.folder), ChildModule.RUN, arguments)
        except (Refused, DeadlineExceeded, OSError) as error:
            unmet = f"the run's packages cannot be installed for it: {error}"
        keys = Keys.load(Path(order.call_keys)) if order.call_keys else None
        with Messenger.connect(order.head, keys, order.peer, waker) as head:
            status, why = ExitStatus.REFUSED, unmet
            if not unmet:
                status, why = outcome(RunProcess(order, head, waker).run)
            waker.wake = lambda: None
            if why:
                to_stderr(why)
            head.send(HEAD, control.RunNews(order.run, status.outcome, why))
            head.close(_CLOSE_SECONDS)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
