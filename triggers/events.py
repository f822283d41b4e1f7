"""The events that triggers are checked against: changes in and around the buffer."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Committed(msgspec.Struct, frozen=True):
    """An actor committed rows to the cache buffer of its node.

    ``written`` counts rows per key since the actor began; keys left out did not change. ``version``
    is the policy version of the first row added since the actor's last event; no added row is
    older. Make one event per version, because ``max_lag`` relies on it.
    """

    actor: int
    written: Mapping[str, int]
    version: int = 0


class Began(msgspec.Struct, frozen=True):
    """An actor was placed here; its rows in this cache buffer begin at row ``row``.

    It comes before any ``Committed`` of that stay; rows of an earlier stay here are void.
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


class Rewound(msgspec.Struct, frozen=True):
    """Arrived rows of an actor from row ``rows`` on are void: the actor was placed elsewhere.

    These rows are sampled again and arrive again. Rows already handed over stay handed over.
    """

    actor: int
    rows: int


class Published(msgspec.Struct, frozen=True):
    """A model-related object has a new version.

    ``ahead`` counts the learner's invocations that were handed over earlier and are not done yet:
    each of them may mint one more version before rows claimed now are consumed.
    """

    key: str
    version: int
    ahead: int = 0


class Joined(msgspec.Struct, frozen=True):
    """An actor became part of the workload.

    Its first round is sampled together with the one of actor ``peer`` that begins at row ``rows``.
    The rounds that were granted before it came are complete without it.
    """

    actor: int
    peer: int = -1
    rows: int = 0


class Left(msgspec.Struct, frozen=True):
    """An actor is told to stop sampling; it leaves once it has written ``rows`` rows."""

    actor: int
    rows: int = 0


class Tick(msgspec.Struct, frozen=True):
    """Time passed; the time itself comes with the check."""


class Recheck(msgspec.Struct, frozen=True):
    """Comes after a trigger fired: is there enough for one more firing?"""


Event = Committed | Began | Arrived | Rewound | Published | Joined | Left | Tick | Recheck
