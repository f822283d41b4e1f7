"""Messages between a run process and its executors on the nodes."""

from __future__ import annotations

from typing import Any

from msgspec import field

from artos.protocol.invocations import Branch, Done, Failed, Invoke, Ready
from artos.protocol.message import Bulk, Message
from artos.specs.fields import Count, Few, Line, Name, Seconds, Small, Text, Version, check_plain
from artos.specs.members import Member


class ExecutorUp(Message, frozen=True, tag=True):
    """Executor → run: it is there; said again when it is ``warm``: actors can be at work then.

    What they share may be brought there before that. ``criu`` is the version of CRIU there, "" for
    none.
    """

    node: Name
    epoch: Count
    slots: Few
    criu: Line = ""
    warm: bool = True


class Start(Message, frozen=True, tag=True):
    """Run → executor: start the member; its block begins at row ``base`` (the first it will write).

    ``term`` counts the places an actor had: rows of an older term are refused. If there is a block
    of the same term, the actor goes on where that block ends. If ``bundle`` (0: none) can be
    fetched and used, the actor goes on as it was on its last node; ``held``: by what it held there,
    not by an image. An image may need ``memory``, another bundle (0: none), which is fetched first
    unless it is here. A server has no block, and its term counts its starts on this node.
    """

    member: Member
    term: Count
    base: Count
    bundle: Count = 0
    held: bool = False
    memory: Count = 0


class Call(Message, frozen=True, tag=True):
    """Run → executor: pass ``call`` on to the member once weights of ``version`` are there.

    ``others`` are versions of other learners that are to be there, too, by the names of these.
    """

    member: Member
    call: Invoke
    version: Version = -1
    others: dict[Name, Version] = field(default_factory=dict)


class End(Message, frozen=True, tag=True):
    """Run → executor: kill the member; if it ``leaves`` the node, its block may go, too."""

    member: Member
    leaves: bool = False


class Prepare(Message, frozen=True, tag=True):
    """Run → executor: see ``Members.prepare``; the other fields as in ``Start``."""

    member: Member
    term: Count
    base: Count
    bundle: Count = 0
    within: Seconds = 0.0
    held: bool = False
    memory: Count = 0


class Retire(Message, frozen=True, tag=True):
    """Run → executor: see ``Members.retire``."""

    member: Member


class CloseExecutor(Message, frozen=True, tag=True):
    """Run → executor: let the actors end, ship all committed rows, report, and end.

    ``hand_over``: send what each actor held before that.
    """

    hand_over: bool = False


class HeldState(Bulk, frozen=True, tag=True):
    """Executor → run: what an actor held when it ended, or ``why`` that cannot be said.

    Run → executor, before ``Start`` or ``Prepare``: what the actor is to go on from.
    """

    member: Member
    term: Count
    why: Text = ""
    content: bytes = b""


class ActorReport(Message, frozen=True, tag=True):
    """Executor → run: what a member says (``told``), and how many rows an actor had written."""

    member: Member
    term: Count
    told: Ready | Done | Failed
    written: Count


class Died(Message, frozen=True, tag=True):
    """Executor → run: a member's process is gone; the fields are those of an ``ExitReport``."""

    member: Member
    term: Count
    why: Text
    step: Version | None
    own: bool
    fatal: bool
    written: Count


class Pack(Message, frozen=True, tag=True):
    """Run → executor: the idle member is to move: make bundle ``number`` of its image.

    Where that cannot be, or an ``image`` does not fit where it goes, of what it holds. The memory
    of the name ``without`` need not be in it.
    """

    member: Member
    number: Count
    image: bool = True
    without: Line = ""


class PackMemory(Message, frozen=True, tag=True):
    """Run → executor: make bundle ``number`` of the memory that the actors there share."""

    number: Count


class TakeMemory(Message, frozen=True, tag=True):
    """Run → executor: fetch that bundle, ahead of actors that will come."""

    number: Count


class MemoryHere(Message, frozen=True, tag=True):
    """Executor → run: the memory in that bundle is here; or ``why`` it cannot be."""

    number: Count
    why: Text = ""


class Packed(Message, frozen=True, tag=True):
    """Executor → run: the bundle is made; or ``why`` it is not, and the actor is unchanged.

    ``held``: of what it held, not of its image. Its process has ended, and another one goes on from
    there if it stays. ``memory`` is the name of the memory that it is of, or that it is without.
    """

    number: Count
    why: Text = ""
    held: bool = False
    memory: Line = ""


class ReadPiece(Message, frozen=True, tag=True):
    """Run → packing executor, restoring executor → run: send bytes of a bundle from ``start``."""

    number: Count
    start: Count = 0


class BundlePiece(Bulk, frozen=True, tag=True):
    """The answer to ``ReadPiece``: bytes of a bundle of ``size`` bytes, 0 if there is none."""

    number: Count
    start: Count
    size: Count = 0
    content: bytes = b""


class BundleRejected(Message, frozen=True, tag=True):
    """Executor → run: a bundle could not be used (``why``); its actor begins anew."""

    number: Count
    why: Text


class BranchActor(Bulk, frozen=True, tag=True):
    """Run → executor: have the member's episode continued beside it, as ``order`` says.

    Files and CPUs are those of the node; ``content`` are the weights to act with, if any are named.
    Answered by ``ActorBranched`` with the same number, whatever comes of it.
    """

    member: Member
    number: Count
    order: Branch
    content: bytes = b""


class ActorBranched(Bulk, frozen=True, tag=True):
    """Executor → run: that order is over; ``content`` is what is written down of it, as JSON."""

    number: Count
    content: bytes = b""


class ExecutorNews(Message, frozen=True, tag=True):
    """Executor → run, a few times a second: usage, counts, and members that wait for a slot.

    ``usage`` are the fields of ``artos.protocol.usage.Usage``; ``written`` counts rows committed
    per actor; ``faults`` and ``malformed`` are as in ``Load``, of the executor and its transfer
    agent.
    """

    usage: dict[str, Any]
    waits_for_slot: tuple[Member, ...] = ()
    written: dict[Small, Count] = field(default_factory=dict)
    wire_bytes: Count = 0
    faults: Small = 0
    malformed: Small = 0

    def __post_init__(self) -> None:
        check_plain(self.usage)


class ExecutorLog(Bulk, frozen=True, tag=True):
    """Executor → run, on closing: the end of the log of the executor, its agent or an actor."""

    name: Name
    content: bytes = b""


class ExecutorClosed(Message, frozen=True, tag=True):
    """Executor → run: the last message; ``unsent`` counts committed rows that did not arrive."""

    usage: dict[str, Any]
    unsent: dict[Small, Count] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_plain(self.usage)
