"""Something took far longer once than it usually does, and all waited for it."""

from __future__ import annotations

from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding
from deploy.why.history import STALL, is_actor


def look(run: Evidence) -> Finding | None:
    """What kept it is not in the journal: its log, or a look at it, may tell."""
    lost = {charge.member: s for charge, s in run.chain.items() if charge.kind == STALL}
    if not lost:
        return None
    member = max(lost, key=lambda each: lost[each])
    under_way = run.history.under_way.get(member)
    done = [each for each in run.history.members.get(member, ()) if each.stalled]
    what = "round" if is_actor(member) else "update"
    share = run.share(STALL)
    if under_way and under_way.stalled:
        seconds = under_way.end - under_way.begin
        figure = f"a {what} of {member} that is not over has taken {seconds:.3g} s"
        longest, word = under_way, "does"
    else:
        longest = max(done, key=lambda each: each.stalled)
        seconds = longest.end - longest.begin
        figure = f"one {what} of {member} took {seconds:.3g} s, at t = {longest.begin:.3g} s"
        word = "did then"
    usual = sum(longest.work.values())
    figure = (
        f"{figure}, where one usually takes {usual:.3g} s: {share:.0%} of the time goes "
        "into what takes so long so rarely"
    )
    log = member.replace(" ", "-")
    advice = (f"see what {member} {word}: artos logs RUN, and artos logs RUN --log {log}",)
    return Finding("stall", without(share), figure, advice)
