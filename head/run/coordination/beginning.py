"""How a run begins: from the start, with rows and versions of an earlier part, with its books."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artos.specs.members import ACTORS, Member
from triggers.events import Joined, Resumed, SampledBefore

if TYPE_CHECKING:
    from head.run.coordination.coordinator import Coordinator


def announce(run: Coordinator) -> None:
    """Tell the triggers of the actors, and of rows that were there before this part of the run."""
    for learner in run.learners.values():
        learner.begin()
    if rows := run.progress.rows_before:
        run.feed(SampledBefore(rows))
    for actor, block in run.ports.blocks.items():
        if rows := block.written:
            run.feed(Resumed(actor, rows))
    for actor in run.actors:
        run.feed(Joined(actor))


def start(run: Coordinator) -> None:
    """The members are being started: their deadlines begin to run."""
    for member in (*run.members.hosted, *(Member(ACTORS, actor) for actor in run.actors)):
        run.roster.started(member)
    for concern in run.concerns:
        concern.begin()


def go_on(run: Coordinator) -> None:
    """Begin with the books of a run that was saved; what it left undone is still to be done."""
    now = run.ports.clock.now()
    for actor, block in run.ports.blocks.items():
        run.ports.row_source.rewind(actor, block.incarnation, run.rounds.written_by(actor))
    for member in {member for member, _ in run.invocations}:
        run.invocations.restamp(member, now)
    start(run)
    withheld, run.withheld[:] = [*run.withheld], []
    for firing in withheld:
        run.ports.journal.fired(now, firing)  # what it said then may be taken back
        run.fire(firing)
