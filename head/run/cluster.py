"""A run on a cluster: coordinator, learner and replay buffer here, the actors on worker nodes.

``ClusterRun`` does on a cluster what ``OneMachine`` does on one machine, with the same loop,
coordinator and learner. It has no actor processes: they belong to the executors.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import msgspec

from artos.clock import Clock, Deadline
from artos.errors import ArtosError, BadMessage
from artos.protocol import control, steering
from artos.protocol.invocations import Branch, Done
from artos.protocol.message import Refusal, Restarted
from artos.protocol.usage import Usage
from artos.protocol.views import LagView, RunFacts, Status
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory, cached_bytes
from artos.runtime.held import Held
from artos.runtime.preload import Preloaded
from artos.specs.members import Member
from artos.system.exit_report import ExitReport
from artos.system.faults import Faults, Seldom
from artos.transport.keys import Keys
from artos.transport.messenger import HEAD, Messenger
from head.run.collected_logs import CollectedLogs
from head.run.concerns.relocation import Relocation
from head.run.remote.bundles import Bundles
from head.run.remote.memories import Memories
from head.run.remote.remote_actors import RemoteActors
from head.run.replay_host import ReplayHost
from head.run.run import Run
from head.run.supervisor import STOP_SECONDS, Supervisor
from triggers.passers import Mailboxes

_log = logging.getLogger(__name__)
_CLOSE_SECONDS = 20.0
"""How long executors may take to ship their last rows and to report."""
_ON_NODES = "it answers on each node, by random streams of its own there"


@dataclass(frozen=True)
class RunAddress:
    """A run's name on its cluster, its folders, and where its sockets are."""

    run: str
    epoch: int
    code: str
    """The folder of the user's code on this node."""
    bundles: Path
    """The folder for bundles."""
    host: str
    """The head's address as workers see it."""
    keys: Path | None
    """The folder of the cluster's keys; None: Unix sockets only."""


class ClusterRun(Supervisor):
    """The members of a run, its actors on worker nodes, and the loop that serves them.

    ``plan`` is the workers' plan. ``head`` is the connection to the head daemon, which decides
    where actors live.
    """

    def __init__(
        self,
        node: RunMemory,
        plan: Plan,
        address: RunAddress,
        head: Messenger,
        clock: Clock,
        undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
        preloaded: Preloaded | None = None,
        states: bytes = b"",
    ) -> None:
        self._cache_plan, self._address, self._head = plan, address, head
        for block in node.blocks.values():
            block.incarnation = 0  # rows of an earlier part of the run are of no place of this one
        self._faults, self._seldom = Faults(), Seldom(_log)
        keys = Keys.load(address.keys) if address.keys else None
        endpoint = f"tcp://{address.host}:*" if keys else f"ipc://{node.site.folder}/steering"
        self._steering = Messenger.serve(endpoint, keys, node.board.doorbell.ring)
        self._replay = ReplayHost(
            node.site, node.plan_file, address.keys, address.host, clock, address.epoch,
            node.plan.elastic.wire_dtype,
        )  # fmt: skip
        numbers = count(1)
        self._bundles = Bundles(address.bundles, self._steering.send, clock, numbers)
        self._memories = Memories(address.bundles / "memories", self._steering.send, clock, numbers)
        self._remote = RemoteActors(
            node.blocks,
            address.epoch,
            self._steering,
            self._replay.terms,
            self._silence,
            self._bundles,
            self._memories,
            node.site.held_path,
            clock,
            partial(_weights, node.plan),
            node.plan.members.servers,
        )
        mail = Mailboxes(node.board)
        super().__init__(node, mail, self._remote, clock, undisturbed, preloaded, states)
        self._logs = CollectedLogs(
            Path(node.site.logs), plan.actors, map(str, node.plan.members.servers)
        )

    def _silence(self, node: str) -> float:
        return self._steering.silent().get(node, 0.0)

    def facts(self, status: Status) -> RunFacts:
        """What is reported to the head: the status, and what only a run on a cluster has."""
        self._remote.emptied = False
        lags = self._coordinator.monitor.lag_by_actor()
        devices = self._coordinator.monitor.devices
        return RunFacts(
            **msgspec.structs.asdict(status),
            nodes=self._remote.placement_view.places(),
            leases={learner: use.name for learner, use in devices.items() if use.name},
            bytes_moved=self._replay.wire_bytes,
            actors=len(self._coordinator.actors),
            lag_by_actor={str(actor): LagView(**lag) for actor, lag in lags.items()},
            faults=self._faults.count + self._steering.faults.count + self._head.faults.count
            + self._remote.nodes.faults + self._replay.faults,
            malformed=self._mail.malformed + self._steering.malformed + self._head.malformed
            + self._remote.nodes.malformed + self._replay.malformed,
        )  # fmt: skip

    @property
    def emptied(self) -> bool:
        """Whether a node has lost its last actor since ``facts`` were asked for: it may leave."""
        return self._remote.emptied

    def waits_for(self) -> str:
        """What actors without a place wait for; "" if all actors have a place."""
        return self._remote.placement_view.waits(self._coordinator.actors)

    @property
    def draining(self) -> bool:
        """Whether the run is finishing before its budget is spent."""
        return self._coordinator.ending.draining

    def usage(self) -> Usage:
        """What the actors used so far."""
        nodes = self._remote.nodes
        wire_bytes = self._replay.wire_bytes
        return msgspec.structs.replace(
            nodes.usage(), bytes_moved=wire_bytes, nodes=tuple(sorted(nodes.seen))
        )

    def waits_for_slot(self, member: Member) -> bool:
        """Whether an actor waits on its node for a slot, or for its process."""
        return self._remote.placement_view.waits_for_slot(member)

    def unplaced(self, member: Member) -> str:
        """What a member without a place waits for; "" for all others."""
        remote = self._remote
        return remote.servers.unplaced(member) or remote.placement_view.unplaced(member)

    # -- the loop ------------------------------------------------------------------------------

    def _begin(self, coordinator: Run) -> None:
        self._replay.start()
        # Only then is it known up to where there are rows of each actor.
        goes_on = self._handover.begin(coordinator, [*self._hosts])
        self._remote.begin(coordinator.concern(Relocation))
        self._remote.step()
        self._announce()
        if not goes_on:
            coordinator.begin()

    def _announce(self) -> None:
        address = self._address
        plan = msgspec.json.encode(self._cache_plan)
        self._head.send(
            HEAD,
            control.RunUp(
                address.run, address.epoch, os.getpid(), plan, address.code,
                self._steering.endpoint, self._replay.endpoint, self._cache_plan.actors,
                *cached_bytes(self._cache_plan),
            ),
        )  # fmt: skip

    def _take_mail(self) -> None:
        for _, message in self._head.take():
            with self._faults.contained(type(message).__name__, self._refuse, passing=ArtosError):
                match message:
                    case control.Placed():
                        self._remote.placed(message)
                        self._coordinator.limited(message.quota)
                        for node in message.gone:
                            self._steering.forget(node)
                    case control.ScaleRun(request=number) | control.SetRun(request=number):
                        reply = self._change(message)
                        self._head.send(HEAD, msgspec.structs.replace(reply, request=number))
                    case Restarted():
                        self._announce()
                    case control.FinishRun():  # the head has given up this node
                        raise KeyboardInterrupt
                    case Refusal(why=why):
                        self._seldom.warning("the head refused a message of ours: %s", why)
        self._take_executor_mail()
        for member, report in self._remote.reports():
            refuse = partial(self._refuse_to, self._remote.node_of(member))
            what = f"{type(report).__name__} of {member}"
            with self._faults.contained(what, refuse, passing=ArtosError):
                if isinstance(report, ExitReport):
                    self._coordinator.died(member, report)
                else:
                    self._coordinator.receive(member, report)
        self._remote.step()
        self._handover.look(self._coordinator)

    def _take_executor_mail(self) -> None:
        for node, message in self._steering.take():
            if isinstance(message, steering.ExecutorLog):
                self._logs.keep(node, message)
                continue
            if isinstance(message, Refusal):
                self._seldom.warning("node %s refused a message of ours: %s", node, message.why)
                continue
            refuse = partial(self._refuse_to, node)
            with self._faults.contained(f"{type(message).__name__} from {node}", refuse):
                try:
                    self._remote.heard(node, message)
                    if isinstance(message, steering.ExecutorUp) and node in self._remote.nodes:
                        self._logs.expect(node)
                except BadMessage as error:
                    self._mail.malformed += 1
                    refuse(error.why)

    def _refuse(self, why: str) -> None:
        self._head.send(HEAD, Refusal(why))

    def _refuse_to(self, node: str, why: str) -> None:
        if node:
            self._steering.send(node, Refusal(why))

    def _actor_changed(self, member: Member) -> None:
        if self._board.members.role(member).samples:
            self._coordinator.look(member)
            self._remote.arrived(member)

    def _beside_changed(self, member: Member) -> None:
        super()._beside_changed(member)
        self._replay.nudge()

    def _follow_children(self) -> None:
        super()._follow_children()
        self._replay.reap()

    def _tick(self) -> None:
        super()._tick()
        self._remote.step()
        self._replay.nudge()  # rows of dropped rounds are released, too

    # -- the end -------------------------------------------------------------------------------

    def _end_actors(self, deadline: Deadline) -> None:
        self._remote.close(hand_over=True)
        self._await_executors(2 * deadline.left + _CLOSE_SECONDS)  # to end, and to be sent
        for member in self._remote.passers:
            self._actor_changed(member)
        for member, report in self._remote.reports():
            if isinstance(report, Done):
                self._coordinator.receive(member, report)
        for server in self._board.members.servers:
            Held(why=_ON_NODES).keep(self._site.held_path(server))

    def stop(self) -> None:
        """Close the executors and the learner, wait for them, and kill the learner if need be."""
        if not self._handover.over:
            self._remote.close()
            self._stop_beside()
            self._await_executors(_CLOSE_SECONDS)
        for node in self._remote.nodes.open:
            _log.warning("the executor on %s did not confirm that it has closed", node)
        self._remote.branches.close()
        self._logs.close(self._remote.nodes.ends)
        self._replay.stop(STOP_SECONDS)
        self._steering.close()
        self._memories.close()
        self._bundles.close()

    def _await_executors(self, seconds: float) -> None:
        deadline = Deadline(seconds, self._clock)
        while self._may_hear_more() and not deadline.passed:
            self._board.doorbell.wait(min(1.0, deadline.left))
            self._take_executor_mail()
            self._replay.reap()

    def _may_hear_more(self) -> bool:
        """Whether an executor is open and has not been silent for long."""
        return len(self._remote.placement_view.silent()) < len(self._remote.nodes.open)

    def kill(self) -> None:
        """Kill every process on this node at once, and tell the executors to close."""
        self._remote.close()
        self._remote.branches.close()
        nodes = self._remote.nodes
        self._logs.close(nodes.ends | dict.fromkeys(nodes.open, "the run was ended at once"))
        self._kill_beside()
        self._replay.stop(0.0)
        self._steering.close()
        self._memories.close()
        self._bundles.close()


def _weights(plan: Plan, order: Branch) -> bytes:
    """Those that an order to branch names, for a node where their files are not."""
    from artos.runtime import other_weights  # noqa: PLC0415  # loads what environments need

    return other_weights.to_send(Path(order.weights), plan, best=order.best)
