"""Orders of processes that are started: as JSON in a file, or as an argument of a sidecar."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from artos.errors import BadMessage
from artos.protocol.control import Assign
from artos.runs.plan import Site
from artos.specs.unreadable import UNREADABLE
from artos.system.private_folder import keep
from artos.system.regular_file import contents

T = TypeVar("T")

AGENT_COUNTS = ("bytes", "raw", "chunks", "greetings", "refused", "weights", "bad", "faults")
"""An agent's counters: ``bytes`` sent, ``raw`` bytes before compression, ``weights`` received.

``bad`` messages were refused, ``faults`` survived.
"""
REPLAY_COUNTS = ("bytes", "weights", "chunks", "stale", "gap", "repeated", "bad", "faults")
"""A replay process's counters: ``bytes`` received, bytes of ``weights`` sent.

``bad`` messages were refused, ``faults`` survived.
"""


class RunOrder(msgspec.Struct, frozen=True):
    """Head daemon → ``python -P -m head.run FILE``: be the run process of this run.

    ``request`` holds the flags of ``artos run``: workload, settings, seed, deadline; the workload
    is looked up in ``code``. ``folder`` is the run's folder: new or, with ``resume``, continued if
    it has a checkpoint. The process connects to ``head`` as ``peer``; TCP sockets are bound on
    ``host`` with the keys in ``keys``. Its last message is ``RunNews`` with the state done,
    interrupted, failed or refused and the reasons in ``waits_for``; its exit status is that of
    ``artos run``. On a worker node it is the worker daemon that writes the order, by ``CarryRun``.
    """

    run: str
    epoch: int
    request: dict[str, Any]
    code: str
    archive: str
    folder: str
    host: str
    keys: str
    head: str
    resume: bool = False
    note: str = ""
    """What its log is to say first."""
    call_keys: str = ""
    """The folder of keys with which it calls the head from a worker node, where it ends with the
    worker's daemon; "": it is on the head's machine, calls by ipc, and outlives the daemon."""

    @property
    def peer(self) -> str:
        """Its name for the head."""
        return f"run:{self.run}/{self.epoch}" if self.call_keys else self.run


class ExecutorOrder(msgspec.Struct, frozen=True):
    """Worker daemon → ``python -P -m workers.executor FILE``: be the executor of a run.

    Paths of the plan below ``assign.folder`` are below ``code`` on this node. The executor connects
    to the run as ``node``, with the keys in ``keys``; ``logs`` and ``images`` are folders of its
    own. ``cpus`` are the node's, one slot each, which its executors share. ``CLOSE`` has the effect
    of ``CloseExecutor``; exit status 0 means that the executor was told to end by one of the two.
    SIGHUP says that the file has other ``assign.slots``. It is started with these signals blocked,
    so that none comes too early.
    """

    assign: Assign
    node: str
    keys: str
    code: str
    logs: str
    images: str
    cpus: tuple[int, ...]
    note: str = ""
    """What its log is to say first."""
    owner: str = ""
    """Names its worker on this machine, where other clusters may have a node of that name."""


class AgentOrders(msgspec.Struct, frozen=True):
    """The orders of a transfer agent."""

    site: Site
    plan_file: str
    endpoint: str
    keys: str
    """The folder of the cluster's keys, "" for none."""
    node: str
    epoch: int
    lock: int = -1
    """The descriptor of the lock of the executor's shared memory; -1: it need not hold it."""
    patience: float = 30.0
    """For how many seconds it ships rows after the executor has died."""
    compress: bool = True

    @property
    def counters_path(self) -> Path:
        """File of its counters."""
        return Path(self.site.folder) / "agent"


class ReplayOrders(msgspec.Struct, frozen=True):
    """The orders of a replay process."""

    site: Site
    plan_file: str
    endpoint: str
    keys: str
    """The folder of the cluster's keys, "" for none."""
    epoch: int
    weights_dtype: str

    @property
    def counters_path(self) -> Path:
        """File of its counters."""
        return Path(self.site.folder) / "replay"


def write_order(path: Path, order: RunOrder | ExecutorOrder) -> None:
    """Write the order of a process to be started, or replace that of a running one, atomically."""
    keep(path.parent)
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes(msgspec.json.encode(order))
    draft.replace(path)


def read_order(path: Path, kind: type[T]) -> T:
    """The order in a file.

    Raises:
        BadMessage: the file holds no such order; the error names the wrong field.
    """
    try:
        return msgspec.json.decode(contents(path), type=kind)
    except UNREADABLE as error:
        raise BadMessage(f"{path}: {error}") from error
