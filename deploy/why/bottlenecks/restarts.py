"""Members die, and others wait until they are started again."""

from __future__ import annotations

from deploy.tracing.events import RESTART
from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding


def look(run: Evidence) -> Finding | None:
    """What ends a member is in its log; that it was killed only the run can say, in its own."""
    lost = {charge.member: s for charge, s in run.chain.items() if charge.kind == RESTART}
    if not lost:
        return None
    member = max(lost, key=lambda each: lost[each])
    died, share = run.history.deaths[member], run.share(RESTART)
    seconds = sum(end - begin for begin, end in run.history.restarts[member])
    figure = (
        f"{share:.0%} of the time members that died are started again, and do again what was lost: "
        f"{member} died {died.total()} x, and was away for {seconds:.3g} s"
    )
    process = max(died, key=lambda each: died[each])
    log = process.replace(" ", "-")
    advice = (
        f"see what ends {process}: artos logs RUN, and artos logs RUN --log {log}",
        "if it was killed as memory ran out, fewer actors or smaller batches",
    )
    return Finding("restarts", without(share), figure, advice)
