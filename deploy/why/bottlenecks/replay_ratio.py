"""Every row is drawn so often that actors wait for the learner."""

from __future__ import annotations

from statistics import fmean

from deploy.why.evidence import Evidence
from deploy.why.finding import Finding

_SPARE = 0.9
"""Share of what would let both work all the time."""


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
    advice = run.to_set("ratio", f"{wanted:g}", "ReplayTrigger")
    return Finding("replay ratio", ratio / wanted, figure, (advice,)) if advice else None
