"""What a run process and its executors on the nodes say to each other.

An executor is called an executor here: a run on a node.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from artos.protocol.fields import Count, Few, Line, Name, Small, Text, Version, check_plain
from artos.protocol.invocations import Done, Failed, Invoke, Ready
from artos.protocol.message import Bulk, Message


class ExecutorUp(Message, frozen=True, tag=True):
    """Executor → run: ready for actors. ``criu`` is its CRIU's version, "" if it has none."""

    node: Name
    epoch: Count
    slots: Few
    criu: Line = ""


class Start(Message, frozen=True, tag=True):
    """Run → executor: start the member; its block begins at row ``base`` (the first it will write).

    ``term`` counts the places an actor had: rows of an older term are refused. The same term and a
    block that is there mean that the actor goes on where its block ends. It goes on as it was
    elsewhere if the ``bundle`` of that number (0: none) can be had and is of use.
    """

    member: Small
    term: Count
    base: Count
    bundle: Count = 0


class Call(Message, frozen=True, tag=True):
    """Run → executor: have the member do this, once weights of ``version`` or newer are there."""

    member: Small
    call: Invoke
    version: Version = -1


class End(Message, frozen=True, tag=True):
    """Run → executor: kill what is left of the member; if it ``leaves``, its block may go, too."""

    member: Small
    leaves: bool = False


class Prepare(Message, frozen=True, tag=True):
    """Run → executor: see ``Members.prepare``; the other fields as in ``Start``."""

    member: Small
    term: Count
    base: Count
    bundle: Count = 0


class Retire(Message, frozen=True, tag=True):
    """Run → executor: see ``Members.retire``."""

    member: Small


class CloseExecutor(Message, frozen=True, tag=True):
    """Run → executor: let actors end, ship what is committed, report, be gone."""


class ActorReport(Message, frozen=True, tag=True):
    """Executor → run: what an actor reported (``told``), with the rows its block then held."""

    member: Small
    term: Count
    told: Ready | Done | Failed
    written: Count


class Died(Message, frozen=True, tag=True):
    """Executor → run: an actor's process is gone; the fields are those of an ``ExitReport``."""

    member: Small
    term: Count
    why: Text
    step: Version | None
    own: bool
    fatal: bool
    written: Count


class Pack(Message, frozen=True, tag=True):
    """Run → executor: the member, which is idle, moves: make bundle ``number`` of its image."""

    member: Small
    number: Count


class Packed(Message, frozen=True, tag=True):
    """Executor → run: the bundle is there; or ``why`` there is none, its actor is as it was."""

    number: Count
    why: Text = ""


class ReadPiece(Message, frozen=True, tag=True):
    """Bytes of a bundle from ``start``: the run asks its packer, an executor asks the run."""

    number: Count
    start: Count = 0


class BundlePiece(Bulk, frozen=True, tag=True):
    """The answer to ``ReadPiece``: bytes of a bundle of ``size`` bytes, 0 if there is none."""

    number: Count
    start: Count
    size: Count = 0
    content: bytes = b""


class BundleRejected(Message, frozen=True, tag=True):
    """Executor → run: a bundle was of no use, and ``why``; its actor begins anew."""

    number: Count
    why: Text


class ExecutorNews(Message, frozen=True, tag=True):
    """Executor → run, a few times a second: books, and the members that wait for a slot.

    ``usage`` are the fields of ``artos.usage.Usage``; ``written`` counts rows committed per actor;
    ``faults`` and ``malformed`` are as in ``Load``, of the executor and its transfer agent.
    """

    usage: dict[str, Any]
    waits_for_slot: tuple[Small, ...] = ()
    written: dict[Small, Count] = field(default_factory=dict)
    wire_bytes: Count = 0
    faults: Small = 0
    malformed: Small = 0

    def __post_init__(self) -> None:
        check_plain(self.usage)


class ExecutorLog(Bulk, frozen=True, tag=True):
    """Executor → run, when it closes: the end of a log of its own, of its agent or of an actor."""

    name: Name
    content: bytes = b""


class ExecutorClosed(Message, frozen=True, tag=True):
    """Executor → run: the last message: everything committed has arrived, or how much has not."""

    usage: dict[str, Any]
    unsent: dict[Small, Count] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_plain(self.usage)
