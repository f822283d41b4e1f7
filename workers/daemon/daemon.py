"""``artos worker``: the worker daemon, one per node; opens and closes executors for the head."""

from __future__ import annotations

import logging
import os
import re
import signal
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import psutil

from artos.clock import LONGEST, Clock, SystemClock
from artos.errors import DeadlineExceeded, NoHead, Refused, WrongKeys
from artos.pool.common import common_pool
from artos.pool.devices import device_faults
from artos.protocol import control
from artos.protocol.message import Message, Refusal, Restarted
from artos.runs.run_memory import held_bytes, shm_left
from artos.runs.shared_runs import read_token
from artos.runtime.loop import Waker
from artos.specs.fields import NAME, label_faults
from artos.system.account import may_switch
from artos.system.archives import Archives
from artos.system.closing import Closing
from artos.system.faults import Faults, Seldom
from artos.system.own_cpus import OwnCpus
from artos.system.signals import STOPPING, StopRequests
from artos.system.usable_cpus import usable_cpus
from artos.system.user_cache import user_cache
from artos.transport.address import FILE, address_towards, endpoint_of, is_endpoint
from artos.transport.handshakes import LinkFault
from artos.transport.keys import Keys
from artos.transport.link_faults import unreachable
from artos.transport.messenger import HEAD, Messenger
from artos.version import VERSION
from workers.daemon import notices
from workers.daemon.executor_host import ExecutorHost
from workers.daemon.node_accounts import NO_SWITCH, NodeAccounts
from workers.daemon.run_carrier import RunCarrier
from workers.daemon.state import WorkerState

_log = logging.getLogger(__name__)
_LOAD_PERIOD = 1.0
_MARK_PERIOD = 3_600.0
_FIRST_ANSWER = 60.0
"""Seconds for the head's first answer; a head that answered once may be away for any time."""
_HANDOVER = 1 / 3
"""Share of the time for leaving in which the head closes the executors; then this daemon does."""
_CARRIED = ".runs"
"""What the name of the folder ends with in which run processes have their orders."""
_CLOSING = 30.0
"""Seconds for an executor to close: end its actors, send their rows, tell the run."""
_FAREWELL = 2.0
_OWN_BYTES = 2 << 20
"""Shared memory that is left for the pool's table, counters of agents and the like."""
_LAST_TICK = 0.1
_NEVER = float("inf")
_NOTICES = (signal.SIGUSR1,)
"""What engines send some time before they take a machine back, as Slurm with ``--signal``."""
_ANY_HOST = re.compile(r"^tcp://(0\.0\.0\.0|\*|\[::\])(?=:)")


@dataclass(frozen=True)
class WorkerOptions:
    """The options of ``artos worker``."""

    head: str
    """The head's endpoint: tcp://IP:PORT; or file:PATH, where it says which."""
    keys: Path
    name: str
    slots: int = 0
    """CPUs for actors; 0: all that may be used here."""
    stop_seconds: float = 30.0
    """Most seconds from SIGTERM until all executors are gone."""
    devices: str = ""
    """What learners on this machine lease, as in ``cuda:0,cpu:a``."""
    runs_per_slot: int = 1
    """Runs that may be here for each slot; their actors take turns on all of them."""
    notice: str = ""
    """A file or URL that tells that this machine is about to be taken back."""
    labels: tuple[str, ...] = ()
    """What this node has, for runs that ask for it."""
    lifetime: float = 0.0
    """Seconds after which this machine is taken back; 0: nobody knows."""
    joined: Path | None = None
    """A file that is there as long as this worker is with the head."""

    def checked_slots(self) -> int:
        """How many slots this node has.

        Raises:
            Refused: everything that is wrong with the options.
        """
        here = usable_cpus()
        faults = []
        if not NAME.fullmatch(self.name):
            faults.append(f"--name {self.name!r}: use letters, digits, dots and dashes")
        if not 0 <= self.slots <= len(here):
            faults.append(f"--slots {self.slots}: {len(here)} CPUs may be used here")
        if not (self.head.startswith(FILE) or is_endpoint(self.head)):
            faults.append(f"--head {self.head!r}: write tcp://IP:PORT or file:PATH")
        if not 0 < self.stop_seconds <= LONGEST:
            faults.append(
                f"--stop-seconds must be positive, at most {LONGEST:g}, not {self.stop_seconds:g}"
            )
        slots = self.slots or len(here)
        faults += control.sharing_faults(slots, self.runs_per_slot)
        if self.lifetime and not self.stop_seconds < self.lifetime <= LONGEST:
            faults.append(
                f"--lifetime {self.lifetime:g}: it must be longer than --stop-seconds "
                f"{self.stop_seconds:g}, in which actors end, and at most {LONGEST:g}"
            )
        if self.joined and not os.access(self.joined.parent, os.W_OK | os.X_OK):
            faults.append(f"--joined {self.joined}: its folder cannot be written")
        faults += [*label_faults(self.labels), *device_faults(self.devices)]
        faults += [why for why in [notices.fault(self.notice)] if why]
        if faults:
            raise Refused(faults)
        return slots


class WorkerDaemon(Closing):
    """The daemon of one worker node. Sleeps until the head, an executor or a signal wakes it."""

    def __init__(self, options: WorkerOptions, clock: Clock | None = None) -> None:
        self._options, self._clock = options, clock or SystemClock()
        self._faults, self._seldom = Faults(), Seldom(_log)
        slots, keys = options.checked_slots(), Keys.load(options.keys)
        cache, memory_mb = user_cache(), int(psutil.virtual_memory().total // 2**20)
        with ExitStack() as stack:
            home = stack.enter_context(WorkerState(cache / "nodes", options.name, options.head))
            self._owner = home.folder.name
            self._waker = stack.enter_context(Waker())
            cpus = stack.enter_context(OwnCpus(usable_cpus(), slots))
            cpus.now()
            if cpus.shared:
                numbers = ", ".join(map(str, cpus.shared))
                _log.warning("other workers of this machine have CPU %s, too: use --slots", numbers)
            self._accounts = NodeAccounts(options.name)
            self._archives = Archives(cache / "code")
            self._coming: dict[str, bytearray] = {}  # what has come of archives
            self._executors = ExecutorHost(
                options.name, cpus.now, options.keys.resolve(), self._archives,
                home.folder, self._clock, _CLOSING, self._faults, self._accounts,
            )  # fmt: skip
            orders = home.folder.with_name(f"{home.folder.name}{_CARRIED}")
            self._carrier = RunCarrier(
                options.head, keys, self._archives, orders, self._faults, self._accounts
            )
            self._messenger = stack.enter_context(
                Messenger.connect(options.head, keys, home.peer, self._waker.ring, self._clock)
            )
            if options.joined:
                options.joined.unlink(missing_ok=True)
                stack.callback(options.joined.unlink, missing_ok=True)
            stack.callback(self._executors.kill)
            stack.callback(self._carrier.kill)
            self._hello = control.Hello(
                options.name, control.PROTOCOL, VERSION, slots, memory_mb, {}, home.before,
                options.runs_per_slot, options.labels, self._shm_bytes(), options.devices,
            )  # fmt: skip
            self._greeted_at = self._next_load = self._clock.now()
            self._next_mark = self._greeted_at + _MARK_PERIOD
            lasts = options.lifetime - options.stop_seconds
            self._leaves_at = self._greeted_at + lasts if options.lifetime else _NEVER
            self._welcome = self._answered = self._over = self._joined = False
            self._stopping = self._runs_told = False
            self._link_fault: LinkFault | None = None
            self._leaving_since = self._bye_since = _NEVER
            self._stop_seconds = options.stop_seconds
            self._why = "its worker was told to stop"
            if options.notice:  # last: it may be there already
                stack.enter_context(notices.Notices(options.notice, self._told))
            self._owned = stack.pop_all()

    def close(self) -> None:
        """Kill the executors that are left and release everything. May be called twice."""
        self._owned.close()

    def run(self) -> None:
        """Serve until told to stop (by a signal, a notice, the head) and all executors are closed.

        Raises:
            Refused: the head does not want this node, and says why.
            NoHead, WrongKeys, DeadlineExceeded: the head never answered.
            KeyboardInterrupt: told to stop a second time.
        """
        if self._stopping:  # what it would be given now would have to move at once
            _log.warning("%s does not join: %s", self._options.name, self._why)
            return
        with StopRequests((*STOPPING, *_NOTICES)) as requests, requests.draining(self._stop):
            self._greet()
            while not self._over:
                seconds = _LOAD_PERIOD
                if self._stopping:
                    seconds = _LAST_TICK
                elif self._welcome:
                    seconds = max(0.0, self._next_load - self._clock.now())
                children = [*self._executors.descriptors, *self._carrier.descriptors]
                self._waker.wait(seconds, children)
                with requests.undisturbed():
                    self.turn()

    def turn(self) -> None:
        """Handle messages and executors once, without waiting."""
        now = self._clock.now()
        contained = self._faults.contained
        for _, message in self._messenger.take():
            unable = partial(self._unable, message)
            with contained(type(message).__name__, unable, passing=_NotWanted):
                self._handle(message)
        if now >= self._leaves_at and not self._stopping:
            self._why = "its time on this machine is over"
            self._stop()
        for report in [*self._executors.step(), *self._carrier.step()]:
            self._send(report)
        if self._stopping:
            self._leave(now)
        if now >= self._next_mark:
            self._next_mark = now + _MARK_PERIOD
            self._mark_code()
        if self._welcome and now >= self._next_load:
            self._next_load = now + _LOAD_PERIOD
            load = control.Load(
                cpu=psutil.cpu_percent() / 100,
                memory=psutil.virtual_memory().percent / 100,
                faults=self._faults.count + self._messenger.faults.count,
                malformed=self._messenger.malformed,
                shm_bytes=self._shm_bytes(),
                seconds_left=max(0.1, self._leaves_at - now) if self._leaves_at < _NEVER else 0.0,
                wall=time.time(),
            )
            self._send(load)
        # Log why the head cannot be reached, once each time the connection is lost.
        before, self._link_fault = self._link_fault, self._messenger.link_fault
        if self._link_fault is not before and (why := self._unreachable()):
            _log.warning("%s; %s keeps trying", why, self._options.name)
        joined = self._welcome and self._link_fault is None
        if (file := self._options.joined) and joined is not self._joined:
            with self._faults.contained(f"keeping {file}"):
                file.touch() if joined else file.unlink(missing_ok=True)
                self._joined = joined
        if not self._answered and now - self._greeted_at > _FIRST_ANSWER:
            what = f"the head at {self._options.head} to answer"
            raise self._unreachable() or DeadlineExceeded(what, _FIRST_ANSWER)

    def _unreachable(self) -> NoHead | WrongKeys | None:
        options, fault = self._options, self._link_fault
        me = f"node {options.name}"
        return unreachable(fault, options.head, options.keys, me) if fault else None

    def _send(self, message: Message) -> None:
        with self._faults.contained(f"telling the head {type(message).__name__}"):
            self._messenger.send(HEAD, message)

    def _unable(self, message: Message, why: str) -> None:
        """Say that a message is not obeyed: whoever waits for what it asks for hears of its end."""
        match message:
            case control.Assign(run=run, epoch=epoch):
                self._send(control.ExecutorEnded(run, epoch, why))
            case control.CarryRun(run=run, epoch=epoch):
                self._send(control.RunEnded(run, epoch, None, why))
            case _:
                self._send(Refusal(why))

    # -- messages of the head ------------------------------------------------------------------

    def _handle(self, message: Message) -> None:
        match message:
            case control.Welcome(accounts=accounts, runs=runs):
                self._belong(accounts, runs)
            case Refusal(why=why):
                if not self._welcome:
                    raise _NotWanted([why])
                self._seldom.warning("the head refused a message: %s", why)
            case Restarted():
                self._greet()
            case control.Assign() | control.CarryRun():
                self._obey(message)
            case control.Unassign(run=run):
                self._executors.unassign(run)
            case control.ArchivePiece():
                self._store(message)
            case control.FinishRun():
                for told in self._carrier.finish(message):
                    self._send(told)
            case control.ReadNodeLog():
                self._send(self._executors.log(message))
            case control.Leave():
                self._be_told(message)
            case control.Bye():
                self._over = self._bye_since < _NEVER

    def _expect_accounts(self) -> None:
        """Runs may have accounts of their own: all have this node's CPUs and devices in common."""
        if not may_switch():
            _log.warning("executors do not get the accounts of users: %s", NO_SWITCH)
        elif self._accounts.group is None:
            self._accounts.group = self._owned.enter_context(common_pool())

    def _obey(self, order: control.Assign | control.CarryRun) -> None:
        """Have something opened here, unless this node leaves; an executor may have other slots."""
        there = isinstance(order, control.Assign) and self._executors.runs.get(order.run)
        if self._stopping and there != order.epoch:
            self._unable(order, f"its node leaves: {self._why}")
        elif isinstance(order, control.CarryRun):
            self._carrier.carry(order)
        else:
            # A head that listens on any address is reached at the address we found it at.
            host = endpoint_of(self._options.head).rpartition(":")[0]
            steering, experience = (
                _ANY_HOST.sub(host, end) for end in (order.steering, order.experience)
            )
            self._executors.assign(
                msgspec.structs.replace(order, steering=steering, experience=experience)
            )
        self._mark_code()

    @property
    def _needed_code(self) -> set[str]:
        return self._executors.archives | self._carrier.archives

    def _mark_code(self) -> None:
        """Keep what runs here from other daemons of this user, who remove what is not used."""
        for name in self._needed_code:
            with suppress(OSError):  # most likely it is yet to come
                os.utime(self._archives.folder / f"{name}.tar")

    def _store(self, piece: control.ArchivePiece) -> None:
        name, why = piece.archive, ""
        if piece.size:
            came = self._coming.setdefault(name, bytearray())
            if piece.offset != len(came):
                return  # both an executor and a run have asked for it
            came += piece.content
            if piece.content and len(came) < piece.size:
                self._send(control.FetchArchive(name, len(came)))
                return
            try:
                self._archives.put(name, bytes(came), self._needed_code)
            except (Refused, OSError) as error:
                why = f"its code cannot be stored: {error}"
        else:
            why = "the head has its code no longer: submit the run again"
        self._coming.pop(name, None)
        for each in (self._executors, self._carrier):
            for told in each.archive_came(name, why):
                self._send(told)

    def _belong(self, accounts: bool, runs: str) -> None:
        """The head has admitted this node."""
        _log.info("%s belongs to %s", self._options.name, self._options.head)
        self._welcome = self._answered = True
        if accounts:
            self._expect_accounts()
        if self._options.devices:
            self._look_for(runs)

    def _look_for(self, runs: str) -> None:
        """Say whether the head's folder of runs is here, too, so that runs may be carried here."""
        token = ""
        try:
            token = read_token(Path(runs), address_towards(endpoint_of(self._options.head)))
        except (Refused, OSError) as error:
            _log.warning("learners of runs do not come to the devices of this node: %s", error)
        self._send(control.Shares(token, may_switch()))

    def _greet(self) -> None:
        """Say hello to a head that does not know this node, or no longer does."""
        self._welcome, self._greeted_at = False, self._clock.now()
        self._coming.clear()
        self._executors.forget_requests()
        self._carrier.forget_requests()
        here = {"runs": self._executors.runs, "carries": self._carrier.runs}
        self._send(msgspec.structs.replace(self._hello, **here))
        if self._leaving_since < _NEVER:
            self._send(control.Leaving(self._why))

    # -- the end -------------------------------------------------------------------------------

    def _stop(self) -> None:
        """Begin to leave: the head says so, or a handler of SIGTERM or Ctrl-C does."""
        self._stopping = True
        self._waker.ring()

    def _told(self, notice: str) -> None:
        """A notice has come: leave, as on a signal. Called by another thread."""
        self._why = f"this machine is taken back: {notice}"
        self._stop()

    def _be_told(self, told: control.Leave) -> None:
        """The head says so. Its engine may have sent a signal, which does not say how soon."""
        if not self._stopping:
            self._why = told.why
        if told.seconds is not None:
            since = max(0.0, self._clock.now() - self._leaving_since)
            if since + told.seconds < self._stop_seconds:
                self._stop_seconds = since + told.seconds
                name = self._options.name
                _log.info("%s has %.1f s for leaving: %s", name, told.seconds, told.why)
        self._stop()

    def _leave(self, now: float) -> None:
        """Let the head move the actors elsewhere, close the executors that remain, say goodbye."""
        if self._leaving_since == _NEVER:
            self._leaving_since = now
            end = "actors end and their rows are sent (stop again to leave at once)"
            _log.info("%s leaves: %s; %s", self._options.name, self._why, end)
            self._send(control.Leaving(self._why))
        since, most = now - self._leaving_since, self._stop_seconds
        if not self._welcome or since > _HANDOVER * most:
            self._executors.unassign_all()
        if not self._welcome and not self._runs_told:  # else the head tells them
            self._runs_told = True
            self._carrier.finish_all()
        if since > most:
            self._executors.kill()
            self._carrier.kill()
        if not self._executors.runs and self._executors.empty and not self._carrier.runs:
            if self._bye_since == _NEVER:
                self._bye_since = now
                self._send(control.Bye())
            self._over = self._over or not self._welcome or now - self._bye_since > _FAREWELL

    def _shm_bytes(self) -> int:
        """Bytes of shared memory that executors here may have in all."""
        return max(1, shm_left() + held_bytes(self._owner) - _OWN_BYTES)


class _NotWanted(Refused):
    """The head does not want this node."""
