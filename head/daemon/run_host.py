"""Starts run processes, here or on worker nodes, and finds those here again after a crash."""

from __future__ import annotations

import os
import select
import shutil
import signal
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from artos.errors import Refused
from artos.protocol.control import CarryRun, FinishRun, RunEnded
from artos.protocol.message import Message
from artos.protocol.run_keys import RunKeys
from artos.runs.exit_status import OUTCOMES, ExitStatus
from artos.runs.orders import RunOrder, write_order
from artos.system.account import as_owner
from artos.system.archives import Archives
from artos.system.child import Child, ProcessSpec, start
from artos.system.child_modules import ChildModule
from artos.system.closing import Closing
from artos.system.exit_report import ExitReport
from artos.system.logs import rotate
from artos.system.pidfd import PidFd
from artos.system.private_folder import keep
from artos.system.process_list import find
from artos.transport.keys import write_run_keys
from head.daemon.run import Run
from head.daemon.user_accounts import UserAccounts
from head.records import summary_file
from head.records.run_folder import LOG, LOGS


@dataclass(slots=True)
class _Process:
    """A run's process."""

    process: PidFd
    child: Child | None
    """None if an earlier head started the process."""
    log: Path


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run process ended."""

    run: str
    status: int | None
    """Its exit status, None if unknown."""
    words: str
    """An explanation."""


class RunHost(Closing):
    """One process per run, each in a session of its own, so that it outlives the head.

    ``folder`` holds the processes' orders. Run processes reach the head at ``head`` (ipc) and
    listen on ``host``; ``process`` is the module that they run. Those that worker nodes carry are
    theirs to start and reap: ``tell`` sends a node a message.
    """

    def __init__(
        self,
        folder: Path,
        archives: Archives,
        head: str,
        host: str,
        keys: Path,
        process: str = ChildModule.RUN,
        accounts: UserAccounts | None = None,
        tell: Callable[[str, Message], None] = lambda node, message: None,
    ) -> None:
        self._folder, self._archives, self._process = folder, archives, process
        self._head, self._host, self._keys = head, host, keys
        self._accounts = accounts or UserAccounts({}, folder)
        self._processes: dict[str, _Process] = {}
        self._tell = tell
        self.carried: dict[str, Run] = {}
        """Runs by name that have a process on a worker node, as far as is known here."""
        self._names: dict[int, str] = {}  # of runs, by the descriptor of their process
        self._ends = select.epoll()  # so that living processes are not looked at

    def __repr__(self) -> str:
        return f"<RunHost { ({run: p.process.pid for run, p in self._processes.items()}) }>"

    @property
    def runs(self) -> list[str]:
        """Runs that have a process."""
        return [*self._processes, *self.carried]

    def fileno(self) -> int:
        """A descriptor that is readable from the end of a process until ``ended`` is called."""
        return self._ends.fileno()

    def _follow(self, run: str, process: _Process) -> None:
        self._processes[run], descriptor = process, process.process.fileno()
        self._names[descriptor] = run
        self._ends.register(descriptor, select.EPOLLIN)

    def _forget(self, run: str) -> Child | None:
        """Its process, if it has one that is our child."""
        if (followed := self._processes.pop(run, None)) is None:
            return None
        self._ends.unregister(followed.process)
        del self._names[followed.process.fileno()]
        followed.process.close()
        return followed.child

    def begin(self, run: Run, needed: Collection[str] = ()) -> None:
        """Start the process of a run; archives that other runs have ``needed`` stay.

        Raises:
            Refused: the run's code is gone or damaged, or its folder cannot be written.
        """
        folder, place = Path(run.folder), self._place(run)
        account = self._accounts.of(run.account)
        acting = nullcontext if account is None else account.acting
        note = self._accounts.unused() if run.account else ""
        try:
            self._accounts.give(folder, account)
            if run.carrier and run.keys:
                self._have_carried(run, run.keys)
                return
            archives = self._archives if account is None else Archives(place / "code")
            content = b"" if run.archive in archives else self._archives.content(run.archive)
            with acting():
                if content:
                    archives.put(run.archive, content, needed)
                code = str(archives.unpacked(run.archive)) if run.archive else ""
                keys = write_run_keys(self._keys_of(run), run.keys) if run.keys else self._keys
                order = RunOrder(
                    run.name, run.epoch, run.request, code, run.archive, run.folder, self._host,
                    str(keys), self._accounts.endpoint(run.account) or self._head,
                    run.resume,
                    note and f"its account {run.account} is not used: {note}",
                )  # fmt: skip
                write_order(self._file(run), order)
            # It begins with SIGTERM blocked, until it ignores it.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
            try:
                spec = ProcessSpec(self._process, (str(self._file(run)),))
                with acting():
                    child = start(spec, _log(run), account=account)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except Refused:
            self._tidy(run)
            raise
        except OSError as error:
            self._tidy(run)
            raise Refused([f"the run cannot begin: {error}"]) from error
        self._follow(run.name, _Process(PidFd(child.pid), child, child.log))

    def _have_carried(self, run: Run, keys: RunKeys) -> None:
        if run.archive and run.archive not in self._archives:
            raise Refused([f"the code of run {run.name} is gone: submit it again"])
        self.carried[run.name] = run
        carry = CarryRun(
            run.name, run.epoch, run.request, run.archive, run.folder, keys, run.resume, run.account
        )
        self._tell(run.carrier, carry)

    def adopt(self, run: Run) -> bool:
        """Follow the run's process that an earlier head started; False if there is none.

        Of one on a worker node nothing is known until that says which it carries, or is gone.
        """
        if run.carrier:
            self.carried[run.name] = run
            return True
        file = str(self._file(run))
        account = self._accounts.of(run.account)
        user = os.geteuid() if account is None else account.uid
        for process in find(lambda words: file in words, user):
            self._follow(run.name, _Process(process, None, _log(run)))
            return True
        return False

    def drop(self, run: str) -> None:
        """Kill the process of a run, if it has one, and forget it."""
        self.signal(run, signal.SIGKILL)
        self.carried.pop(run, None)
        if child := self._forget(run):
            child.kill()

    def signal(self, run: str, number: signal.Signals) -> None:
        """Send the process of a run a signal, if it has one: ``CLOSE`` or SIGKILL."""
        if there := self.carried.get(run):
            at_once = number == signal.SIGKILL
            self._tell(there.carrier, FinishRun(run, there.epoch, at_once=at_once))
        if found := self._processes.get(run):
            found.process.signal(number)

    def kill_here(self) -> None:
        """Kill the processes of runs on this machine; those on worker nodes live on."""
        for each in self._processes.values():
            each.process.signal(signal.SIGKILL)

    def cap_logs(self) -> None:
        """Rotate the logs of run processes, so that they do not fill the disk."""
        for each in self._processes.values():
            with as_owner(each.log.parent.parent):
                rotate(each.log)

    def gone(self) -> list[str]:
        """Runs whose process is gone; call ``ended`` once for each."""
        return [self._names[descriptor] for descriptor, _ in self._ends.poll(0)]

    def ended(self, run: Run, told: RunEnded | None = None) -> Ended:
        """How a run's process ended, as its node ``told``; else, if not our child, by its summary.

        From then on it has none.
        """
        self.carried.pop(run.name, None)
        if told is not None:
            return Ended(run.name, told.status, told.why)
        child, folder = self._forget(run.name), Path(run.folder)
        with as_owner(folder):
            if child is not None and (status := child.died()) is not None:
                words = ExitReport.of_process(child.pid, status, child.log_tail(10)).why
            else:
                status, words = None, "it ended while the head was away"
                with suppress(Refused):
                    found = summary_file.read(folder)
                    outcome = found[1].outcome if found and found[1].epoch == run.epoch else ""
                    status = ExitStatus.of_outcome(outcome) if outcome in OUTCOMES else None
        self._tidy(run)
        if self._accounts.of(run.account) is not None:
            with suppress(OSError):  # it has files, unless the run was refused
                folder.rmdir()
        return Ended(run.name, status, words)

    def _tidy(self, run: Run) -> None:
        """Remove what its process was handed, its keys too."""
        with as_owner(self._place(run)):
            self._file(run).unlink(missing_ok=True)
            shutil.rmtree(self._keys_of(run), ignore_errors=True)

    def _place(self, run: Run) -> Path:
        """Where its process finds what it is handed: a folder of its account, or the head's."""
        return self._accounts.place(run.account) or self._folder

    def _file(self, run: Run) -> Path:
        return self._place(run) / f"{run.name}-{run.epoch}.json"

    def _keys_of(self, run: Run) -> Path:
        return keep(self._place(run)) / f"{run.name}.keys"

    def close(self) -> None:
        """Release the processes; they live on."""
        for run in self.runs:
            self._forget(run)
        self._ends.close()


def _log(run: Run) -> Path:
    return Path(run.folder) / LOGS / LOG
