"""What happens in the buffer, and what a satisfied trigger passes on."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from artos.protocol.invocations import Claim, Requested


class Committed(msgspec.Struct, frozen=True):
    """An actor committed rows, all of one policy version, to the cache buffer of its node."""

    actor: int
    # Rows per key since the actor began; keys left out did not change.
    written: Mapping[str, int]
    # One event per version: ``max_lag`` relies on no added row being older.
    version: int = 0


class Began(msgspec.Struct, frozen=True):
    """An actor was placed here; its rows in this cache buffer begin at row ``row``.

    It comes before any ``Committed`` of this placement; rows of earlier ones are void.
    """

    actor: int
    row: int


class Arrived(msgspec.Struct, frozen=True):
    """Rows of an actor are in the replay buffer; the fields mean the same as in ``Committed``.

    On one machine, and without a transfer trigger, every ``Committed`` is at once an ``Arrived``.
    """

    actor: int
    written: Mapping[str, int]
    version: int = 0
    versions: Mapping[str, int] = {}  # of other learners' weights that acted, by their keys


class Ended(msgspec.Struct, frozen=True):
    """An episode of one environment of an actor is over, and all of its rows have arrived.

    These are rows ``start`` to ``stop``, the first of which is of policy version ``version`` and
    none of an older one. It is not ``whole`` if it has no end: its actor was started again.
    """

    actor: int
    env: int
    start: int
    stop: int
    version: int = 0
    whole: bool = True
    versions: Mapping[str, int] = {}
    policy: str = ""  # whose agents it is of, where each policy has rows of its own


class Rewound(msgspec.Struct, frozen=True):
    """Arrived rows of an actor from row ``rows`` on are void: the actor was placed elsewhere.

    These rows are sampled again and arrive again. Rows already handed over stay handed over.
    """

    actor: int
    rows: int


class Resumed(msgspec.Struct, frozen=True):
    """Rows of an actor up to row ``rows`` are in the replay buffer since before the run resumed."""

    actor: int
    rows: int


class SampledBefore(msgspec.Struct, frozen=True):
    """So many rows of all actors together had been sampled before the run resumed."""

    rows: int


class Published(msgspec.Struct, frozen=True):
    """A model-related object has a new version."""

    key: str
    version: int
    # The learner's invocations under way: each may make a version before rows claimed now are used.
    ahead: int = 0
    updates: int = 0  # that the run has made by then, if the object is the weights
    # The numbers of a small object; none if it is large, or if a newer version is there already.
    value: tuple[float, ...] = ()
    # Triggers knew of it before the run resumed, which goes on from it.
    again: bool = False


class Joined(msgspec.Struct, frozen=True):
    """An actor became part of the workload.

    Its first round is sampled together with actor ``peer``'s round that begins at row ``rows``.
    The rounds that were granted before it came are complete without it.
    """

    actor: int
    peer: int = -1
    rows: int = 0


class Left(msgspec.Struct, frozen=True):
    """An actor is told to stop sampling; it leaves once it has written ``rows`` rows."""

    actor: int
    rows: int = 0


class Ungranted(msgspec.Struct, frozen=True):
    """A round that the trigger of this target asked for is not sampled; it may ask again."""

    trigger: str
    actor: int


class Shortened(msgspec.Struct, frozen=True):
    """An actor ended a round that the trigger of this target asked it for ``rows`` rows early."""

    trigger: str
    actor: int
    rows: int


class Learned(msgspec.Struct, frozen=True):
    """The learner is done with an invocation that the trigger of this target fired."""

    trigger: str
    drew: bool = True  # False: there was no row to draw, so it did nothing


class Tick(msgspec.Struct, frozen=True):
    """Time passed; the time itself comes with the check."""


class Recheck(msgspec.Struct, frozen=True):
    """Asks a trigger that has just fired whether there is enough for one more firing."""


Event = (
    Committed | Began | Arrived | Ended | Rewound | Resumed | SampledBefore | Published | Joined
    | Left | Ungranted | Shortened | Learned | Tick | Recheck | Requested
)  # fmt: skip


class Firing(msgspec.Struct, frozen=True):
    """What a satisfied trigger passes on (the *message* of paper Figure 10)."""

    claims: tuple[Claim, ...] = ()  # rows that it hands over
    dropped: tuple[Claim, ...] = ()  # rows that it gave up because they were too old
    actors: tuple[int, ...] | None = None  # those whom it is for; None: all
    rounds: int = 1  # invocations that it grants to each of them
    keys: tuple[str, ...] = ()
    version: int = -1  # the newest that the trigger knew of
    ahead: int = 1  # invocations that each of them may then have, with earlier ones
    # The engine fills in these two. The number follows the firing through every process: it is in
    # the invocation, in the answer, in the version that it makes, and in the journal.
    trigger: str = ""
    number: int = 0
    cut: bool = False  # whether rows were dropped because their episode has no end
