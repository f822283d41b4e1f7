"""The executors on this node: one process per run the head assigned; all use the same CPUs."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from artos.buffer.shm_folder import reap_orphans
from artos.clock import Clock
from artos.errors import Refused
from artos.protocol.control import (
    Assign,
    ExecutorEnded,
    FetchArchive,
    LogPiece,
    ReadNodeLog,
)
from artos.protocol.message import Message
from artos.runs.cleanup import remove_unlinked_images
from artos.runs.orders import ExecutorOrder, write_order
from artos.system.account import SystemAccount, as_owner, file_user, give, may_switch
from artos.system.archives import Archives
from artos.system.by_age import by_age
from artos.system.child import Child, ProcessSpec, start
from artos.system.child_modules import ChildModule
from artos.system.exit_report import ExitReport
from artos.system.faults import Faults
from artos.system.logs import piece
from artos.system.pidfd import PidFd
from artos.system.private_folder import keep
from artos.system.signals import CLOSE
from artos.transport.keys import write_run_keys
from workers.checkpoint.criu.find import find_criu
from workers.checkpoint.own_rights import with_own_rights
from workers.checkpoint.tiers import OF_A_USER, probe
from workers.daemon.node_accounts import NO_SWITCH, NodeAccounts
from workers.daemon.orphans import Orphans

_SETTLED = 1.0
_HANDLED = (CLOSE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MOST_OF_A_LOG = 100_000  # bytes of an answer
_MOST_RUNS = 20
"""Number of finished runs whose logs are kept on a node."""


@dataclass(slots=True)
class _Opened:
    """An executor's process."""

    order: ExecutorOrder
    child: Child
    process: PidFd
    end_by: float | None = None
    """When it will be killed; None while it is wanted."""

    @property
    def epoch(self) -> int:
        return self.order.assign.epoch


class ExecutorHost:
    """Opens and ends executors so that they match the head's orders, a ``step`` at a time.

    ``folder`` has a folder for each run with its order, logs and images. ``patience``: the seconds
    an executor has to close before it is killed. ``cpus`` returns those of one that opens now.
    """

    def __init__(
        self, node: str, cpus: Callable[[], Sequence[int]], keys: Path, archives: Archives,
        folder: Path, clock: Clock, patience: float, faults: Faults | None = None,
        accounts: NodeAccounts | None = None,
    ) -> None:  # fmt: skip
        self._accounts = accounts or NodeAccounts(node)
        self._node, self._cpus, self._keys = node, cpus, keys
        self._here: tuple[int, ...] = ()
        self._archives, self._folder, self._clock = archives, folder, clock
        self._patience = patience
        self._faults = faults or Faults()
        self._wanted: dict[str, Assign] = {}
        self._executors: dict[str, _Opened] = {}
        self._asked: set[str] = set()
        self._orphans: dict[str, Orphans] = {}
        self._tidy_at = clock.now()

    def __repr__(self) -> str:
        return f"<ExecutorHost {self._node} wanted={[*self._wanted]} open={[*self._executors]}>"

    @property
    def runs(self) -> dict[str, int]:
        """The runs with an executor that is open or wanted here, and the epoch of each."""
        living = {run: each.epoch for run, each in self._executors.items() if each.end_by is None}
        return living | {run: assign.epoch for run, assign in self._wanted.items()}

    @property
    def archives(self) -> set[str]:
        """The code that executors here run, or are about to."""
        there = (each.order.assign for each in self._executors.values())
        return {assign.archive for assign in (*there, *self._wanted.values())}

    @property
    def empty(self) -> bool:
        """Whether no executor is left."""
        return not self._executors

    @property
    def descriptors(self) -> list[int]:
        """Become readable when an executor, or an orphan of an earlier executor, has ended."""
        left = [each for orphans in self._orphans.values() for each in orphans.descriptors]
        return [*(executor.process.fileno() for executor in self._executors.values()), *left]

    # -- what the head wants -------------------------------------------------------------------

    def assign(self, assign: Assign) -> None:
        """Open this executor instead of an older one of the run, or give it other ``slots``."""
        self._wanted[assign.run] = assign

    def unassign(self, run: str) -> None:
        """End the executor of this run; a later ``assign`` opens a new one."""
        self._wanted.pop(run, None)
        if run in self._executors:
            self._end(self._executors[run])

    def unassign_all(self) -> None:
        """End all executors."""
        for run in {*self._wanted, *self._executors}:
            self.unassign(run)

    def archive_came(self, name: str, why: str) -> list[Message]:
        """The head has answered; ``why`` an archive is not here all the same, "" if it is.

        Executors that wait for one that is not are given up; returns what to tell the head.
        """
        self._asked.discard(name)
        waiting = [run for run in self._wanted.keys() - self._executors.keys() if why]
        without = [self._wanted[run] for run in waiting if self._wanted[run].archive == name]
        return [told for assign in without for told in self._cannot_open(assign, why)]

    def forget_requests(self) -> None:
        """Ask for missing archives again: the head has restarted and forgotten the requests."""
        self._asked.clear()

    def log(self, wanted: ReadNodeLog) -> LogPiece:
        """A piece of a log of a run, which may be over."""
        file = self._folder / wanted.run / "logs" / f"{wanted.log}.log"
        with as_owner(self._folder / wanted.run):
            if not file.exists():
                there = ", ".join(sorted(path.stem for path in file.parent.glob("*.log"))) or "none"
                why = f"node {self._node} has no log {wanted.log!r} of run {wanted.run}; there are"
                return LogPiece(wanted.number, fault=f"{why}: {there}")
            data, end = piece(file, wanted.offset, _MOST_OF_A_LOG)
        return LogPiece(wanted.number, end, content=data)

    # -- following the executors ---------------------------------------------------------------

    def step(self) -> list[Message]:
        """Reap, end and open executors; returns messages for the head. Never blocks."""
        reports: list[Message] = []
        contained = self._faults.contained
        for run, executor in [*self._executors.items()]:
            with contained(f"the executor of {run}"), as_owner(self._folder / run):
                executor.child.cap_log()
                if (status := executor.child.died()) is not None:
                    why = self._forget(run, executor, status)
                    # One that made room for a new one of its run is not taken for that one.
                    if why or run not in self._wanted or self._wanted[run].epoch != executor.epoch:
                        reports.append(ExecutorEnded(run, executor.epoch, why))
                elif executor.end_by is not None:
                    self._end(executor)
                elif self._wanted[run].epoch != executor.epoch:
                    self._end(executor, signal.SIGINT)  # the run process that opened it is dead
                elif (assign := self._wanted[run]) != executor.order.assign:
                    order = msgspec.structs.replace(executor.order, assign=assign)
                    write_order(self._file(run), order)
                    executor.order = order  # only now: else an order not written is forgotten
                    executor.process.signal(signal.SIGHUP)
        for run, assign in [*self._wanted.items()]:
            if run not in self._executors:
                reports += self._open(assign)
        for run in self._orphans.keys() - self._wanted.keys():
            self._orphans.pop(run).close()
        with contained("tidying up"):
            # Executors that were killed, maybe under an earlier daemon, left memory and images.
            if self._clock.now() >= self._tidy_at:
                self._tidy_at = float("inf")
                reap_orphans()
                owners: dict[int, Path] = {}
                for folder in self._folder.glob("*/"):
                    owners.setdefault(folder.stat().st_uid, folder)
                    with as_owner(folder):
                        remove_unlinked_images(folder / "images")
                for folder in owners.values():
                    with as_owner(folder):
                        reap_orphans()
        return reports

    def _end(self, executor: _Opened, how: signal.Signals = CLOSE) -> None:
        now = self._clock.now()
        if executor.end_by is None:
            executor.end_by = now + self._patience
            executor.process.signal(how)
        elif now >= executor.end_by:
            executor.child.kill()

    def _forget(self, run: str, executor: _Opened, status: int) -> str:
        """Forget an executor that ended; returns why it ended, "" if it was told to."""
        executor.process.close()
        del self._executors[run]
        self._file(run).unlink(missing_ok=True)
        wanted = self._wanted.get(run)
        if executor.end_by is None and wanted is not None and wanted.epoch == executor.epoch:
            del self._wanted[run]  # only the head decides whether to try again
        if status < 0:
            self._tidy_at = self._clock.now() + _SETTLED
        if status == 0 or (executor.end_by is not None and status == -CLOSE):
            return ""
        return ExitReport.of_process(executor.child.pid, status, executor.child.log_tail(10)).why

    def _open(self, assign: Assign) -> list[Message]:
        name = assign.archive
        if name and name not in self._archives:
            asked = name in self._asked
            self._asked.add(name)
            return [] if asked else [FetchArchive(name)]
        try:
            now = self._clock.now()
            if assign.run not in self._orphans:
                left = Orphans(self._folder / assign.run, now + self._patience)
                self._orphans[assign.run] = left
            # A process that an earlier executor left could be taken for one of the new executor.
            if self._orphans[assign.run].gone(now):
                del self._orphans[assign.run]
                if not self._executors or not self._here:
                    self._here = tuple(self._cpus())  # all that are open take turns on the same
                # Only the latest few finished runs keep their folders.
                kept = {*self.runs, *self._executors}  # also of one that is still closing
                over = [path for path in self._folder.glob("*/") if path.name not in kept]
                for _, path in by_age(over)[:-_MOST_RUNS]:
                    shutil.rmtree(path, ignore_errors=True)
                account = self._accounts.named(assign.account, self._folder)
                folder = self._folder / assign.run
                self._give(folder, account)
                note = ""
                if account is not None:
                    account, note = with_images(account)
                elif assign.account:
                    note = f"its account {assign.account} is not used: {NO_SWITCH}"
                archives = self._archives if account is None else Archives(folder / "code")
                content = b"" if name in archives else self._archives.content(name)
                with as_owner(folder):
                    (folder / "logs").mkdir(exist_ok=True)
                    if content:
                        archives.put(name, content)
                    keys = self._keys
                    if assign.keys is not None:
                        keys = write_run_keys(folder / "keys", assign.keys)
                    order = ExecutorOrder(
                        assign,
                        self._node,
                        str(keys),
                        str(archives.unpacked(name)) if name else "",
                        str(folder / "logs"),
                        str(folder / "images"),
                        self._here,
                        note,
                        self._folder.name,
                    )
                    write_order(self._file(assign.run), order)
                    spec = ProcessSpec(ChildModule.EXECUTOR, (str(self._file(assign.run)),))
                    # It begins with these signals blocked, until it can handle them.
                    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
                    try:
                        child = start(
                            spec, folder / "logs" / "executor.log", account=account,
                            prefix=with_own_rights(),
                        )  # fmt: skip
                    finally:
                        signal.pthread_sigmask(signal.SIG_SETMASK, before)
                self._executors[assign.run] = _Opened(order, child, PidFd(child.pid))
        except (Refused, OSError) as error:
            return self._cannot_open(assign, str(error))
        except Exception as error:
            self._faults.add(f"opening the executor of {assign.run}", error)
            return self._cannot_open(assign, f"{type(error).__name__}: {error}")
        return []

    def _give(self, folder: Path, account: SystemAccount | None) -> None:
        """Have the folder of a run be this account's; logs that another one left are removed."""
        owner = file_user() if account is None else account.uid
        if may_switch() and folder.exists() and folder.lstat().st_uid != owner:
            shutil.rmtree(folder)
        if account is None:
            keep(folder)
        else:
            give(folder, account)

    def _cannot_open(self, assign: Assign, why: str) -> list[Message]:
        del self._wanted[assign.run]
        return [ExecutorEnded(assign.run, assign.epoch, f"it could not be opened: {why}")]

    def _file(self, run: str) -> Path:
        return self._folder / run / "executor.json"

    def kill(self) -> None:
        """Kill every executor at once."""
        for run, executor in [*self._executors.items()]:
            executor.child.kill()
            with as_owner(self._folder / run):
                self._forget(run, executor, -signal.SIGKILL)
        for orphans in self._orphans.values():
            orphans.close()
        self._orphans.clear()


def with_images(account: SystemAccount) -> tuple[SystemAccount, str]:
    """The account with what its actors need to have images, and why they have none ("": they do).

    They need a CRIU that the account can read, and rights in a user namespace of its own.
    """
    if not (clone := probe()["clone"]).available:
        return account, f"there are no images on this node: {clone.reason}"
    with account.acting():
        home = Path(account.home)
        own = home.is_dir() and home.stat().st_uid == account.uid
    if not own:  # CRIU makes a folder where a process is, for a moment
        return account, f"there are no images: {account.name} has no home of its own ({home})"
    criu = find_criu()
    try:
        account.require(criu)
    except Refused as refused:
        faults = "; ".join(refused.faults)
        return account, f"there are no images, CRIU is out of reach: {faults}, or set ARTOS_CRIU"
    return replace(account, criu=str(criu), rights=(*OF_A_USER.values(),)), ""
