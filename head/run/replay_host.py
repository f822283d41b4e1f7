"""Starts the replay process of a run on the head node, and restarts it if it dies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from artos.clock import Clock
from artos.errors import DataPathFailed
from artos.protocol.data import Nudge, ReplayUp, Terms
from artos.runs.orders import REPLAY_COUNTS, ReplayOrders
from artos.runs.plan import Site
from artos.system.child_modules import ChildModule
from artos.system.exit_report import START_SECONDS
from artos.transport.counters import Counters
from artos.transport.sidecar import Sidecar

_ANSWER_SECONDS, _END_SECONDS = 10.0, 2.0


class ReplayHost:
    """Starts the replay process of a run and keeps it alive.

    ``host`` is the address that agents connect to; it is unused if ``keys_folder`` is None: the
    agents are on this machine, and there is no TCP. ``weights_dtype`` "bfloat16" halves the bytes
    of float32 weights on the wire. ``process`` is the module to run.
    """

    def __init__(
        self, site: Site, plan_file: Path, keys_folder: Path | None, host: str, clock: Clock,
        epoch: int = 0, weights_dtype: str = "float32", process: str = ChildModule.REPLAY,
    ) -> None:  # fmt: skip
        self._terms: dict[int, int] = {}
        self._bases: dict[int, int] = {}
        self._nodes: dict[int, str] = {}
        keys = "" if keys_folder is None else str(keys_folder)
        endpoint = f"tcp://{host}:*" if keys else f"ipc://{site.folder}/replay.ipc"
        self._orders = ReplayOrders(site, str(plan_file), endpoint, keys, epoch, weights_dtype)
        # Users know it by this name, and what reads run folders tells a cluster's run by it.
        self._sidecar = Sidecar(process, Path(site.logs) / "replay-0.log", clock)
        self._counters = Counters(self._orders.counters_path, REPLAY_COUNTS)

    @property
    def endpoint(self) -> str:
        """Where agents connect to, once the process is started; it stays the same."""
        return self._orders.endpoint

    @property
    def wire_bytes(self) -> int:
        """Bytes received from agents plus bytes of weights sent."""
        return self._counters["bytes"] + self._counters["weights"]

    @property
    def faults(self) -> int:
        """Faults that the replay process survived so far."""
        return self._counters["faults"]

    @property
    def malformed(self) -> int:
        """Messages that the replay process refused so far."""
        return self._counters["bad"]

    def start(self) -> None:
        """Start the replay process; returns once agents may connect.

        Raises:
            DataPathFailed: it ended, or did not say in time where it listens.
        """
        self._begin()
        message = self._sidecar.answer(START_SECONDS)
        if not isinstance(message, ReplayUp):
            self._sidecar.end(_END_SECONDS)
            raise DataPathFailed(ChildModule.REPLAY, self._sidecar.log_tail)
        # A process that is started again listens there as well.
        self._orders = msgspec.structs.replace(self._orders, endpoint=message.endpoint)

    def _begin(self) -> None:
        self._sidecar.start(self._orders, Terms(self._terms, self._bases, self._nodes))

    def terms(
        self, terms: Mapping[int, int], bases: Mapping[int, int], nodes: Mapping[int, str]
    ) -> None:
        """Have only rows of these terms accepted, from ``bases`` on and from ``nodes``.

        All three are by actor; a node "" means that no node may send rows of this actor. Returns
        once the terms are in force: no row of an older place appears in a block after this call.

        Raises:
            DataPathFailed: the replay process cannot be kept alive.
        """
        self._terms |= terms
        self._bases |= bases
        self._nodes |= nodes
        message = Terms(dict(terms), dict(bases), dict(nodes))
        self._sidecar.tell(message)
        if not self._confirms(message):
            # It died or hangs; its successor is sent the terms first of all.
            self._sidecar.end(0.0)
            self.start()

    def _confirms(self, message: Terms) -> bool:
        """Whether it answered that these terms are in force; False if it died or hangs."""
        answer = self._sidecar.answer(_ANSWER_SECONDS)
        while isinstance(answer, ReplayUp):  # sent when it was last started
            answer = self._sidecar.answer(_ANSWER_SECONDS)
        return answer == message

    def nudge(self) -> None:
        """Rows were released or a version published. Never blocks."""
        self._sidecar.tell(Nudge())

    def reap(self) -> None:
        """Restart it if it died, at its old endpoint. Call this on SIGCHLD and on ticks.

        Raises:
            DataPathFailed: it died too often in a row.
        """
        if self._sidecar.due():
            self._begin()

    def pids(self) -> dict[str, int]:
        """The replay process's id by name."""
        pid = self._sidecar.pid
        return {} if pid is None else {"replay": pid}

    def stop(self, seconds: float = _END_SECONDS) -> None:
        """Let the replay process end by itself for ``seconds``, then kill it."""
        self._sidecar.hang_up()
        self._sidecar.end(seconds)
