"""``artos head``: one daemon per cluster that keeps track of nodes and places runs on them."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import msgspec

from artos.buffer.shm_folder import reap_orphans
from artos.clock import Clock, SystemClock
from artos.errors import MailboxFull, Refused
from artos.pool.common import common_pool
from artos.protocol import control
from artos.protocol.message import Message, Refusal, Restarted
from artos.protocol.run_state import QUEUED, STARTING
from artos.protocol.usage import flat
from artos.protocol.views import RunFacts
from artos.runs.exit_status import ExitStatus
from artos.runs.shared_runs import write_token
from artos.runtime.loop import Waker
from artos.system.account import as_owner, may_switch
from artos.system.archives import Archives
from artos.system.child_modules import ChildModule
from artos.system.closing import Closing
from artos.system.faults import Faults, Seldom
from artos.system.machine import boot_id
from artos.system.signals import CLOSE, StopRequests
from artos.transport.keys import HeadKeys
from artos.transport.messenger import Messenger
from artos.transport.roles import foreign
from artos.version import VERSION
from head.daemon.client_api import ClientApi
from head.daemon.effects import Begin, Effect, Finish, Kill, Order, Tell
from head.daemon.options import HeadOptions, see_quotas
from head.daemon.roster import Node, Roster
from head.daemon.run import Run
from head.daemon.run_host import Ended, RunHost
from head.daemon.run_lines import RunLines, of_run, process_of
from head.daemon.scheduler import Scheduler
from head.daemon.state import HeadState
from head.daemon.store import Store
from head.daemon.unsaved import Table, Unsaved
from head.daemon.user_accounts import OwnRuns, UserAccounts
from head.records import summary_file

_log = logging.getLogger(__name__)
_TICK = 0.5
_STOPPED = 2.0
"""Seconds beyond a tick after which this process was stopped: what was sent is not read yet."""
_SETTLED = 1.0
_ONE_REQUEST = 1.0
"""Seconds within which signals are one request to stop, where an engine ends a whole job."""
_LOOK = 5.0
"""Seconds between two looks at whether another head has taken over."""
_MOST_A_TURN = 100
"""Most messages handled before their changes are saved: many share one commit, none waits long."""

_OF_WORKERS = (
    control.LogPiece,
    control.ExecutorEnded,
    control.RunEnded,
    control.Shares,
    control.Leaving,
    control.Bye,
    Restarted,
)
"""What is taken from worker daemons only, while their node is there."""


class HeadDaemon(Closing):
    """The head of a cluster. It sleeps until a worker, a run, a user or a signal wakes it.

    Its decisions are saved before they are carried out, so a head that was killed and started again
    continues from there. Workers and runs go on without a head.
    """

    def __init__(
        self, options: HeadOptions, clock: Clock | None = None, run_process: str = ChildModule.RUN
    ) -> None:
        self._options, self._clock = options, clock or SystemClock()
        self._faults, self._seldom = Faults(), Seldom(_log)
        self._keys = keys = HeadKeys.load(options.keys)
        with ExitStack() as stack:
            self._waker = stack.enter_context(Waker())
            opened, ring = stack.enter_context, self._waker.ring
            # Before there is a folder, which would be left behind by a head that cannot listen.
            self._messenger = opened(Messenger.serve(options.listen, keys, ring, self._clock))
            self._head_state = head_state = opened(HeadState(options.runs.resolve()))
            self._store, self._unsaved = opened(Store(head_state.folder)), Unsaved()
            state = self._store.load().on(boot := boot_id())
            self._unsaved.put(Table.BOOT, "", boot)
            self._archives = Archives(head_state.folder / "code")
            self._roster = Roster(VERSION, self._clock, options.deadline, self._unsaved)
            self._roster.expect(state.nodes)
            see_quotas(options, state)
            self._token = write_token(head_state.runs)
            self._scheduler = Scheduler(
                state.runs, state.queue, self._clock.now(), options.quotas, state.spent,
                self._unsaved, options.at_once, options.devices_here,
            )  # fmt: skip
            self._scheduler.expect(self._roster)
            others = {run.account for run in state.runs if run.account and not run.over}
            switches = bool(options.accounts or others) and may_switch()
            group = opened(common_pool()) if switches else None
            self._accounts = opened(UserAccounts(options.accounts, head_state.runs, others, group))
            self._inside = opened(
                Messenger.serve(
                    head_state.socket, None, ring, self._clock,
                    OwnRuns(self._accounts, self._account_of), self._accounts.doors,
                )
            )  # fmt: skip
            orders, where = head_state.folder / "orders", options.keys.resolve()
            self._host = opened(
                RunHost(
                    orders, self._archives, head_state.socket, options.host, where, run_process,
                    self._accounts, self._to_node,
                )
            )  # fmt: skip
            self._lines = RunLines(self._inside, self._messenger)
            self._client_api = ClientApi(
                self._scheduler, self._roster, self._host, self._archives, options, self._clock,
                self._messenger, self._inside, self._lines, self._faults, self._accounts,
            )  # fmt: skip
            self._dirty, self._next_tick = True, self._clock.now()
            self._due: list[Effect] = []
            self._unsavable = ""
            self._stopping, self._stop_at = False, float("inf")
            self._gave_way = False
            self._tidy_at = self._clock.now()
            self.endpoint = self._messenger.endpoint
            # Find the run processes that an earlier head started, and how the others ended.
            for run in [run for run in self._scheduler.runs.values() if run.active]:
                with self._faults.contained(f"run {run.name}", partial(self._give_up, run.name)):
                    if self._host.adopt(run):
                        _log.info("run %s goes on", run.name)
                    else:
                        self._run_ended(self._host.ended(run))
            self._hear_carried()
            self._owned = stack.pop_all()

    def close(self) -> None:
        """Release everything; workers and runs go on. May be called twice."""
        active = any(run.active for run in self._scheduler.runs.values())
        self._head_state.needed = self._gave_way or active
        self._owned.close()

    def run(self, successor: Callable[[], str] = str) -> None:
        """Serve until SIGTERM or Ctrl-C has come and all runs have saved.

        Or until there is a ``successor``: while this machine was cut off, an engine has started
        another head, whose the runs and their folders are now.

        Raises:
            KeyboardInterrupt: after a second signal; the processes of runs live on.
        """
        settle, look_at = _ONE_REQUEST if self._options.end_file else 0.0, self._clock.now()
        with StopRequests(settle=settle) as requests, requests.draining(self._stop):
            _log.info(
                "the head listens at %s, runs are in %s", self.endpoint, self._head_state.runs
            )
            for warning in self._accounts.warnings(self._options.keys):
                _log.warning("%s", warning)
            now = self._clock.now()
            while not (self._stopping and not self._host.runs):
                before = now
                self._waker.wait(_TICK, [self._host.fileno()])
                now = self._clock.now()
                if (stopped := now - before - _TICK) > _STOPPED:
                    _log.warning("the head was stopped for %.1f s, or had no CPU", stopped)
                    self._roster.excuse(stopped)
                    self._scheduler.starts.count_anew(now)
                if now >= look_at:
                    look_at = now + _LOOK
                    if other := successor():
                        _log.error("the head at %s has taken over: this one ends", other)
                        self._gave_way = True
                        self._host.kill_here()
                        return
                with requests.undisturbed():
                    self.turn()
            self._save()

    def turn(self) -> None:
        """Take the messages that have come, and do everything that is due."""
        self._take(self._messenger, self._from_outside)
        self._take(self._inside, self._from_run)
        self._dirty |= self._client_api.serve(self._save)
        for run in self._host.gone():
            with self._faults.contained(f"the end of run {run}", partial(self._give_up, run)):
                self._run_ended(self._host.ended(self._scheduler.runs[run]))
        now = self._clock.now()
        if self._stopping and self._stop_at == float("inf"):
            self._stop_at = now + self._options.stop_seconds
            end_file = self._options.end_file
            later = end_file is not None and not end_file.exists()
            then = "go on with the next head" if later else "end"
            _log.info("stopping: runs save and %s (a second signal: they live on)", then)
            self._scheduler.stop_all(self._host.runs, later=later)
            self._dirty = True
        elif now >= self._stop_at:
            for run in self._host.runs:
                seconds = self._options.stop_seconds
                _log.warning("run %s did not end within %g s: killed", run, seconds)
                self._host.signal(run, signal.SIGKILL)
        if now >= self._next_tick:
            self._next_tick = now + _TICK
            self._roster.heard(self._messenger.silent(), self._messenger.ended())
            with self._faults.contained("answers to users"):
                self._client_api.pending.drop_overdue()
            with self._faults.contained("tidying up"):
                if now >= self._tidy_at:  # a killed run process has left its shared memory
                    self._tidy_at = float("inf")
                    reap_orphans()
                    for account in self._accounts.all:
                        with account.acting():
                            reap_orphans()
                self._host.cap_logs()
            gone: dict[str, list[str]] = {}
            for node in self._roster.late():
                gone.setdefault(self._roster.why_late(node), []).append(node.name)
                self._messenger.forget(node.peer)  # a node that comes back says Hello
            for why, names in gone.items():
                _log.warning("gone (%s): %s", why, ", ".join(names))
                self._nodes_gone(names, why)
        elif not self._dirty:
            return
        self._decide(now)

    def _take(self, messenger: Messenger, handle: Callable[[str, Message], None]) -> None:
        # What a run process on a node said before its end is another peer's: it comes first.
        came = sorted(
            messenger.take(_MOST_A_TURN), key=lambda each: isinstance(each[1], control.RunEnded)
        )
        if len(came) == _MOST_A_TURN:  # more may wait; what these changed is saved first
            self._waker.ring()
        for peer, message in came:
            try:
                handle(peer, message)
            except Exception as error:
                what = f"{type(message).__name__} from {peer}"

                def refuse(why: str, peer: str = peer) -> None:
                    messenger.send(peer, Refusal(why))

                self._faults.add(what, error, refuse)

    def _decide(self, now: float) -> None:
        effects: list[Effect] = []
        hold = f"room on the head's disk ({self._unsavable})" if self._unsavable else ""
        if self._stopping:
            hold = "the next start of the head, which is stopping"
        with self._faults.contained("the schedule"):
            effects = self._scheduler.turn(now, hold=hold)
        if self._dirty or effects:
            self._dirty = False
            self._due += effects
            due, self._due = self._due, []
            if self._save():  # a full disk must not stop the cluster; but no run begins twice
                self._due = [effect for effect in due if isinstance(effect, Begin)]
                due = [effect for effect in due if not isinstance(effect, Begin)]
            for effect in due:
                match effect:
                    case Begin(run=run):
                        self._begin(run.name)
                    case Tell(run=run, message=message):
                        with self._faults.contained(f"a message to run {run.name}"):
                            self._lines.send(run, message)
                    case Finish(run=run):
                        _log.info(
                            "run %s is to save%s",
                            run.name,
                            "" if run.goes_on else f" and end: {run.why or 'it is stopped'}",
                        )
                        self._host.signal(run.name, CLOSE)
                    case Kill(run=run, why=why):
                        _log.warning("run %s: %s", run.name, why)
                        self._host.signal(run.name, signal.SIGKILL)
                    case Order(node=node, message=message):
                        self._to(node.peer, message)
            self._hear_carried()

    def _hear_carried(self) -> None:
        """Accept the keys of runs that worker nodes carry, or carried until they were given up."""
        runs = self._scheduler.all_runs
        active = [runs.by_name[name] for name in runs.active]
        self._keys.hear({run.keys.head: run.name for run in active if run.keys})

    def _give_up(self, run: str, why: str) -> None:
        """Record that a run has failed, as its process cannot be started or followed."""
        self._host.drop(run)
        if run in self._scheduler.runs:
            self._run_ended(Ended(run, 1, why))
        self._waker.ring()

    def _save(self) -> str:
        """Save what has changed; returns why it cannot be saved, "" if it is."""
        before, self._unsavable = self._unsavable, ""
        try:
            self._store.save(self._unsaved)
        except (OSError, ValueError) as error:
            found = error.strerror if isinstance(error, OSError) else None
            self._unsavable, self._dirty = found or str(error), True  # tried again with every tick
        if self._unsavable and self._unsavable != before:
            _log.warning("the state cannot be saved: %s; make room: no run begins", self._unsavable)
        elif before and not self._unsavable:
            _log.info("the state is saved again")
        return self._unsavable

    def _begin(self, name: str) -> None:
        with self._faults.contained(f"the start of run {name}", partial(self._give_up, name)):
            run = self._scheduler.runs[name]
            if run.state == QUEUED or name in self._host.runs:
                return  # its node was lost while this could not be saved: it begins elsewhere
            try:
                if run.state == STARTING:
                    self._host.begin(run, self._scheduler.all_runs.archives)
                    return
                ended = Ended(name, ExitStatus.INTERRUPTED, "it was stopped before it began")
            except Refused as refused:
                ended = Ended(name, ExitStatus.REFUSED, str(refused))
            self._run_ended(ended)
            self._waker.ring()

    def _to_node(self, name: str, message: Message) -> None:
        """Send a message to the daemon of a node, if it is there."""
        if (node := self._roster.get(name)) and node.peer:
            self._to(node.peer, message)

    def _to(self, peer: str, message: Message) -> None:
        try:
            self._messenger.send(peer, message)
        except MailboxFull:  # it lost this one: if it lives it learns that, and says Hello again
            self._messenger.forget(peer)

    # -- workers and users ---------------------------------------------------------------------

    def _from_outside(self, peer: str, message: Message) -> None:
        match message:
            case _ if of_run(peer):
                self._from_carried(peer, message)
            case control.Load():
                self._roster.load(peer, message)
            case control.Hello():
                self._admit(peer, message)
            case control.UserRequest() | control.Archive():
                self._client_api.take_request(peer, message)
            case control.FetchArchive(archive=name, offset=offset):
                content, size = self._archives.piece(name, offset)
                self._to(peer, control.ArchivePiece(name, offset, size, content))
            case Refusal(why=why):
                self._seldom.warning("%s refused a message: %s", peer, why)
            case _ if isinstance(message, _OF_WORKERS):
                if node := self._roster.of(peer):
                    self._from_worker(node, message)
                # Else from a worker that is gone; if it is alive it says Hello again.
            case _:
                why = f"the head takes no {type(message).__name__} from users or workers"
                self._to(peer, Refusal(why))

    def _from_worker(self, node: Node, message: Message) -> None:
        """Take what a worker daemon says about its node and what is there."""
        match message:
            case control.LogPiece():
                self._client_api.logs.take_piece(node.name, message)
                return
            case Restarted():  # it lost what it was told: it learns that, and says Hello again
                self._messenger.forget(node.peer)
            case control.ExecutorEnded(run=run, why=why):
                if why:
                    _log.warning("the executor of %s on %s ended: %s", run, node.name, why)
                self._scheduler.executor_ended(node, message, self._clock.now())
            case control.RunEnded(run=run, epoch=epoch):
                found = self._host.carried.get(run)
                if found and (found.carrier, found.epoch) == (node.name, epoch):
                    self._run_ended(self._host.ended(found, message))
            case control.Shares(token=token, switches=switches):
                here = token == self._token
                self._scheduler.carriers.said(node, shares=here, switches=switches)
            case control.Leaving(why=why):
                _log.info("worker %s leaves: %s", node.name, why)
                self._roster.leave(node.name, why)
                self._scheduler.leaves(node.name, f"node {node.name} leaves: {why}")
            case control.Bye():
                _log.info("worker %s said goodbye", node.name)
                self._nodes_gone([node.name], "it said goodbye")
                self._roster.remove(node.name)
                self._due.append(Order(node, control.Bye()))
        self._dirty = True

    def _admit(self, peer: str, hello: control.Hello) -> None:
        old = self._roster.get(hello.node)
        before = old.peer if old is not None and old.alive else ""
        refused, node = foreign(peer, hello.node), None
        if not refused:
            try:
                node = self._roster.admit(peer, hello)
            except Refused as error:
                refused = str(error)
        if node is None:
            self._seldom.warning("refused %s: %s", peer, refused)
            self._to(peer, Refusal(refused))
            return
        if before not in ("", peer):
            why = f"the worker daemon of {node.name} was restarted"
            self._nodes_gone([node.name], why)
            self._messenger.forget(before)
        most = (node.slots, node.most_runs)
        _log.info("worker %s joined with %d slots for at most %d runs", node.name, *most)
        welcome = control.Welcome(
            control.PROTOCOL, VERSION, self._options.deadline, bool(self._accounts),
            str(self._head_state.runs),
        )  # fmt: skip
        self._due += [Order(node, welcome), *self._scheduler.joined(node, hello)]
        there = {r.name: r for r in self._host.carried.values() if r.carrier == node.name}
        for name, epoch in hello.carries.items():
            if name not in there or there.pop(name).epoch != epoch:
                self._due.append(Order(node, control.FinishRun(name, epoch, at_once=True)))
        for run in there.values():
            self._run_ended(self._host.ended(run))
        self._dirty = True

    def _nodes_gone(self, names: Sequence[str], why: str) -> None:
        """What lived on these nodes goes on elsewhere."""
        self._dirty = True
        for run in [run for run in self._host.carried.values() if run.carrier in names]:
            _log.warning("run %s goes on elsewhere: node %s is gone", run.name, run.carrier)
            del self._host.carried[run.name]
            self._forget_process(run)
        self._scheduler.gone(names, why)

    # -- runs ----------------------------------------------------------------------------------

    def _from_carried(self, peer: str, message: Message) -> None:
        """Take a message of a run process on a worker node, whose key vouches for its run only."""
        name, epoch = process_of(peer)
        run = self._host.carried.get(name)
        about = message.run if isinstance(message, control.RunUp | control.RunNews) else name
        if run and run.epoch == epoch and about == name:
            self._from_run(name, message)
        elif isinstance(message, control.RunUp | control.RunNews):
            # Its node was given up, but it lives: it is in the way of the process that goes on.
            self._to(peer, control.FinishRun(name, epoch, at_once=True))

    def _from_run(self, name: str, message: Message) -> None:
        def refuse(why: str) -> None:
            if run := self._scheduler.runs.get(name):
                self._lines.send(run, Refusal(why))
            else:
                self._inside.send(name, Refusal(why))

        match message:
            case control.RunNews():
                self._dirty |= self._scheduler.run_news(message, self._clock.now())
            case control.RunUp():
                run = self._scheduler.runs.get(message.run)
                is_new = run is not None and run.up is None  # this process was not up before
                if not self._scheduler.run_up(message):
                    refuse(f"the head knows of no run {message.run} of epoch {message.epoch}")
                elif is_new:
                    self._client_api.scale_again(self._scheduler.runs[message.run])
                self._dirty = True
            case control.RunScaled() | control.RunSet():
                self._client_api.changed(name, message)
            case Refusal(why=why):
                self._seldom.warning("run %s refused a message: %s", name, why)
            case Restarted():
                pass  # the run will send RunUp
            case _:
                refuse(f"the head takes no {type(message).__name__} from a run")

    def _account_of(self, run: str) -> str:
        """The account of a run; a messenger asks, in its own thread."""
        found = self._scheduler.runs.get(run)
        return found.account if found else ""

    def _run_ended(self, ended: Ended) -> None:
        run = self._scheduler.runs[ended.run]
        # The run's last report may be old, as the head was away: its summary is not. If it is
        # damaged, users are told so who ask for the status.
        with suppress(Refused), as_owner(Path(run.folder)):
            found = summary_file.read(Path(run.folder))
            if found and found[1].epoch == run.epoch:
                known = run.facts or RunFacts()
                run.reported(msgspec.structs.replace(known, usage=flat(found[1].usage)))
        self._scheduler.run_ended(ended.run, ended.status, ended.words)
        self._forget_process(run)
        if ended.status is None or ended.status < 0:
            self._tidy_at = self._clock.now() + _SETTLED
        outcome = run.outcome or "to be started again"
        _log.info("run %s: %s (%s)", run.name, outcome, ended.words)
        self._dirty = True

    def _forget_process(self, run: Run) -> None:
        self._lines.forget(run)
        self._client_api.pending.give_up(f"run {run.name}")

    # -- the end -------------------------------------------------------------------------------

    def _stop(self) -> None:
        """Handle SIGTERM or Ctrl-C."""
        self._stopping = True
        self._waker.ring()
