"""Checks targets that publish nothing: they only prepare updates, so a table needs others, too."""

from __future__ import annotations

from artos.runs.plan import Plan
from artos.system.closest import closest
from triggers.pacing import demands, non_publishing_targets
from triggers.table import Table
from triggers.targets import parsed


def faults(plan: Plan, table: Table) -> list[str]:
    """Everything wrong with the non-publishing methods of learners and what fires them."""
    return [fault for learner in plan.learners for fault in _of(learner, plan, table)]


def _of(learner: str, plan: Plan, table: Table) -> list[str]:
    known, found = plan.methods.get(learner, ()), []
    for name in plan.of(learner).non_publishing:
        if name not in known:
            hint = closest(name, known)
            found.append(
                f"non_publishing names {name!r}, but the {learner} has no such method{hint}"
            )
    targets = {target for target in table if parsed(target).role == learner}
    non_publishing = non_publishing_targets(plan)
    claiming = {target: each for target, each in demands(table).items() if target in targets}
    if targets and targets <= non_publishing:
        found.append(
            f"nothing fires a method that publishes: {', '.join(sorted(targets))} publish nothing; "
            f'add e.g. "{learner}.update": DataKeyTrigger(keys, n, size)'
        )
    kept = {
        key
        for t, parts in claiming.items()
        if t not in non_publishing
        for p in parts
        for key in p.keys
    }
    for target in (target for target in claiming if target in non_publishing):
        for part in claiming[target]:
            nothing = f"triggers[{target!r}]: publishes nothing, so"
            if part.max_lag is not None:
                found.append(
                    f"{nothing} there are no versions for max_lag to count: leave it to the target "
                    "that updates"
                )
            if not kept.issuperset(part.keys):
                found.append(
                    f"{nothing} a crash would lose its rows: let a target that publishes claim "
                    "these rows too, in all its keys"
                )
    return found
