"""What the daemons tell the processes they start: a JSON file each, its path the only argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from artos.errors import BadMessage
from artos.plan import Site
from artos.protocol.control import Assign
from artos.protocol.unreadable import UNREADABLE
from artos.system.private_folder import keep

T = TypeVar("T")

AGENT_COUNTS = ("bytes", "raw", "chunks", "greetings", "refused", "weights", "bad", "faults")
"""What an agent counts: ``bytes`` went out, ``raw`` before compression; ``weights`` came in.

``bad`` messages were refused, ``faults`` survived.
"""
REPLAY_COUNTS = ("bytes", "weights", "chunks", "stale", "gap", "repeated", "bad", "faults")
"""What a replay process counts. ``bytes`` came in, ``weights`` counts bytes that went out.

``bad`` messages were refused, ``faults`` survived.
"""


class RunOrder(msgspec.Struct, frozen=True):
    """Head daemon → ``python -P -m head.run FILE``: be the run process of this run.

    ``request`` has what ``artos run`` takes: workload, settings, seed, deadline; the workload is
    looked for in ``code``. ``folder`` is the run's folder: made anew, or continued with ``resume``.
    It connects to ``head`` (ipc) as the peer ``run``; TCP sockets are bound on ``host`` with the
    keys in ``keys``. The last thing it says is ``RunNews`` with the state done, interrupted, failed
    or refused and the reasons in ``waits_for``, and it ends with the exit status of ``artos run``.
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


class ExecutorOrder(msgspec.Struct, frozen=True):
    """Worker daemon → ``python -P -m workers.executor FILE``: be the executor of a run.

    Paths of the plan below ``assign.folder`` are to be found below ``code`` here. ``node`` is the
    name it gives itself towards the run, with the keys in ``keys``; ``logs`` and ``images`` are
    folders of its own. ``cpus`` are the slots of its actors, one each: its share of the node, and
    the only thing that may change: another file takes the place of this one, and SIGHUP says so. On
    SIGTERM it does what it does on ``CloseExecutor``; exit status 0 says that it was told to end by
    one of them. It is started with both signals blocked, so none comes too early.
    """

    assign: Assign
    node: str
    keys: str
    code: str
    logs: str
    images: str
    cpus: tuple[int, ...]


class AgentOrders(msgspec.Struct, frozen=True):
    """What a transfer agent must know. ``keys`` is the folder of the cluster's keys, "" for none.

    ``lock`` is the descriptor of the lock of the executor's shared memory (-1: somebody else sees
    to that), ``patience`` the seconds that it ships on after the executor has died.
    """

    site: Site
    plan_file: str
    endpoints: tuple[str, ...]
    keys: str
    node: str
    epoch: int
    lock: int = -1
    patience: float = 30.0
    compress: bool = True

    @property
    def counters_path(self) -> Path:
        """File of its counters."""
        return Path(self.site.folder) / "agent"


class ReplayOrders(msgspec.Struct, frozen=True):
    """What a replay process must know: it serves actors ``number``, ``number + count``, ...

    ``keys`` is the folder of the cluster's keys, "" for none.
    """

    site: Site
    plan_file: str
    endpoint: str
    keys: str
    number: int
    count: int
    epoch: int
    weights_dtype: str

    @property
    def counters_path(self) -> Path:
        """File of its counters."""
        return Path(self.site.folder) / f"replay-{self.number}"


def write_order(path: Path, order: RunOrder | ExecutorOrder) -> None:
    """Put an order down, whole, for the process that is about to be started or has one already."""
    keep(path.parent)
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes(msgspec.json.encode(order))
    draft.replace(path)


def read_order(path: Path, kind: type[T]) -> T:
    """The order in a file.

    Raises:
        BadMessage: it is not of that kind; says which field is wrong.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except UNREADABLE as error:
        raise BadMessage(f"{path}: {error}") from error
