"""Every message between nodes, in one place: tagged, typed, versioned, no pickle (design §6, §10).

A message on a socket is one frame of MessagePack; only those of a ``Chunk`` are followed by raw
frames. (What a calling socket receives must be one frame: when a connection breaks between two,
libzmq 4.3.5 aborts the process, ``!_more (src/fq.cpp:80)``.) What does not fit its type is a
``BadMessage``: counted, answered with ``Refusal``, and nothing changes.
"""

from __future__ import annotations

from typing import Annotated, Any, Union

import msgspec

from artos.errors import BadMessage
from artos.messages import Done, Failed, Invoke, Ready

PROTOCOL = 2
"""Raised with every change of a message; peers with another number are refused at hello."""


Count = Annotated[int, msgspec.Meta(ge=0)]


class Message(msgspec.Struct, frozen=True, tag=True):
    """Root of all messages between nodes."""


class Refusal(Message, frozen=True, tag=True):
    """Any → any: your last message changed nothing, and why."""

    why: str


class Seal(Message, frozen=True, tag=True):
    """Any → any, around all that posts send; see ``artos.transport.channel.Channel``.

    ``content`` is piece ``number`` (from 1) of what ``session`` tells session ``of``, ``more``
    pieces of the same message follow; 0: a beat, without content. ``took`` pieces of ``of``'s
    have been taken. ``of`` 0: I have not heard you yet.
    """

    session: Count
    of: Count
    number: Count = 0
    took: Count = 0
    more: bool = False
    content: memoryview = memoryview(b"")


class Restarted(Message, frozen=True, tag=True):
    """Never sent: a post hands it out where its peer is another one than before.

    It has restarted or has forgotten us; what was on its way to the old one is gone.
    """


# -- worker daemon <-> head daemon -----------------------------------------------------------------


class Hello(Message, frozen=True, tag=True):
    """Worker → head: I am here. ``slots`` CPUs may be used; ``runs`` (run → epoch) go on here.

    ``replaces`` is the peer name of an earlier daemon of this node that is known to be dead.
    """

    node: str
    protocol: int
    version: str
    slots: int
    memory_mb: int = 0
    runs: dict[str, int] = {}
    replaces: str = ""


class Welcome(Message, frozen=True, tag=True):
    """Head → worker: you belong. A node not heard of for ``deadline`` seconds counts as gone."""

    protocol: int
    version: str
    deadline: float


class Load(Message, frozen=True, tag=True):
    """Worker → head, every second or so: actors alive per run, CPU and memory in use (0 to 1)."""

    actors: dict[str, int] = {}
    cpu: float = 0.0
    memory: float = 0.0


class Assign(Message, frozen=True, tag=True):
    """Head → worker: open a site for this run; one of an older ``epoch`` is closed first.

    ``plan`` is the ``Plan`` as JSON with its paths as on the head, below ``folder``; the user's
    code is the archive of that name ("" where there is none). ``steering`` and ``experience`` are
    endpoints of the run. ``slots`` CPUs are its share of this node.
    """

    run: str
    epoch: int
    plan: bytes
    folder: str
    archive: str
    steering: str
    experience: tuple[str, ...]
    slots: int


class Unassign(Message, frozen=True, tag=True):
    """Head → worker: close the run's site, if there is one."""

    run: str


class SiteEnded(Message, frozen=True, tag=True):
    """Worker → head: the site of a run is gone; ``why`` in words, "" if it was told to end."""

    run: str
    epoch: int
    why: str = ""


class Leaving(Message, frozen=True, tag=True):
    """Worker → head: I am being stopped (SIGTERM) or drained; take my actors elsewhere."""

    why: str


class Bye(Message, frozen=True, tag=True):
    """Worker → head: nothing of me is left; or head → worker: you may go."""


class Fetch(Message, frozen=True, tag=True):
    """Worker → head: send me this archive."""

    archive: str


class Archive(Message, frozen=True, tag=True):
    """Head → worker, user → head: the archive of that name (SHA-256); ``content`` b"": not here."""

    archive: str
    content: bytes = b""


# -- user (artos submit, list, ...) <-> head daemon ------------------------------------------------


class Submit(Message, frozen=True, tag=True):
    """User → head: run this. ``request`` is what ``artos run`` takes, as plain data."""

    request: dict[str, Any]
    archive: str = ""
    placement: str = "spread"


class Ask(Message, frozen=True, tag=True):
    """User → head: ``what`` is list, status, logs, scale, stop, drain or limits.

    ``of`` names a run or a node.
    """

    what: str
    of: str = ""
    value: int = 0


class Answer(Message, frozen=True, tag=True):
    """Head → user: plain data; ``fault`` says what was wrong with the question, if anything.

    ``missing`` names an archive to be sent (``Archive``) before the same is asked again.
    """

    data: dict[str, Any] = {}
    fault: str = ""
    missing: str = ""


# -- run process <-> head daemon (ipc) -------------------------------------------------------------


class RunUp(Message, frozen=True, tag=True):
    """Run → head: registered, listening, and in want of places for ``actors`` actors."""

    run: str
    epoch: int
    pid: int
    plan: bytes
    folder: str
    steering: str
    experience: tuple[str, ...]
    actors: int


class Placed(Message, frozen=True, tag=True):
    """Head → run: where each actor lives from now on (actor → node), and why that changed.

    ``gone`` are nodes that will not be heard of again; an actor that is left out has no place yet.
    """

    actors: dict[int, str]
    gone: tuple[str, ...] = ()
    why: str = ""


class RunNews(Message, frozen=True, tag=True):
    """Run → head, a few times a second: how it goes, as in ``artos status --json``.

    ``facts`` are the fields of ``head.status.Status``. The last one a run sends has the state done,
    interrupted, failed or refused, and the reasons in ``waits_for``.
    """

    run: str
    state: str
    waits_for: str = ""
    facts: dict[str, Any] = {}


class Wish(Message, frozen=True, tag=True):
    """Head → run: ``what`` is scale (to ``value`` actors) or stop (finish and save)."""

    what: str
    value: int = 0


class Wished(Message, frozen=True, tag=True):
    """Run → head: the answer to ``Wish``; ``fault`` says why it was not granted."""

    run: str
    what: str
    fault: str = ""


# -- site (a run on a worker) <-> run process: steering --------------------------------------------


class SiteUp(Message, frozen=True, tag=True):
    """Site → run: ready for actors. ``criu`` is the version that makes images, "" if none can."""

    node: str
    epoch: int
    slots: int
    criu: str = ""


class Start(Message, frozen=True, tag=True):
    """Run → site: start the member; its block begins at row ``base`` (the first it will write).

    ``term`` counts the places an actor had: rows of an older term are refused. The same term and a
    block that is there mean that the actor goes on where its block ends. It goes on as it was
    elsewhere if the ``parcel`` of that number (0: none) can be had and is of use.
    """

    member: int
    term: int
    base: int
    parcel: Count = 0


class Call(Message, frozen=True, tag=True):
    """Run → site: have the member do this, once weights of ``version`` or newer are there."""

    member: int
    call: Invoke
    version: int = -1


class End(Message, frozen=True, tag=True):
    """Run → site: kill what is left of the member; if it ``leaves``, its block may go, too."""

    member: int
    leaves: bool = False


class Prepare(Message, frozen=True, tag=True):
    """Run → site: see ``head.members.Members.prepare``; the other fields as in ``Start``."""

    member: int
    term: int
    base: int
    parcel: Count = 0


class Retire(Message, frozen=True, tag=True):
    """Run → site: see ``head.members.Members.retire``."""

    member: int


class CloseSite(Message, frozen=True, tag=True):
    """Run → site: let actors end, ship what is committed, report, be gone."""


class Said(Message, frozen=True, tag=True):
    """Site → run: what an actor reported (``told``), with the rows its block then held."""

    member: int
    term: int
    told: Ready | Done | Failed
    written: int


class Died(Message, frozen=True, tag=True):
    """Site → run: an actor's process is gone; the fields are those of ``artos.runtime.death``."""

    member: int
    term: int
    why: str
    step: int | None
    own: bool
    fatal: bool
    written: int


class Pack(Message, frozen=True, tag=True):
    """Run → site: the member, which is idle, moves: make a parcel of that number of its image."""

    member: int
    number: Count


class Packed(Message, frozen=True, tag=True):
    """Site → run: the parcel is there; or ``why`` there will be none, its actor is as it was."""

    number: Count
    why: str = ""


class Bring(Message, frozen=True, tag=True):
    """Run → site that packed a parcel, site → run for one it was promised: bytes from ``start``."""

    number: Count
    start: Count = 0


class Piece(Message, frozen=True, tag=True):
    """The answer to ``Bring``: bytes of a parcel of ``size`` bytes; 0: there is none (any more)."""

    number: Count
    start: Count
    size: Count = 0
    content: bytes = b""


class Unfit(Message, frozen=True, tag=True):
    """Site → run: a parcel was of no use, and ``why``; its actor begins anew."""

    number: Count
    why: str


class SiteNews(Message, frozen=True, tag=True):
    """Site → run, a few times a second: books, and whose calls wait for a slot (``held_back``).

    ``bill`` are the fields of ``head.status.Bill``; ``written`` counts rows committed per actor.
    """

    bill: dict[str, Any]
    held_back: tuple[int, ...] = ()
    written: dict[int, int] = {}
    wire_bytes: int = 0


class SiteClosed(Message, frozen=True, tag=True):
    """Site → run: the last message: everything committed has arrived, or how much has not."""

    bill: dict[str, Any]
    unsent: dict[int, int] = {}


# -- transfer agent <-> replay buffer: experience and weights --------------------------------------


class Greet(Message, frozen=True, tag=True):
    """Agent → replay: who I am; answered with ``Arrivals`` of every actor named in ``terms``.

    What was sent before the greeting of the same ``number`` was answered may be lost.
    """

    node: str
    epoch: int
    terms: dict[int, int]
    number: int = 0


class Chunk(Message, frozen=True, tag=True):
    """Agent → replay: rows ``start`` to ``stop`` of some keys of one actor; a raw frame per key.

    ``raw`` has per key the bytes of its rows before compression; ``packed`` says which frames are
    LZ4 blocks. Rows may come twice; they are taken once. ``ends``: no more rows of these keys
    follow for now, so whoever waits for them should look.
    """

    actor: int
    term: int
    start: int
    stop: int
    keys: tuple[str, ...]
    raw: tuple[int, ...]
    packed: tuple[bool, ...]
    ends: bool = True


class Arrivals(Message, frozen=True, tag=True):
    """Replay → agent: rows of an actor taken so far, per key; it may send rows below ``room``.

    ``credit`` bytes (before compression) may be on their way at a time, of all its actors.
    ``answers`` is the number of the greeting that asked, or 0.
    """

    actor: int
    term: int
    written: dict[str, int]
    room: int
    credit: int = 0
    answers: int = 0


class Pull(Message, frozen=True, tag=True):
    """Agent → replay: I have weights of version ``have``; answered once there are newer ones."""

    have: int


class Weights(Message, frozen=True, tag=True):
    """Replay → agent: a piece of the weights of a version, numbers of type ``dtype``.

    It begins at byte ``start`` of ``total``; ``checksum`` is the XXH3 of ``content``. The pieces of
    a version come in order and nothing comes between them.
    """

    version: int
    dtype: str
    checksum: int
    start: int
    total: int
    content: memoryview


# -- run process or site -> its data process (ipc, same machine) -----------------------------------


class Terms(Message, frozen=True, tag=True):
    """Run → replay, site → agent: the term of each actor that has a place (here), and its base.

    ``nodes`` says to a replay process which node an actor's rows may come from ("": none).
    """

    terms: dict[int, int]
    bases: dict[int, int]
    nodes: dict[int, str] = {}


class Listening(Message, frozen=True, tag=True):
    """Replay → run: the terms are in force and agents may connect to ``endpoint``."""

    endpoint: str


class Nudge(Message, frozen=True, tag=True):
    """Run → replay: rows were released, a version published. Site → agent: rows were committed."""


class Finish(Message, frozen=True, tag=True):
    """Site → agent: ship what is committed within ``seconds``, then end."""

    seconds: float


_TYPES = (
    Refusal, Seal, Hello, Welcome, Load, Assign, Unassign, SiteEnded, Leaving, Bye, Fetch, Archive,
    Submit, Ask, Answer, RunUp, Placed, RunNews, Wish, Wished, SiteUp, Start, Call, End, Prepare,
    Retire, CloseSite, Said, Died, Pack, Packed, Bring, Piece, Unfit, SiteNews, SiteClosed, Greet,
    Chunk, Arrivals, Pull, Weights, Terms, Listening, Nudge, Finish,
)  # fmt: skip

encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Union[_TYPES])  # noqa: UP007


def decode(data: bytes | memoryview) -> Message:
    """A message of any kind.

    Raises:
        BadMessage: the bytes are no valid message; says which field is wrong.
    """
    try:
        message: Message = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadMessage(str(error)) from error
    return message
