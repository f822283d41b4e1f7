"""The run processes that this node carries for the head: each has the keys of its run only."""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from artos.errors import Refused
from artos.protocol.control import CarryRun, FetchArchive, FinishRun, RunEnded
from artos.protocol.message import Message
from artos.runs.exit_status import ExitStatus
from artos.runs.orders import RunOrder, write_order
from artos.system.account import as_owner, give
from artos.system.archives import Archives
from artos.system.child import Child, ProcessSpec, start
from artos.system.child_modules import ChildModule
from artos.system.exit_report import ExitReport
from artos.system.faults import Faults
from artos.system.pidfd import PidFd
from artos.system.private_folder import keep
from artos.system.signals import CLOSE
from artos.transport.address import address_towards, endpoint_of
from artos.transport.keys import Keys, write_call_keys, write_run_keys
from workers.daemon.node_accounts import NodeAccounts

_LOG = Path("logs") / "run.log"
_LAST_LINES = 10


@dataclass(slots=True)
class _Carried:
    """A run's process."""

    epoch: int
    child: Child
    process: PidFd
    told: bool = False
    """Whether it was told to finish."""
    archive: str = ""
    """Its code."""


class RunCarrier:
    """Starts and ends run processes as the head orders, a ``step`` at a time.

    They call the ``head``, whose public key is in ``keys``, and end with this process. ``folder``
    has their orders and keys while they live.
    """

    def __init__(
        self, head: str, keys: Keys, archives: Archives, folder: Path, faults: Faults,
        accounts: NodeAccounts, process: str = ChildModule.RUN,
    ) -> None:  # fmt: skip
        self._head, self._keys, self._archives = head, keys, archives
        self._folder, self._faults, self._process = folder, faults, process
        self._accounts = accounts
        self._wanted: dict[str, CarryRun] = {}
        self._carried: dict[str, _Carried] = {}
        self._asked: set[str] = set()
        shutil.rmtree(folder, ignore_errors=True)  # the processes ended with an earlier daemon

    def __repr__(self) -> str:
        return f"<RunCarrier wanted={[*self._wanted]} carried={[*self._carried]}>"

    @property
    def runs(self) -> dict[str, int]:
        """The runs that have a process here, or are about to have one, and the epoch of each."""
        living = {run: each.epoch for run, each in self._carried.items()}
        return living | {run: carry.epoch for run, carry in self._wanted.items()}

    @property
    def archives(self) -> set[str]:
        """The code of these runs."""
        there = {each.archive for each in self._carried.values()}
        return there | {carry.archive for carry in self._wanted.values()}

    @property
    def descriptors(self) -> list[int]:
        """Become readable when a process has ended."""
        return [each.process.fileno() for each in self._carried.values()]

    def carry(self, carry: CarryRun) -> None:
        """Start this process, once an older one of the run has ended."""
        self._wanted[carry.run] = carry
        if (older := self._carried.get(carry.run)) and older.epoch != carry.epoch:
            older.process.signal(signal.SIGKILL)

    def finish(self, finish: FinishRun) -> list[Message]:
        """Have a process finish, or end at once; returns what to tell the head."""
        wanted, carried = self._wanted.get(finish.run), self._carried.get(finish.run)
        if wanted is not None and wanted.epoch == finish.epoch:
            del self._wanted[finish.run]
            why = "it was stopped before it began"
            return [RunEnded(finish.run, finish.epoch, ExitStatus.INTERRUPTED, why)]
        same = carried is not None and carried.epoch == finish.epoch
        if carried is not None and same and not (finish.again and carried.told):
            carried.told = True
            carried.process.signal(signal.SIGKILL if finish.at_once else CLOSE)
        return []

    def finish_all(self) -> list[Message]:
        """Have all processes finish and save."""
        runs = self.runs.items()
        return [told for run, epoch in runs for told in self.finish(FinishRun(run, epoch))]

    def forget_requests(self) -> None:
        """Ask for missing archives again."""
        self._asked.clear()

    def step(self) -> list[Message]:
        """Reap and start processes; returns messages for the head. Never blocks."""
        reports: list[Message] = []
        for run, carried in [*self._carried.items()]:
            with self._faults.contained(f"the process of {run}"):
                with as_owner(carried.child.log.parent.parent):
                    carried.child.cap_log()
                if (status := carried.child.died()) is not None:
                    why = ExitReport.of_process(
                        carried.child.pid, status, carried.child.log_tail(_LAST_LINES)
                    ).why
                    self._forget(run)
                    reports.append(RunEnded(run, carried.epoch, status, why))
        for run, carry in [*self._wanted.items()]:
            name = carry.archive
            if run in self._carried or (name and name in self._asked):
                continue
            if name and name not in self._archives:
                self._asked.add(name)
                reports.append(FetchArchive(name))
                continue
            del self._wanted[run]
            try:
                self._start(carry)
            except (Refused, OSError) as error:
                reports.append(_not_started(carry, str(error)))
        return reports

    def archive_came(self, name: str, why: str) -> list[Message]:
        """The head has answered; ``why`` an archive is not here all the same, "" if it is.

        Processes that wait for one that is not are given up; returns what to tell the head.
        """
        self._asked.discard(name)
        waiting = [run for run in self._wanted.keys() - self._carried.keys() if why]
        without = [self._wanted.pop(run) for run in waiting if self._wanted[run].archive == name]
        return [_not_started(carry, why) for carry in without]

    def _start(self, carry: CarryRun) -> None:
        place, log = keep(self._folder) / carry.run, Path(carry.folder) / _LOG
        account = self._accounts.named(carry.account, self._folder, Path(carry.folder))
        if account is None:
            archives = self._archives
            keep(place)
        else:
            give(place, account)
            archives = Archives(place / "code")
        content = b"" if carry.archive in archives else self._archives.content(carry.archive)
        head = self._keys.head
        with as_owner(place):
            if content:
                archives.put(carry.archive, content)
            order = RunOrder(
                carry.run, carry.epoch, carry.request,
                str(archives.unpacked(carry.archive)) if carry.archive else "",
                carry.archive, carry.folder, address_towards(endpoint_of(self._head)),
                str(write_run_keys(place / "own", carry.keys)), self._head, carry.resume,
                call_keys=str(write_call_keys(place / "call", head, carry.run, carry.keys)),
            )  # fmt: skip
            write_order(file := place / "run.json", order)
        # It begins with SIGTERM blocked, until it ignores it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
        try:
            with as_owner(place):
                child = start(ProcessSpec(self._process, (str(file),)), log, account=account)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._carried[carry.run] = _Carried(
            carry.epoch, child, PidFd(child.pid), archive=carry.archive
        )

    def _forget(self, run: str) -> None:
        self._carried.pop(run).process.close()
        shutil.rmtree(self._folder / run, ignore_errors=True)

    def kill(self) -> None:
        """End every process at once."""
        self._wanted.clear()
        for run, carried in [*self._carried.items()]:
            carried.child.kill()
            self._forget(run)


def _not_started(carry: CarryRun, why: str) -> RunEnded:
    return RunEnded(carry.run, carry.epoch, None, f"its process could not be started: {why}")
