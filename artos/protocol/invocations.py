"""All messages between a node and its members: tagged, typed, no pickle."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from artos.protocol.unpacking import Unpacker
from artos.specs.fields import Count, Few, Finite, Line, Name, Seconds, Small, Text, Version

ALL = -1
"""In place of an environment's number: all of them."""
EnvOrAll = Annotated[int, msgspec.Meta(ge=ALL, le=2**31 - 1)]

StartKind = Literal["cold", "fork", "clone", "moved", "state"]
"""How a member's process was made: from scratch, as a fork or a clone of a template, restored from
its image of another node, or as one that goes on from what it held there (``state``)."""


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """Rows ``start`` to ``stop`` of one actor's block, of all environments or only of ``env``."""

    actor: Count
    start: Count
    stop: Count
    env: EnvOrAll = ALL


class Requested(msgspec.Struct, frozen=True):
    """An actor has asked a server for something, from one of the seats that it has there."""

    actor: Count
    seat: Count = 0


class Invoke(msgspec.Struct, frozen=True, tag=True):
    """Node → member: a trigger fired; run ``method``. Answered by ``Done`` or ``Failed``.

    ``stop`` is set for sampling: the round ends when the actor has written ``stop`` rows.
    ``progress`` is the share of the budget of steps or updates already used (for annealing),
    ``steps`` how many environment steps were made by then. ``idle`` is how many seconds the actor
    is expected to wait for its next invocation after this one, 0 if that is not known. ``settings``
    are those of the learner, or of the environments, that were changed since the run began, all of
    them each time, and ``configuration`` is the number of the run's configuration that they are of.
    ``max_lag`` bounds the age of rows that are drawn, where that was changed.
    """

    firing: Count
    trigger: Line
    method: Line
    claims: tuple[Claim, ...] = ()
    stop: Count = 0
    bind: bool = True
    progress: float = 0.0
    steps: Count = 0
    idle: Seconds = 0.0
    settings: dict[Line, Finite] = {}
    configuration: Small = 0
    max_lag: Count | None = None


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Node → member: finish the current invocation and end.

    ``hand_over``: the file in which you write down what you hold before that, for the process that
    goes on from there, or "". One that came by its image from elsewhere would not find its own.
    """

    hand_over: str = ""


class Branch(msgspec.Struct, frozen=True, tag=True):
    """Node → actor: have your episode in environment ``env`` continued ``times`` times beside you.

    Each continuation has random streams of its own, by ``seed``, and ends with the episode or after
    ``steps`` steps (0: no limit). They run on ``cpus``, one on each at a time, and each adds a line
    to ``file``. Answered by ``Branched``.

    If a fork would lack something and there may be an ``image``, the actor answers and then sleeps:
    an image is made of it, and each copy finds its ``Turn`` in that file once it is woken.

    They act with the weights that the actor has bound, or with the newest ones that the run in the
    folder ``weights`` has saved; ``best``: with those of its best evaluation. If that folder is on
    another machine, these are in the file ``sent``.

    What has not ended after ``seconds`` (0: no limit) is ended.
    """

    file: Line
    times: Few
    env: Count = 0
    steps: Count = 0
    seed: Count = 0
    greedy: bool = False
    cpus: tuple[Count, ...] = ()
    image: Line = ""
    weights: Line = ""
    best: bool = False
    sent: Line = ""
    seconds: Seconds = 0.0


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Member → node: set up and waiting. ``seconds`` is how long the set-up took.

    ``moved``: the nodes from and to which it moved, if it was restored from its image. ``device``:
    the resource of the machine's pool that a learner leases. ``whole``: a template has its
    environments, too.
    """

    seconds: Seconds
    incarnation: Count = 0
    start: StartKind = "cold"
    moved: tuple[Name, ...] = ()
    device: Line = ""
    whole: bool = True


class Waits(msgspec.Struct, frozen=True, tag=True):
    """Learner → node: its invocation waits for ``what``, with ``""`` no longer: now it is begun."""

    what: Line


class Branched(msgspec.Struct, frozen=True, tag=True):
    """Actor → node: my episode is being continued, or see ``fault``.

    Processes below that of the system's id ``pid`` do it, until that one ends; 0: copies of my
    image will. They are made in this ``way``, at row ``row``, with weights of ``version``. The
    episode has brought ``total`` in ``steps`` steps so far, and what is seen of it has this
    ``digest``.
    """

    way: Line = ""
    pid: Count = 0
    row: Count = 0
    version: Version = -1
    total: Finite = 0.0
    steps: Count = 0
    digest: Line = ""
    fault: Text = ""


class ActorLag(msgspec.Struct, frozen=True, array_like=True):
    """Lags (versions) of ``rows`` rows of one actor: their sum, the largest, and their classes.

    ``classes[0]`` counts rows of lag 0, ``classes[k]`` those of lag 2**(k-1) to 2**k - 1.
    """

    actor: Count
    rows: Count
    total: Count
    largest: Count
    classes: tuple[Count, ...]


class Rest(msgspec.Struct, frozen=True, array_like=True):
    """From ``before`` seconds before it went on an actor was in a ``state``, for ``seconds``.

    It was ``frozen``, ``checkpointed`` (from when its image was begun), or ``restoring``.
    """

    state: Line
    before: Seconds
    seconds: Seconds


class Done(msgspec.Struct, frozen=True, tag=True):
    """Member → node: the invocation is finished.

    ``version`` is the policy version used (actor) or published (learner), ``beside`` has those of
    the other learners of which the actor reads something; ``returns`` and
    ``lengths`` describe the episodes that ended, ``begun`` in which configuration of the run they
    began (empty: in that of the invocation), ``agents`` which agent of its game each was of (empty:
    there are none); ``times`` says where the seconds went.
    ``seconds`` is how long it sampled (actor), or updated and published (learner): a duration by
    the member's own clock, which stands still while the member is an image. ``drawn`` has the lags
    of rows that the learner drew with samplers, by actor; with ``unread`` it learned from these
    rows only, and not from the claims. ``stale`` counts rows that ``max_lag`` left out of samples,
    each once. ``nothing`` says why no batch could be drawn for the learner, which then did nothing.
    ``lost_lease`` is the device that was taken from the learner while it updated, ``device_idle``
    for how many seconds of its updates lately the device computed nothing, as far as its driver
    knows.

    ``cpu`` is how many CPU-seconds the learner's process used meanwhile, with all its threads.
    ``written`` is the row up to which the actor has written by now: a round may end early.
    ``untold`` is how many more episodes ended, before those that ``returns`` tells of.

    The process manager adds for how many seconds the invocation waited for a ``slot``, if it did,
    for how many more it ``waited`` for the actor's process, and how long that process took to be
    ``restored`` from an image for it, beforehand or not; and how the actor had ``rested`` before.
    """

    firing: Count
    version: Version
    metrics: dict[Line, float] = {}
    times: dict[Line, float] = {}
    returns: tuple[float, ...] = ()
    lengths: tuple[Count, ...] = ()
    seconds: Seconds = 0.0
    drawn: tuple[ActorLag, ...] = ()
    unread: bool = False
    stale: Count = 0
    nothing: Line = ""
    lost_lease: Line = ""
    device_idle: Seconds = 0.0
    cpu: Seconds = 0.0
    slot: Seconds = 0.0
    waited: Seconds = 0.0
    restored: Seconds = 0.0
    rested: tuple[Rest, ...] = ()
    begun: tuple[Small, ...] = ()
    agents: tuple[Small, ...] = ()
    beside: dict[Name, Version] = {}
    written: Count = 0
    untold: Count = 0


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Member → node: user code raised; the member ends after this.

    ``others``: not its own did, but a replica has ended that it needs.
    """

    firing: Count
    step: Version
    trace: Text
    fatal: bool = False
    others: bool = False


ToMember = Invoke | Branch | Stop
Report = Ready | Waits | Done | Failed
FromMember = Report | Branched

encode = msgspec.msgpack.Encoder().encode
_to_member = Unpacker[ToMember](Invoke, Branch, Stop)
_from_member = Unpacker[FromMember](Ready, Waits, Done, Branched, Failed)


def decode_to_member(data: bytes) -> ToMember:
    """The message that the node sent.

    Raises:
        BadMessage: ``data`` is not a valid message; the error names the wrong field.
    """
    return _to_member(data)


def decode_from_member(data: bytes) -> FromMember:
    """The message that a member sent.

    Raises:
        BadMessage: ``data`` is not a valid message; the error names the wrong field.
    """
    return _from_member(data)
