"""Every row is drawn so often that actors wait for the learner."""

from __future__ import annotations

from statistics import fmean

from deploy.tracing.events import HAND_OVER
from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding
from deploy.why.history import DEVICE, NETWORK, is_actor

_SPARE = 0.9
"""Share of what would let both work all the time."""
_OF_LEARNER = (HAND_OVER, NETWORK, DEVICE)
"""What of the learner's time, besides its work, there is less of where it updates less often."""


def look(run: Evidence) -> Finding | None:
    """Rows are drawn as often as the learner can while actors work all the time."""
    fields = run.fields("ReplayTrigger")
    if fields is None or not run.rounds or not run.updates:
        return None
    ratio = fields.get("ratio")
    busy = fmean(run.busy(member) for member in run.rounds)
    learns = run.busy(run.updates[0].member)
    if not isinstance(ratio, int | float) or ratio <= 0 or not 0 < busy < learns:
        return None
    wanted = float(f"{_SPARE * ratio * busy / learns:.2g}")
    figure = (
        f"actors work {busy:.0%} of the time and wait for the learner, which works {learns:.0%} of "
        f"it, as every row is drawn {ratio:g} times"
    )
    kept = sum(
        s for each, s in run.chain.items() if each.kind in _OF_LEARNER and not is_actor(each.member)
    )
    gain = without((run.learning + kept / (run.seconds or 1.0)) * (1 - wanted / ratio))
    advice = run.to_set("ratio", f"{wanted:g}", "ReplayTrigger")
    return Finding("replay ratio", gain, figure, (advice,)) if advice else None
