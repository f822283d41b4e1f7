"""Starts the transfer agent of an executor, talks to it, and restarts it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from artos.buffer.actor_block import ActorBlock
from artos.clock import Clock, Deadline
from artos.protocol.data import Finish, Nudge, Terms
from artos.runs.orders import AGENT_COUNTS, AgentOrders
from artos.runs.plan import Plan, Site
from artos.system.child_modules import ChildModule
from artos.transport.counters import Counters
from artos.transport.sidecar import Sidecar

_EXIT = 1.0  # seconds that a process takes to end once it wants to


class AgentHost:
    """Starts the transfer agent of an executor and keeps it alive.

    ``plan`` (also in ``plan_file``) is the workers' plan, with one consumer per stage. ``lock`` is
    the descriptor of the lock on the executor's shared memory: the agent holds the lock as well,
    and removes the folder if it outlives the executor. ``process`` is the module to run.
    """

    def __init__(
        self, plan: Plan, site: Site, plan_file: Path, endpoint: str, keys_folder: Path | None,
        node: str, epoch: int, clock: Clock, lock: int = -1,
        compress: bool = True, process: str = ChildModule.AGENT,
    ) -> None:  # fmt: skip
        keys = "" if keys_folder is None else str(keys_folder)
        self._orders = AgentOrders(
            site, str(plan_file), endpoint, keys, node, epoch, lock, compress=compress
        )
        self._stages, self._site, self._clock = plan.consumers, site, clock
        self._sidecar = Sidecar(process, Path(site.logs) / "agent.log", clock)
        self._counters = Counters(self._orders.counters_path, AGENT_COUNTS)
        self._terms, self._told = Terms({}), True

    @property
    def wire_bytes(self) -> int:
        """Bytes sent as experience and received as weights."""
        return self._counters["bytes"] + self._counters["weights"]

    @property
    def faults(self) -> int:
        """Number of faults the agent has survived so far."""
        return self._counters["faults"]

    @property
    def malformed(self) -> int:
        """Number of messages the agent has refused so far."""
        return self._counters["bad"]

    def start(self) -> None:
        """Start the agent, which connects by itself."""
        lock = [self._orders.lock] if self._orders.lock >= 0 else []
        self._sidecar.start(self._orders, self._terms, lock)
        self._told = True

    def terms(self, terms: Mapping[int, int]) -> None:
        """Tell the agent that exactly these actors live here, each in its term; their blocks exist.

        Never waits: an agent that does not read now is told at the next ``nudge`` or ``reap``.
        """
        self._terms, self._told = Terms(dict(terms)), False
        self._tell_terms()

    def _tell_terms(self, seconds: float = 0.0) -> None:
        if not self._told:
            self._told = self._sidecar.tell(self._terms, seconds)

    def nudge(self) -> None:
        """Tell the agent that rows were committed. Never waits."""
        self._tell_terms()
        self._sidecar.tell(Nudge())

    def reap(self) -> None:
        """Start the agent again if it died. Call this on SIGCHLD and on ticks.

        Raises:
            DataPathFailed: the agent died too often in a row.
        """
        if self._sidecar.due():
            self.start()
        self._tell_terms()

    def pids(self) -> dict[str, int]:
        """The agent's process id by name."""
        pid = self._sidecar.pid
        return {} if pid is None else {"agent": pid}

    def finish(self, seconds: float) -> dict[int, int]:
        """Have the agent ship all committed rows within ``seconds`` and end; returns ``unsent()``.

        Call this once no actor is at work any more.
        """
        deadline = Deadline(seconds, self._clock)
        self._tell_to_finish(deadline)
        while not self._sidecar.end(deadline.left + _EXIT) and not deadline.passed:
            self.start()  # the agent was killed: another one goes on
            self._tell_to_finish(deadline)
        return self.unsent()

    def _tell_to_finish(self, deadline: Deadline) -> None:
        self._tell_terms(deadline.left)
        self._sidecar.tell(Finish(deadline.left), deadline.left)

    def unsent(self) -> dict[int, int]:
        """The number of rows committed here and not known to have arrived, by actor."""
        left = {}
        for actor in self._terms.terms:
            block = ActorBlock.attach(self._site.block_path(actor))
            arrived = [
                block.headers[stage.keys[0]].cursor(number)[1]
                for number, stage in enumerate(self._stages)
            ]
            if rows := block.written - min(arrived):
                left[actor] = rows
        return left

    def stop(self) -> None:
        """End the agent at once; rows that were not shipped stay in the blocks."""
        self._sidecar.end(0.0)
