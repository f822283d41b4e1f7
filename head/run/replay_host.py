"""Starts the replay processes of a run on the head node, and restarts those that die."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from artos.clock import Clock
from artos.errors import DataPathFailed
from artos.protocol.data import Nudge, ReplayUp, Terms
from artos.runs.orders import REPLAY_COUNTS, ReplayOrders
from artos.runs.plan import Plan, Site
from artos.system.child_modules import ChildModule
from artos.system.exit_report import START_SECONDS
from artos.transport.counters import Counters
from artos.transport.sidecar import Sidecar

_ANSWER_SECONDS, _END_SECONDS = 10.0, 2.0


class _Receiver:
    """One replay process and its orders."""

    def __init__(self, orders: ReplayOrders, clock: Clock, process: str) -> None:
        self.orders = orders
        log = Path(orders.site.logs) / f"replay-{orders.number}.log"
        self.sidecar = Sidecar(process, log, clock)
        self.counters = Counters(orders.counters_path, REPLAY_COUNTS)

    def await_listening(self) -> None:
        """Wait until agents may connect; a restarted process listens at the same endpoint.

        Raises:
            DataPathFailed: the process ended, or did not answer in time.
        """
        message = self.sidecar.answer(START_SECONDS)
        if not isinstance(message, ReplayUp):
            self.sidecar.end(_END_SECONDS)
            raise DataPathFailed(ChildModule.REPLAY, self.sidecar.log_tail)
        self.orders = msgspec.structs.replace(self.orders, endpoint=message.endpoint)

    def confirms(self, message: Terms) -> bool:
        """Whether it answered that these terms are in force; False if it died or hangs."""
        answer = self.sidecar.answer(_ANSWER_SECONDS)
        while isinstance(answer, ReplayUp):  # sent when it was last started
            answer = self.sidecar.answer(_ANSWER_SECONDS)
        return answer == message


class ReplayHost:
    """Starts the replay processes of a run and keeps them alive.

    Actor ``a`` is served by process ``a % receivers``. ``host`` is the address that agents connect
    to; it is unused if ``keys_folder`` is None: the agents are on this machine, and there is no
    TCP. ``weights_dtype`` "bfloat16" halves the bytes of float32 weights on the wire.
    ``process`` is the module to run.
    """

    def __init__(
        self, plan: Plan, site: Site, plan_file: Path, keys_folder: Path | None, host: str,
        clock: Clock, epoch: int = 0, receivers: int = 1, weights_dtype: str = "float32",
        process: str = ChildModule.REPLAY,
    ) -> None:  # fmt: skip
        self._terms: dict[int, int] = {}
        self._bases: dict[int, int] = {}
        self._nodes: dict[int, str] = {}
        count = min(receivers, plan.actors)
        keys = "" if keys_folder is None else str(keys_folder)
        self._receivers = [
            _Receiver(
                ReplayOrders(
                    site,
                    str(plan_file),
                    f"tcp://{host}:*" if keys else f"ipc://{site.folder}/replay-{number}.ipc",
                    keys,
                    number,
                    count,
                    epoch,
                    weights_dtype,
                ),
                clock,
                process,
            )
            for number in range(count)
        ]

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Where agents connect to, once the processes are started; the endpoints stay the same."""
        return tuple(each.orders.endpoint for each in self._receivers)

    @property
    def wire_bytes(self) -> int:
        """Bytes received from agents plus bytes of weights sent."""
        return sum(each.counters["bytes"] + each.counters["weights"] for each in self._receivers)

    @property
    def faults(self) -> int:
        """Faults that replay processes survived so far."""
        return sum(each.counters["faults"] for each in self._receivers)

    @property
    def malformed(self) -> int:
        """Messages that replay processes refused so far."""
        return sum(each.counters["bad"] for each in self._receivers)

    def start(self) -> None:
        """Start all replay processes; returns once agents may connect.

        Raises:
            DataPathFailed: one of them ended, or did not say where it listens.
        """
        for each in self._receivers:
            self._begin(each)
        for each in self._receivers:
            each.await_listening()

    def _begin(self, receiver: _Receiver) -> None:
        receiver.sidecar.start(receiver.orders, Terms(self._terms, self._bases, self._nodes))

    def terms(
        self, terms: Mapping[int, int], bases: Mapping[int, int], nodes: Mapping[int, str]
    ) -> None:
        """Have only rows of these terms accepted, from ``bases`` on and from ``nodes``.

        All three are by actor; a node "" means that no node may send rows of this actor. Returns
        once the terms are in force: no row of an older place appears in a block after this call.

        Raises:
            DataPathFailed: a replay process cannot be kept alive.
        """
        self._terms |= terms
        self._bases |= bases
        self._nodes |= nodes
        message = Terms(dict(terms), dict(bases), dict(nodes))
        for each in self._receivers:
            each.sidecar.tell(message)
        for each in self._receivers:
            if not each.confirms(message):
                # It died or hangs; its successor is sent the terms first of all.
                each.sidecar.end(0.0)
                self._begin(each)
                each.await_listening()

    def nudge(self) -> None:
        """Rows were released or a version published. Never blocks."""
        for each in self._receivers:
            each.sidecar.tell(Nudge())

    def reap(self) -> None:
        """Restart those that died, at their old endpoints. Call this on SIGCHLD and on ticks.

        Raises:
            DataPathFailed: one of them died too often in a row.
        """
        for each in self._receivers:
            if each.sidecar.due():
                self._begin(each)

    def pids(self) -> dict[str, int]:
        """Process ids by name."""
        found = {f"replay-{each.orders.number}": each.sidecar.pid for each in self._receivers}
        return {name: pid for name, pid in found.items() if pid is not None}

    def stop(self, seconds: float = _END_SECONDS) -> None:
        """Let the replay processes end by themselves for ``seconds``, then kill them."""
        for each in self._receivers:
            each.sidecar.hang_up()
        for each in self._receivers:
            each.sidecar.end(seconds)
