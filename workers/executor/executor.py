"""A run's executor on a worker: its actors here, their shared memory, and the transfer agent.

The run process steers the executor, which does for its actors what the supervisor does on one
machine. Rows and weights bypass it: they go between the transfer agent and the replay process. A
call that needs newer weights waits at the version gate until they are here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from artos.clock import Clock
from artos.errors import BadMessage, ShmTooSmall
from artos.protocol import steering
from artos.protocol.invocations import Branched, Failed, FromMember, Invoke, Ready, Waits
from artos.protocol.message import Message, Refusal, Restarted
from artos.protocol.steering import Call
from artos.runs.orders import ExecutorOrder
from artos.runs.plan import Plan
from artos.runs.run_memory import CacheMemory
from artos.runtime.held import HAND_OVER_SECONDS, Held
from artos.runtime.loop import Loop
from artos.specs.members import Member
from artos.system.faults import Faults, Seldom
from artos.system.logs import end
from artos.system.shm import free_bytes, shm_root
from artos.transport.messenger import HEAD, Messenger
from triggers.engine import MessagePasser
from triggers.passers import Mailboxes
from workers.executor.agent_host import AgentHost
from workers.executor.build import build
from workers.executor.migration import Migration
from workers.executor.node_branches import NodeBranches
from workers.executor.node_servers import NodeServers

_log = logging.getLogger(__name__)
_STOP_SECONDS = 5.0
_SHIP_SECONDS = 10.0
_ALONE_SECONDS = 60.0
"""Seconds of silence after which this executor takes the run for gone."""
_MOST_OF_A_LOG = 64 << 10  # bytes of each log that are sent at the end
_WARM_SECONDS = 20.0
"""How long actors may be kept from coming by a template that makes their processes."""
_NEWS_SECONDS = 5.0
"""Seconds between reports in which only usage has changed."""


class VersionGate:
    """Holds a call back until its weights, or any at all, are here.

    ``version()`` says which there are, and ``beside()`` which of other learners, by name.
    """

    # Whether an actor binds newer weights is decided once, by ``Binding`` in the run process. When
    # it can is only known here: weights come to a node by another way than calls, and may be later.

    def __init__(
        self,
        version: Callable[[], int],
        passers: Mapping[Member, MessagePasser[Invoke]],
        beside: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._version, self._passers, self._beside = version, passers, beside
        self._waiting: dict[Member, deque[Call]] = {}

    def send(self, call: Call) -> None:
        """Pass a call on as soon as its weights are here, after the member's earlier calls."""
        self._waiting.setdefault(call.member, deque()).append(call)
        self._let_pass(call.member)

    def release_calls(self) -> None:
        """Let calls pass whose weights have come."""
        for member in tuple(self._waiting):
            self._let_pass(member)

    def forget(self, member: Member) -> None:
        """Drop the calls of a member."""
        self._waiting.pop(member, None)

    def holds(self, member: Member) -> bool:
        """Whether calls of the member wait here."""
        return member in self._waiting

    def _let_pass(self, member: Member) -> None:
        calls, here, beside = self._waiting[member], self._version(), self._beside()
        while (
            calls
            and here >= max(0, calls[0].version)
            and all(beside.get(name, least) >= least for name, least in calls[0].others.items())
        ):
            self._passers[member].pass_message(calls.popleft().call)
        if not calls:
            del self._waiting[member]


class Executor(Loop):
    """Obeys the run process, passes on the actors' reports, and closes in order."""

    def __init__(
        self,
        order: ExecutorOrder,
        node: CacheMemory,
        messenger: Messenger,
        agent: AgentHost,
        clock: Clock,
    ) -> None:
        super().__init__(node.board, clock)
        self._order, self._node, self._messenger, self._agent = order, node, messenger, agent
        self._faults, self._seldom = Faults(), Seldom(_log)
        self._mail = Mailboxes(node.board)
        self._actors = build(node, Path(order.images), self._mail, clock, cpus=order.cpus)
        self._actors.limit_slots(order.assign.slots)
        self._reread: Callable[[], ExecutorOrder] | None = None
        self._gate = VersionGate(
            lambda: node.version, self._actors.passers, lambda: node.versions_beside
        )
        self._migration = Migration(
            self._actors, node.site.held_path, self._tell, self.child_ended, self._arrived, clock
        )
        self._servers = NodeServers(node, self._mail, self._tell)
        self._branches = NodeBranches(self._actors.branches, node.site, order.cpus, self._tell)
        self._terms: dict[int, int] = {}
        self._members_here: set[Member] = set()
        self._told: steering.ExecutorNews | None = None
        self._news_due = clock.now()
        self.closing = self._up = False
        self.why = ""
        self._given_up = False
        self.hands_over = False
        """Whether the run wants to know what actors held."""

    def run(self) -> str:
        """Serve until the executor is to close; returns why, "" if it was told to."""
        self._agent.start()
        assign, criu = self._order.assign, self._actors.criu
        up = partial(steering.ExecutorUp, self._order.node, assign.epoch, assign.slots, criu)
        self._actors.spawner.warm_up()
        self._actors.step()
        self._tell(up(warm=False))  # now that it waits for nothing that has no deadline
        self._up_by = self._clock.now() + _WARM_SECONDS
        self.serve(lambda: self.closing, lambda: self._announce(up(warm=True)))
        return self.why

    def _announce(self, up: steering.ExecutorUp) -> None:
        """Once actors can be at work here: until then they are elsewhere."""
        if self._up or not (self._actors.spawner.warm or self._clock.now() >= self._up_by):
            return
        self._up = True
        self._tell(up)
        self._migration.memories.let_in()

    def close_soon(self) -> None:
        """Close in order, from within the loop. Safe in a signal handler."""
        self.closing = True
        self._board.doorbell.ring()

    def give_up(self) -> None:
        """As ``close_soon``, for a run that has been restarted. Safe in a signal handler."""
        self._given_up = True
        self.close_soon()

    def order_changed(self, read: Callable[[], ExecutorOrder]) -> None:
        """Obey the order that ``read`` returns, from within the loop. Safe in a signal handler."""
        self._reread = read
        self._board.doorbell.ring()

    @property
    def abandoned(self) -> bool:
        """Whether the run no longer wants the rows and logs that are still here."""
        return self._given_up or bool(self.why)

    def _tell(self, message: Message) -> None:
        self._messenger.send(HEAD, message)

    # -- messages of the run process -----------------------------------------------------------

    def _take_mail(self) -> None:
        if self._reread is not None:
            read, self._reread = self._reread, None
            self._actors.limit_slots(read().assign.slots)
        self._actors.take_slots()
        for _, message in self._messenger.take():
            with self._faults.contained(type(message).__name__, self._refuse):
                try:
                    self._obey(message)
                except BadMessage as error:
                    self._mail.malformed += 1
                    self._refuse(error.why)

    def _refuse(self, why: str) -> None:
        self._tell(Refusal(why))

    def _obey(self, message: Message) -> None:
        match message:
            case steering.Start() | steering.Prepare():
                self._bring_up(message)
            case steering.Call(member=member) if member in self._members_here:
                self._migration.remove_bundle(member)
                self._gate.send(message)
            case steering.End():
                self._take_down(message)
            case (
                steering.Pack() | steering.ReadPiece() | steering.BundlePiece()
                | steering.HeldState() | steering.PackMemory() | steering.TakeMemory()
            ):  # fmt: skip
                self._carry(message)
            case steering.Retire(member=member) if member in self._members_here:
                self._actors.retire(member)
            case steering.BranchActor(member=member):
                self._check_is_actor(member)
                here = member in self._members_here
                if here:
                    self._migration.remove_bundle(member)  # it stays, as one that is called does
                self._branches.ask(message, here=here)
            case steering.CloseExecutor(hand_over=hand_over):
                self.closing, self.hands_over = True, hand_over
            case Restarted():
                self.closing, self.why = True, "the run does not know this executor any more"
            case Refusal(why=why):
                self._seldom.warning("the run refused a message: %s", why)
            case steering.Call() | steering.Retire():
                pass  # for an actor that has been ended
            case _:
                raise BadMessage(f"an executor does not accept {type(message).__name__}")

    def _bring_up(self, message: steering.Start | steering.Prepare) -> None:
        member = message.member
        if member in self._servers and isinstance(message, steering.Start):
            self._servers.start(member, message.term)
            return
        self._check_is_actor(member)
        if isinstance(message, steering.Start) or message.bundle:
            self._end(member)
        try:
            actor = message.member.rank
            if self._terms.get(actor) != message.term:
                self._node.open(actor, message.term, message.base)
                self._terms[actor] = message.term
                self._agent.terms(self._terms)
            self._members_here.add(message.member)
        except ShmTooSmall as error:  # the head places elsewhere those that do not fit
            self._take_down(steering.End(member, leaves=True))  # its earlier block is gone
            self.closing, self.why = True, str(error)
            return
        if message.bundle:
            self._migration.fetch(member, message.bundle, held=message.held, memory=message.memory)
        elif isinstance(message, steering.Start):
            self._actors.start(member)
        else:
            self._actors.prepare(member, message.within)

    def _take_down(self, message: steering.End) -> None:
        member = message.member
        if member in self._servers:
            self._servers.end(member)
            return
        self._check_is_actor(member)
        self._end(member)
        self._node.site.held_path(member).unlink(missing_ok=True)
        if message.leaves:
            self._terms.pop(member.rank, None)
            self._agent.terms(self._terms)
            self._node.shut(member.rank)

    def _check_is_actor(self, member: Member) -> None:
        members = self._board.members
        if member not in members or not members.role(member).samples:
            raise BadMessage(f"an executor runs actors of its run, not {member}")

    def _carry(
        self,
        message: steering.Pack
        | steering.ReadPiece
        | steering.BundlePiece
        | steering.HeldState
        | steering.PackMemory
        | steering.TakeMemory,
    ) -> None:
        match message:
            case steering.HeldState(member=member, content=content):
                self._check_is_actor(member)
                try:
                    Held(bytes(content)).write(self._node.site.held_path(member))
                except OSError:  # the head places elsewhere those that do not fit
                    root = shm_root()
                    too_small = ShmTooSmall(len(content), free_bytes(root), str(root))
                    self.closing, self.why = True, str(too_small)
            case steering.Pack(member=member, number=number) if member not in self._members_here:
                self._tell(steering.Packed(number, "the actor does not live here"))
            case steering.Pack():
                self._migration.pack(message)
            case steering.ReadPiece():
                self._migration.send_piece(message)
            case steering.BundlePiece():
                self._migration.take_piece(message)
            case steering.PackMemory(number=number):
                self._migration.memories.pack(number)
            case steering.TakeMemory(number=number):
                self._migration.memories.fetch(number)

    def _end(self, member: Member) -> None:
        self._members_here.discard(member)
        self._gate.forget(member)
        self._migration.forget(member)
        if member.rank in self._node.blocks:
            self._actors.branches.lost(member, stays=False)
            self._actors.end(member)

    # -- events of actors ----------------------------------------------------------------------

    def _changed(self, member: Member) -> None:
        role = self._board.members.role(member)
        if role.publishes:  # in its name the agent says that weights have come
            self._gate.release_calls()
            return
        if member in self._servers:
            self._servers.changed(member)
            return
        if role.samples:
            self._agent.nudge()
        for message in self._actors.reports(member):
            with self._faults.contained(f"{type(message).__name__} from {member}"):
                self._pass_on(member, message)

    def _pass_on(self, member: Member, told: FromMember) -> None:
        if member not in self._members_here or isinstance(told, Waits | Branched):
            return  # only a learner waits for what is not its process manager's
        written = self._node.blocks[member.rank].written
        self._tell(steering.ActorReport(member, self._terms[member.rank], told, written))
        if isinstance(told, Failed):
            self._end(member)  # now, so that its death is not reported as well

    def _follow_children(self) -> None:
        for member, death in self._actors.deaths():
            self._changed(member)  # the reports it still made come first
            if member in self._members_here:
                self._end(member)
                written = self._node.blocks[member.rank].written
                self._agent.nudge()
                term = self._terms[member.rank]
                self._tell(
                    steering.Died(
                        member, term, death.why, death.step, death.own, death.fatal, written
                    )
                )
        self._servers.follow()
        self._migration.advance()
        self._agent.reap()

    def _arrived(self, member: Member, seconds: float) -> None:
        """Report an actor from another node as ready: as a restored process it does not do so."""
        incarnation = self._node.blocks[member.rank].incarnation
        self._pass_on(member, Ready(seconds, incarnation, "moved"))

    def _tick(self) -> None:
        self._actors.tick()
        self._gate.release_calls()
        if self._messenger.silent().get(HEAD, 0.0) > _ALONE_SECONDS:
            self.closing, self.why = True, f"no message from the run for {_ALONE_SECONDS:g} s"
        now, news = self._clock.now(), self._news()
        told = self._told
        if self._up and (
            told is None
            or now >= self._news_due
            or (news.waits_for_slot, news.written) != (told.waits_for_slot, told.written)
        ):
            self._told, self._news_due = news, now + _NEWS_SECONDS
            self._tell(news)

    def _news(self) -> steering.ExecutorNews:
        waiting = [
            m
            for m in self._members_here
            if self._gate.holds(m) or self._actors.waits_for_slot(m) or not self._servers.all_ready
        ]
        written = {m.rank: self._node.blocks[m.rank].written for m in self._members_here}
        return steering.ExecutorNews(
            self._usage(),
            tuple(sorted(waiting)),
            written,
            self._agent.wire_bytes,
            self._faults.count + self._messenger.faults.count + self._agent.faults,
            self._mail.malformed + self._messenger.malformed + self._agent.malformed,
        )

    def _usage(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self._actors.usage())

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Let actors end, ship their committed rows, report; no process of theirs is left."""
        self._migration.close()
        self._actors.tell_to_stop(hand_over=self.hands_over)
        self._actors.stop(HAND_OVER_SECONDS if self.hands_over else _STOP_SECONDS)
        self._servers.stop(_STOP_SECONDS)  # they answered actors to their last step
        for member in tuple(self._members_here):
            self._node.blocks[member.rank].recover()
            for told in self._mail.take(member):
                self._pass_on(member, told)
        unsent = self._agent.finish(0.0 if self.abandoned else _SHIP_SECONDS)
        for member in self._members_here if self.hands_over else ():
            if (held := Held.read(self._node.site.held_path(member))) is None:
                continue
            held = held.to_send(self._node.plan.actors)
            if rows := unsent.get(member.rank):  # without these its episode would have a gap
                held = Held(why=f"{rows} of its rows did not arrive")
            term = self._terms[member.rank]
            self._tell(steering.HeldState(member, term, held.why, held.data))
        self._tell(self._news())
        if not self.abandoned:
            for log in sorted(Path(self._order.logs).glob("*.log")):
                with self._faults.contained(f"sending {log.name}"):
                    self._tell(steering.ExecutorLog(log.stem, end(log, _MOST_OF_A_LOG)))
        self._tell(steering.ExecutorClosed(self._usage(), unsent))

    def kill(self) -> None:
        """End actors, servers and transfer agent at once."""
        self._migration.close()
        self._actors.stop(0.0)
        self._servers.stop(0.0)
        self._agent.stop()


def local_plan(encoded: bytes, there: str, here: str) -> Plan:
    """The plan, with all paths below the head's folder ``there`` moved to the folder ``here``."""
    plan = msgspec.json.decode(encoded)
    return msgspec.convert(_moved(plan, there, here) if there and here else plan, Plan)


def _moved(value: Any, there: str, here: str) -> Any:
    if isinstance(value, dict):
        return {key: _moved(item, there, here) for key, item in value.items()}
    if isinstance(value, list):
        return [_moved(item, there, here) for item in value]
    if isinstance(value, str) and (value == there or value.startswith(f"{there}/")):
        return here + value[len(there) :]
    return value
