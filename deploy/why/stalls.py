"""Tells what took far longer once than it usually does from the work that is always done. Pure."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from deploy.why.history import History, Invocation, scaled

_TIMES, _LEAST = 20.0, 1.0
"""How many times as long as usual, and how many seconds longer, something takes that stalls."""
_FEWEST, _RARE = 4, 20
"""Invocations that say what is usual, the first one left out, and how many there are for each that
stalls; what is more frequent is how this member works."""


def tell_apart(history: History) -> None:
    """Leave of each stall as work what the same trigger usually has the same member do."""
    for member, past in history.members.items():
        by_trigger = defaultdict[str, list[Invocation]](list)
        for each in (*past, *filter(None, [history.under_way.get(member)])):
            by_trigger[each.trigger].append(each)
        for same in by_trigger.values():
            # The first one may load and compile what later ones have.
            took = {id(each): sum(each.work.values()) for each in same[1:]}
            worked = [each for each in same[1:] if took[id(each)] > 0]
            if len(worked) < _FEWEST:
                continue
            usual = median(took[id(each)] for each in worked)
            most = max(_TIMES * usual, usual + _LEAST)
            long = [each for each in worked if took[id(each)] > most]
            for each in long if len(long) <= max(1, len(worked) // _RARE) else ():
                each.stalled = took[id(each)] - usual
                each.work = scaled(each.work, usual)
