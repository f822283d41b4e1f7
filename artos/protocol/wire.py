"""Every message between nodes, in one place: tagged, typed, versioned, no pickle (design §6, §10).

A message on a socket is one frame of MessagePack. Never more: between two frames of one message
libzmq 4.3.5 may abort the process when a connection ends (``!_more (src/fq.cpp:80)``), a calling
socket's or one that hands names over. Of a ``Bulk`` message the content stays as it is, behind the
rest: 0xC1 (which begins no MessagePack), two bytes with the length of the rest, the rest, the
content. The rest of a ``Seal``, which is around all others, is no MessagePack but its five numbers,
with 0 for a length. What does not fit its type or the ranges of ``artos.protocol.fields`` is a
``BadMessage``: counted, answered with ``Refusal``, and nothing changes.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from artos.errors import BadMessage
from artos.protocol.fields import (
    LIVES,
    MOST,
    Count,
    Digest,
    Few,
    Life,
    Line,
    Name,
    Number,
    Seconds,
    Share,
    Small,
    Some,
    Text,
    Version,
    Word,
    check_plain,
)  # fmt: skip
from artos.protocol.invocations import Done, Failed, Invoke, Ready
from artos.protocol.unpacking import Unpacker

PROTOCOL = 4
"""Raised with every change of a message; peers with another number are refused at hello."""

_NOTHING = memoryview(b"")
_BULK = 0xC1
_FRONT = 3  # bytes before the rest of a bulk message
_SEAL = struct.Struct(">BxxQQQQ?")


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """Root of all messages between nodes."""


class Bulk(Message, frozen=True):
    """Root of those whose ``content`` is not packed; a memoryview is one of what it came in."""


class Refusal(Message, frozen=True, tag=True):
    """Any → any: your last message changed nothing, and why."""

    why: Text


class Seal(Bulk, frozen=True, tag=True):
    """Any → any, around all that posts send; see ``artos.transport.channel.Channel``.

    ``content`` is piece ``number`` (from 1) of what ``session`` tells session ``of``, ``more``
    pieces of the same message follow; 0: a beat, without content. ``took`` pieces of ``of``'s
    have been taken. ``of`` 0: I have not heard you yet.
    """

    session: Life
    of: Life
    number: Count = 0
    took: Count = 0
    more: bool = False
    content: memoryview = _NOTHING


class Restarted(Message, frozen=True):
    """Never sent: a post hands it out where its peer is another one than before.

    It has restarted or has forgotten us; what was on its way to the old one is gone.
    """


# -- worker daemon <-> head daemon -----------------------------------------------------------------


class Hello(Message, frozen=True, tag=True):
    """Worker → head: I am here. ``slots`` CPUs may be used; ``runs`` (run → epoch) go on here.

    ``replaces`` is the peer name of an earlier daemon of this node that is known to be dead.
    """

    node: Name
    protocol: Number
    version: Line
    slots: Some
    memory_mb: Count = 0
    runs: dict[Name, Count] = {}
    replaces: Line = ""


class Welcome(Message, frozen=True, tag=True):
    """Head → worker: you belong. A node not heard of for ``deadline`` seconds counts as gone."""

    protocol: Number
    version: Line
    deadline: Seconds


class Load(Message, frozen=True, tag=True):
    """Worker → head, every second or so: actors alive per run, CPU and memory in use (0 to 1).

    ``faults`` are those it survived so far, ``malformed`` messages that it refused.
    """

    actors: dict[Name, Count] = {}
    cpu: Share = 0.0
    memory: Share = 0.0
    faults: Small = 0
    malformed: Small = 0


class Assign(Message, frozen=True, tag=True):
    """Head → worker: open a site for this run; one of an older ``epoch`` is closed first.

    ``plan`` is the ``Plan`` as JSON with its paths as on the head, below ``folder``; the user's
    code is the archive of that name ("" where there is none). ``steering`` and ``experience`` are
    endpoints of the run. ``slots`` CPUs are its share of this node.
    """

    run: Name
    epoch: Count
    plan: bytes
    folder: Line
    archive: Digest
    steering: Line
    experience: tuple[Line, ...]
    slots: Few


class Unassign(Message, frozen=True, tag=True):
    """Head → worker: close the run's site, if there is one."""

    run: Name


class SiteEnded(Message, frozen=True, tag=True):
    """Worker → head: the site of a run is gone; ``why`` in words, "" if it was told to end."""

    run: Name
    epoch: Count
    why: Text = ""


class Leaving(Message, frozen=True, tag=True):
    """Worker → head: I am being stopped (SIGTERM) or drained; take my actors elsewhere."""

    why: Text


class Bye(Message, frozen=True, tag=True):
    """Worker → head: nothing of me is left; or head → worker: you may go."""


class Fetch(Message, frozen=True, tag=True):
    """Worker → head: send me this archive."""

    archive: Digest


class Archive(Bulk, frozen=True, tag=True):
    """Head → worker, user → head: the archive of that name (SHA-256); ``content`` b"": not here."""

    archive: Digest
    content: bytes = b""


class ReadLog(Message, frozen=True, tag=True):
    """Head → worker: send me that log of a run from byte ``offset`` on (``logs.piece``)."""

    number: Count
    run: Name
    log: Name
    offset: Number = 0


class LogPiece(Bulk, frozen=True, tag=True):
    """Worker → head: the answer to ``ReadLog``; what follows begins at ``next``. Or a ``fault``."""

    number: Count
    next: Count = 0
    fault: Text = ""
    content: bytes = b""


# -- user (artos submit, list, ...) <-> head daemon ------------------------------------------------


class UserRequest(Message, frozen=True):
    """Root of what a user asks of a head, which replies with ``Answer``."""


class Submit(UserRequest, frozen=True, tag=True):
    """User → head: run this. ``request`` is what ``artos run`` takes, as plain data."""

    request: dict[str, Any]
    archive: Digest = ""
    placement: Line = "spread"

    def __post_init__(self) -> None:
        check_plain(self.request)


class ListRuns(UserRequest, frozen=True, tag=True):
    """User → head: every run in short."""


class ReadStatus(UserRequest, frozen=True, tag=True):
    """User → head: one run in full; "": all nodes and all runs."""

    run: Line = ""


class ReadLogs(UserRequest, frozen=True, tag=True):
    """User → head: a log of a run from byte ``offset`` on; below 0 it counts from the end.

    ``log`` "" is that of its run process.
    """

    run: Line
    offset: Number = 0
    log: Line = ""


class ReadLimits(UserRequest, frozen=True, tag=True):
    """User → head: what a submission may be."""


class ScaleRun(UserRequest, frozen=True, tag=True):
    """User → head → run, or user → run on one machine: go on with ``actors`` actors.

    They take part from the next version on. A run replies with ``RunScaled``.
    """

    run: Line
    actors: Number


class StopRun(UserRequest, frozen=True, tag=True):
    """User → head: have the run finish and save; sent again: end it at once."""

    run: Line


class DrainNode(UserRequest, frozen=True, tag=True):
    """User → head: move the actors of the node elsewhere and place no others there."""

    node: Line


class RunScaled(Message, frozen=True, tag=True):
    """Run → head, or run → user on one machine: ``ScaleRun`` is carried out, or why it is not.

    ``actors`` take part from now on, ``most`` are registered.
    """

    actors: Small
    most: Small
    fault: Text = ""


class Answer(Message, frozen=True, tag=True):
    """Head → user: plain data; ``fault`` says what was wrong with the request, if anything.

    ``missing`` names an archive to be sent (``Archive``) before the same is asked again.
    """

    data: dict[str, Any] = {}
    fault: Text = ""
    missing: Digest = ""

    def __post_init__(self) -> None:
        check_plain(self.data)


# -- run process <-> head daemon (ipc) -------------------------------------------------------------


class RunUp(Message, frozen=True, tag=True):
    """Run → head: registered, listening, and in want of places for ``actors`` actors."""

    run: Name
    epoch: Count
    pid: Small
    plan: bytes
    folder: Line
    steering: Line
    experience: tuple[Line, ...]
    actors: Some


class Placed(Message, frozen=True, tag=True):
    """Head → run: where each actor lives from now on (actor → node), and why that changed.

    ``gone`` are nodes that will not be heard of again; an actor that is left out has no place yet.
    """

    actors: dict[Small, Name]
    gone: tuple[Name, ...] = ()
    why: Text = ""


class RunNews(Message, frozen=True, tag=True):
    """Run → head, a few times a second: how it goes, as in ``artos status --json``.

    ``facts`` are the fields of ``head.records.status.Status``. The last one a run sends has the
    state done, interrupted, failed or refused, and the reasons in ``waits_for``.
    """

    run: Name
    state: Line
    waits_for: Text = ""
    facts: dict[str, Any] = {}

    def __post_init__(self) -> None:
        check_plain(self.facts)


# -- site (a run on a worker) <-> run process: steering --------------------------------------------


class SiteUp(Message, frozen=True, tag=True):
    """Site → run: ready for actors. ``criu`` is the version that makes images, "" if none can."""

    node: Name
    epoch: Count
    slots: Few
    criu: Line = ""


class Start(Message, frozen=True, tag=True):
    """Run → site: start the member; its block begins at row ``base`` (the first it will write).

    ``term`` counts the places an actor had: rows of an older term are refused. The same term and a
    block that is there mean that the actor goes on where its block ends. It goes on as it was
    elsewhere if the ``parcel`` of that number (0: none) can be had and is of use.
    """

    member: Small
    term: Count
    base: Count
    parcel: Count = 0


class Call(Message, frozen=True, tag=True):
    """Run → site: have the member do this, once weights of ``version`` or newer are there."""

    member: Small
    call: Invoke
    version: Version = -1


class End(Message, frozen=True, tag=True):
    """Run → site: kill what is left of the member; if it ``leaves``, its block may go, too."""

    member: Small
    leaves: bool = False


class Prepare(Message, frozen=True, tag=True):
    """Run → site: see ``Members.prepare``; the other fields as in ``Start``."""

    member: Small
    term: Count
    base: Count
    parcel: Count = 0


class Retire(Message, frozen=True, tag=True):
    """Run → site: see ``Members.retire``."""

    member: Small


class CloseSite(Message, frozen=True, tag=True):
    """Run → site: let actors end, ship what is committed, report, be gone."""


class Said(Message, frozen=True, tag=True):
    """Site → run: what an actor reported (``told``), with the rows its block then held."""

    member: Small
    term: Count
    told: Ready | Done | Failed
    written: Count


class Died(Message, frozen=True, tag=True):
    """Site → run: an actor's process is gone; the fields are those of an ``ExitReport``."""

    member: Small
    term: Count
    why: Text
    step: Version | None
    own: bool
    fatal: bool
    written: Count


class Pack(Message, frozen=True, tag=True):
    """Run → site: the member, which is idle, moves: make a parcel of that number of its image."""

    member: Small
    number: Count


class Packed(Message, frozen=True, tag=True):
    """Site → run: the parcel is there; or ``why`` there will be none, its actor is as it was."""

    number: Count
    why: Text = ""


class Bring(Message, frozen=True, tag=True):
    """Run → site that packed a parcel, site → run for one it was promised: bytes from ``start``."""

    number: Count
    start: Count = 0


class Piece(Bulk, frozen=True, tag=True):
    """The answer to ``Bring``: bytes of a parcel of ``size`` bytes; 0: there is none (any more)."""

    number: Count
    start: Count
    size: Count = 0
    content: bytes = b""


class Unfit(Message, frozen=True, tag=True):
    """Site → run: a parcel was of no use, and ``why``; its actor begins anew."""

    number: Count
    why: Text


class SiteNews(Message, frozen=True, tag=True):
    """Site → run, a few times a second: books, and whose calls wait for a slot (``held_back``).

    ``bill`` are the fields of ``artos.usage.Bill``; ``written`` counts rows committed per actor;
    ``faults`` and ``malformed`` are as in ``Load``, of the site and its transfer agent.
    """

    bill: dict[str, Any]
    held_back: tuple[Small, ...] = ()
    written: dict[Small, Count] = {}
    wire_bytes: Count = 0
    faults: Small = 0
    malformed: Small = 0

    def __post_init__(self) -> None:
        check_plain(self.bill)


class SiteLog(Bulk, frozen=True, tag=True):
    """Site → run, when it closes: the end of a log of its own, of its agent or of an actor."""

    name: Name
    content: bytes = b""


class SiteClosed(Message, frozen=True, tag=True):
    """Site → run: the last message: everything committed has arrived, or how much has not."""

    bill: dict[str, Any]
    unsent: dict[Small, Count] = {}

    def __post_init__(self) -> None:
        check_plain(self.bill)


# -- transfer agent <-> replay buffer: experience and weights --------------------------------------


class Greet(Message, frozen=True, tag=True):
    """Agent → replay: who I am; answered with ``Arrivals`` of every actor named in ``terms``.

    What was sent before the greeting of the same ``number`` was answered may be lost.
    """

    node: Name
    epoch: Count
    terms: dict[Small, Count]
    number: Count = 0


class Chunk(Bulk, frozen=True, tag=True):
    """Agent → replay: rows ``start`` to ``stop`` of some keys of one actor, key after key.

    ``raw`` has per key the bytes of its rows before compression, ``sizes`` those in ``content``;
    ``packed`` says which are LZ4 blocks. Rows may come twice; they are taken once. ``ends``: no
    more rows of these keys follow for now, so whoever waits for them should look.
    """

    actor: Small
    term: Count
    start: Count
    stop: Count
    keys: tuple[Line, ...]
    raw: tuple[Count, ...]
    packed: tuple[bool, ...]
    ends: bool = True
    sizes: tuple[Count, ...] = ()
    content: memoryview = _NOTHING


class Arrivals(Message, frozen=True, tag=True):
    """Replay → agent: rows of an actor taken so far, per key; it may send rows below ``room``.

    ``credit`` bytes (before compression) may be on their way at a time, of all its actors.
    ``answers`` is the number of the greeting that asked, or 0.
    """

    actor: Small
    term: Count
    written: dict[Line, Count]
    room: Count
    credit: Count = 0
    answers: Count = 0


class Pull(Message, frozen=True, tag=True):
    """Agent → replay: I have weights of version ``have``; answered once there are newer ones."""

    have: Version


class Weights(Bulk, frozen=True, tag=True):
    """Replay → agent: a piece of the weights of a version, numbers of type ``dtype``.

    It begins at byte ``start`` of ``total``; ``checksum`` is the XXH3 of ``content``. The pieces of
    a version come in order and nothing comes between them.
    """

    version: Count
    dtype: Line
    checksum: Word
    start: Count
    total: Count
    content: memoryview = _NOTHING


# -- run process or site -> its data process (ipc, same machine) -----------------------------------


class Terms(Message, frozen=True, tag=True):
    """Run → replay, site → agent: the term of each actor that has a place (here), and its base.

    ``nodes`` says to a replay process which node an actor's rows may come from ("": none).
    """

    terms: dict[Small, Count]
    bases: dict[Small, Count]
    nodes: dict[Small, Line] = {}


class Listening(Message, frozen=True, tag=True):
    """Replay → run: the terms are in force and agents may connect to ``endpoint``."""

    endpoint: Line


class Nudge(Message, frozen=True, tag=True):
    """Run → replay: rows were released, a version published. Site → agent: rows were committed."""


class Finish(Message, frozen=True, tag=True):
    """Site → agent: ship what is committed within ``seconds``, then end."""

    seconds: Seconds


TYPES: tuple[type[Message], ...] = tuple(
    kind
    for kind in vars().copy().values()
    if isinstance(kind, type) and issubclass(kind, Message) and kind.__struct_config__.tag
)
"""Every message that is sent: roots have no tag."""

_encode = msgspec.msgpack.Encoder().encode
_BULKS = tuple(kind for kind in TYPES if issubclass(kind, Bulk))
_unpacked = Unpacker[Message](*(kind for kind in TYPES if kind not in _BULKS))
_unpacked_bulk = Unpacker[Message](*(kind for kind in _BULKS if kind is not Seal))


def encode(message: Message, *content: Any) -> bytes:
    """A message as one frame; ``content`` that lies in pieces takes the place of the field's."""
    if isinstance(message, Seal):
        return _sealed(message)
    if not isinstance(message, Bulk):
        return _encode(message)
    pieces = content or (message.content,)  # type: ignore[attr-defined]
    rest = _encode(msgspec.structs.replace(message, content=_NOTHING))
    return b"".join((bytes((_BULK, *divmod(len(rest), 256))), rest, *pieces))


def decode(data: bytes | memoryview) -> Message:
    """A message of any kind.

    Raises:
        BadMessage: the bytes are no valid message; says which field is wrong.
    """
    if len(data) < _FRONT or data[0] != _BULK:
        return _unpacked(data)
    frame = memoryview(data)
    end = _FRONT + frame[1] * 256 + frame[2]
    if end == _FRONT:
        return _unsealed(frame)
    return _unpacked_bulk(frame[_FRONT:end], frame[end:])


def _sealed(seal: Seal) -> bytes:
    return (
        _SEAL.pack(_BULK, seal.session, seal.of, seal.number, seal.took, seal.more) + seal.content
    )


def _unsealed(frame: memoryview) -> Seal:
    if len(frame) < _SEAL.size:
        raise BadMessage(f"a Seal of {len(frame)} bytes")
    _, session, of, number, took, more = _SEAL.unpack_from(frame)
    if session >= LIVES or of >= LIVES or number > MOST or took > MOST:
        raise BadMessage(f"a Seal with {max(session, of, number, took)}")
    return Seal(session, of, number, took, more, frame[_SEAL.size :])
