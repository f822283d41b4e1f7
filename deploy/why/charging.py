"""Charges every second of a run to what it went into. Pure.

A member that waits is charged with what was missing last: the ``cause`` of the firing that it was
then invoked for. From the end of the last update back, the same question, asked of the cause again
and again, leads along the chain of work and waits that decided when the run got there. What is on
it, and nothing else, made the run take as long as it took.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from artos.specs.members import in_order
from deploy.tracing.events import AWAY, HAND_OVER, RESTART
from deploy.why.history import STALL, History, Invocation, scaled, within

CLOCK, START, END = "clock", "start", "end"
WAIT = "wait: "
"""Begins the names of kinds of time in which a member waited."""


class Charge(NamedTuple):
    """A kind of time on the chain, and whose it was."""

    kind: str
    member: str


def shares(history: History, waited_for: str = "") -> dict[str, dict[str, float]]:
    """The shares of each member's wall time, from its first process to the end, by kind.

    Who has nothing to do any more waits for ``waited_for``, or for the end.
    """
    members = in_order({**history.members, **history.under_way})
    return {member: _of_member(history, member, waited_for or END) for member in members}


def _of_member(history: History, member: str, waited_for: str) -> dict[str, float]:
    past = [*history.members.get(member, ()), *filter(None, [history.under_way.get(member)])]
    began = history.ready.get(member, history.began)
    spent, at = defaultdict[str, float](float), began
    for each in past:
        since = max(at, min(each.fired, each.begin))
        if (idle := since - at) > 0:
            spent[f"{WAIT}{each.cause or CLOCK}"] += idle - each.idle_restart - each.idle_away
            spent[f"{WAIT}{RESTART}"] += each.idle_restart
            spent[f"{WAIT}{AWAY}"] += each.idle_away
        for kind, seconds in _turns_of_others(each, since) if history.inline else ():
            spent[f"{WAIT}{kind}"] += seconds
        for kind, seconds in each.kept.items():
            spent[f"{WAIT}{kind}"] += seconds
        for kind, seconds in each.work.items():
            spent[kind] += seconds
        spent[f"{WAIT}{RESTART}"] += sum(each.held.values())
        spent[STALL] += each.stalled
        at = each.end
    if history.ended > at:
        left = max(at, history.left.get(member, history.ended))
        restart = within(history.restarts.get(member, ()), at, left)
        spent[f"{WAIT}{RESTART}"] += restart
        spent[f"{WAIT}{waited_for}"] += left - at - restart
        spent[f"{WAIT}{AWAY}"] += history.ended - left
    wall = history.ended - began
    return {kind: s / wall for kind, s in spent.items() if s > 0} if wall > 0 else {}


def _turns_of_others(each: Invocation, since: float) -> Iterator[tuple[str, float]]:
    """Who worked in the process of all from then until it was free for this one, and how long."""
    earlier, left = each.before, each.begin - sum(each.kept.values()) - since
    while earlier is not None and earlier.end > since:
        seconds = earlier.end - max(earlier.begin, since)
        left -= seconds
        yield earlier.member, seconds
        earlier = earlier.before
    yield HAND_OVER, max(0.0, left)


def chain(history: History, last: Invocation, since: float) -> dict[Charge, float]:
    """The seconds from ``since`` to the end of ``last``, by what decided when it came."""
    found, at = defaultdict[Charge, float](float), last.end
    now: Invocation | None = last

    def charge(kind: str, member: str, until: float) -> None:
        nonlocal at
        if (seconds := at - max(until, since)) > 0:
            found[Charge(kind, member)] += seconds
            at -= seconds

    while now is not None and at > since:
        # What it did is seen before it has answered, and the answer before it is booked.
        start = min(at, max(now.free, now.fired))
        begin = max(start, at - (now.end - now.begin))
        inside = {Charge(kind, now.member): part for kind, part in now.work.items()}
        inside |= {Charge(RESTART, server): part for server, part in now.held.items()}
        inside |= {Charge(STALL, now.member): now.stalled} if now.stalled else {}
        before_it = {Charge(kind, now.member): part for kind, part in now.kept.items()}
        for parts, seconds in ((inside, at - begin), (before_it, begin - start)):
            for (kind, member), part in scaled(parts, seconds).items():
                charge(kind, member, at - part)
        if now.before is not None and now.free >= now.fired:
            now = now.before  # it was busy, and nothing else kept it
            continue
        before = history.at(now.cause, at, now.firing) if now.cause else now.before
        charge(CLOCK if before else START, now.member, before.end if before else since)
        now = before
    return dict(found)
