"""What users are shown of runs, nodes and a whole cluster: the answers to list, status and top.

A head and a folder of runs answer with the same views. As JSON they are what ``--json`` prints. A
number that is not finite has no place in JSON: there, and on its way to a head, it is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from artos.specs.fields import Count, Finite

LagCounts = dict[Annotated[str, Meta(pattern=r"\A\d{1,19}(?:-\d{1,19})?\Z")], Count]
"""By class of lag: ``2-3``."""
_WaitClass = Annotated[str, Meta(pattern=r"\A.+/(?:\d{1,9}(?:\.\d{1,9})?|inf)\Z")]


class Status(msgspec.Struct, frozen=True):
    """A snapshot of a run. Times in seconds, ``fill`` as shares of capacity per data key.

    ``lag_mean`` and ``lag_max`` are of the rows learned from, None if none were learned from.
    ``shares`` are shares of the wall time of the learner (``learner.learn``), or of the actors
    together (``actors.wait``). ``rows_lost`` counts rows that went with an actor or a node,
    ``rows_stale`` those that were too old to learn from by ``max_lag``, each once, and
    ``empty_draws`` the draws that found no row and made no update. ``skipped`` counts, by target,
    firings that came faster than the learner works. ``total_steps`` and ``total_updates`` are 0 if
    they do not limit the run. ``evaluation`` has ``version``,
    ``mean_return`` and ``std`` of the newest evaluation, and how many were ``skipped``. ``usage``
    is the bill so far, with seconds waited as ``waits/slot``. ``settings`` are those that were
    changed while the run went. ``updates``, ``version`` and lag are those of the first learner;
    ``learners`` has them of the others, as ``world_model.updates``, and ``metrics`` what they
    return, as ``world_model.loss``. ``returns`` has the mean return of the last 100 episodes of
    each agent of a game. ``lags`` are the rows that the first learner learned from, by lag
    (``2-3``); ``waited`` how many waits took at most so many seconds, and more than the next lower
    number (``actors.wait/0.016``).
    """

    algorithm: str = ""
    env: str = ""
    seconds: float = 0.0
    steps: int = 0
    total_steps: int = 0
    updates: int = 0
    version: int = -1
    steps_per_second: float = 0.0
    mean_return_100: float | None = None
    episodes: int = 0
    lag_mean: float | None = None
    lag_max: int | None = None
    restarts: int = 0
    rows_lost: int = 0
    fill: dict[str, float] = {}
    waits: dict[str, str] = {}
    metrics: Mapping[str, float | None] = {}
    times: dict[str, float] = {}
    shares: dict[str, float] = {}
    rows_stale: int = 0
    empty_draws: int = 0
    skipped: dict[str, int] = {}
    total_updates: int = 0
    evaluation: Mapping[str, float | None] = {}
    usage: dict[str, Finite] = {}
    settings: dict[str, Finite] = {}
    learners: Mapping[str, float | None] = {}
    returns: Mapping[str, float | None] = {}
    lags: LagCounts = {}
    waited: dict[_WaitClass, Count] = {}


class LagView(msgspec.Struct, frozen=True):
    """The lags of an actor's rows that were learned from, None if none were."""

    mean: float | None = None
    max: int | None = None


class RunFacts(Status, frozen=True, kw_only=True):
    """What is known of a run's progress; the fields of its own are those of a run on a cluster."""

    nodes: dict[str, list[int]] | UnsetType = UNSET
    """The actors on each node that the run has opened."""
    leases: dict[str, str] | UnsetType = UNSET
    """The devices that its learners lease for their updates, by learner."""
    bytes_moved: int | UnsetType = UNSET
    """Experience and weights between nodes."""
    actors: int | UnsetType = UNSET
    """How many take part now."""
    lag_by_actor: dict[str, LagView] | UnsetType = UNSET
    faults: int | UnsetType = UNSET
    """Faults that the run's processes survived."""
    malformed: int | UnsetType = UNSET
    """Messages that they refused."""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run in short, or in full if ``facts`` is set.

    ``outcome`` is "" until the run is over; ``why`` explains it. ``nodes`` counts the registered
    actors by node, ``actors`` those that take part now. ``restarts`` counts further starts of the
    run's process.
    """

    name: str
    user: str = ""
    account: str = ""
    """The system account of its processes where a daemon may switch; "": the daemon's."""
    state: str
    outcome: str = ""
    why: str = ""
    waits_for: str = ""
    folder: str = ""
    placement: str = ""
    where: tuple[str, ...] = ()
    """Labels that its actors' nodes have."""
    carrier: str = ""
    """The node on which it is itself, with learner and replay; "": the head's machine."""
    restarts: int = 0
    actors: int = 0
    wants: int = 0
    """Slots that its actors would use: those that take part or, before it begins, are asked for; as
    many as its quotas allow, and none while it waits for one."""
    registered: int = 0
    """Actors that have a place with their memory, or are to have one, if they take part or not."""
    lacks_memory: int = 0
    """How many of its actors wait for a node's shared memory alone."""
    executor_bytes: int = 0
    """Shared memory that it takes on a node, besides ``actor_bytes`` for each actor."""
    actor_bytes: int = 0
    nodes: dict[str, int] = {}
    facts: RunFacts | UnsetType | None = UNSET
    """Its newest report; None before the first one, unset in a list of runs."""
    damage: str | UnsetType = UNSET
    """Why a folder of a run does not tell what the run has used."""
    summary: dict[str, Any] | UnsetType | None = UNSET
    """``summary.json`` of a run that is over; None if it could not write any."""

    @property
    def progress(self) -> RunFacts | None:
        """Its newest report, if there is one."""
        return None if self.facts is UNSET else self.facts

    @property
    def ending(self) -> dict[str, Any]:
        """Its summary, empty if there is none."""
        return {} if self.summary is UNSET else self.summary or {}

    @property
    def plain(self) -> dict[str, Any]:
        """As JSON has it: ``facts`` are empty before the first report."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found if found.get("facts", found) is not None else found | {"facts": {}}


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node. ``cpu`` and ``memory`` are shares in use, 0 to 1; ``runs`` counts its actors by run.

    For each of its ``slots`` there may be ``runs_per_slot`` runs, whose actors take turns.
    ``leaves`` says why it gets no more actors, "" if it does. It was heard ``silent_seconds`` ago.
    ``faults`` counts those that its daemon survived, ``malformed`` messages that it refused.
    """

    name: str
    alive: bool
    slots: int
    runs_per_slot: int = 1
    clock_ahead: float = 0.0
    """Seconds by which its clock is ahead of the head's, negative if behind; 0: no more than 5."""
    actors: int = 0
    runs: dict[str, int] = {}
    leaves: str = ""
    cpu: float = 0.0
    memory: float = 0.0
    memory_mb: int = 0
    shm_bytes: int = 0
    """Shared memory for its executors in all; 0: any amount."""
    labels: tuple[str, ...] = ()
    devices: str = ""
    """What learners there lease, as in ``--devices``."""
    faults: int = 0
    malformed: int = 0
    silent_seconds: float = 0.0
    seconds_left: float = 0.0
    """Until it leaves by itself, as its allocation ends; 0: nobody knows."""
    awaited: bool = False
    """Whether a head that was restarted has not heard it yet: its worker may be gone since."""


class QuotaView(msgspec.Struct, frozen=True):
    """How much is held of what a quota limits."""

    held: float
    limit: float


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes and runs of a head, or this machine and the runs in a folder.

    ``quotas`` are those whose runs wait or go on, by user or workload, then by what is limited.
    ``version`` is that of ARTOS there; ``faults`` and ``malformed`` are those of the head itself.
    """

    nodes: tuple[NodeView, ...] = ()
    quotas: dict[str, dict[str, QuotaView]] = {}
    runs: tuple[RunView, ...] = ()
    version: str = ""
    malformed: int = 0
    faults: int = 0

    @property
    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found | {"runs": [run.plain for run in self.runs]}
