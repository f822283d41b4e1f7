"""What triggers are checked against: everything that can change in or around the buffer."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Committed(msgspec.Struct, frozen=True):
    """An actor committed rows to the cache buffer of its node.

    ``written`` counts rows per key since the actor began; keys left out did not change. ``version``
    is the policy version of the first row added since the actor's last event, which no row added is
    older than. Best make an event of each version: ``max_lag`` goes by it.
    """

    actor: int
    written: Mapping[str, int]
    version: int = 0


class Began(msgspec.Struct, frozen=True):
    """The rows of an actor that are committed here begin at row ``row``: it was placed here.

    Told where its rows are committed, before any are; those of an earlier stay here are void.
    """

    actor: int
    row: int


class Arrived(msgspec.Struct, frozen=True):
    """Rows of an actor are in the replay buffer; the fields mean what they mean in ``Committed``.

    On one machine, and without a transfer trigger, every ``Committed`` is at once an ``Arrived``.
    """

    actor: int
    written: Mapping[str, int]
    version: int = 0


class Rewound(msgspec.Struct, frozen=True):
    """What had arrived of an actor's rows from ``rows`` on is void: the actor was placed elsewhere.

    These rows are sampled again and arrive again. What was handed over already stays so.
    """

    actor: int
    rows: int


class Published(msgspec.Struct, frozen=True):
    """A model-related object has a new version.

    ``ahead`` counts the learner's invocations that were handed over before and are still to be
    done: each of them may mint one more version before rows claimed now are consumed.
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
    """An actor is told to sample no more; once it has written ``rows`` rows it is gone."""

    actor: int
    rows: int = 0


class Tick(msgspec.Struct, frozen=True):
    """Time passed; the time itself comes with the check."""


class Recheck(msgspec.Struct, frozen=True):
    """Asked after a trigger fired: does what is there suffice for one more firing?"""


Event = Committed | Began | Arrived | Rewound | Published | Joined | Left | Tick | Recheck
