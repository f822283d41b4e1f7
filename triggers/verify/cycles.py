"""Finds cycles that wait for themselves: does a round of sampling always lead to the next one?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from artos.runs.plan import Plan
from triggers.base import Trigger
from triggers.pacing import demands, hands_over_episodes, lead, non_publishing_targets
from triggers.pairs import And, Or
from triggers.table import Table
from triggers.targets import parsed
from triggers.window import Cadence, Demand


def faults(plan: Plan, table: Table) -> list[str]:
    """Everything that would make the run stand still, each with what to change."""
    cadences, awaited = _cadences(table), _awaited(plan, table)
    # Rows per actor before a learner must publish; None if sampling waits for none.
    granted: int | None = None
    if awaited:
        leads = [cadence.lead for cadence in cadences if cadence is not None]
        granted = plan.steps * (1 + max(lead(table), *leads))
    found = []
    if plan.steps > _usable(plan):
        found.append(
            f"a round of steps={plan.steps} never fits the capacity of {_usable(plan)} usable "
            "rows: raise capacity or lower steps"
        )
    if cadences and all(c and c.probability is not None and c.probability < 1 for c in cadences):
        found.append(
            "sampling is only ever fired with a probability, so it stops for good once no actor is "
            "chosen: sample on every version, and put probability= on actors.sync"
        )
    for target, trigger in table.items():
        if parsed(target).learns or parsed(target).ships:
            for part in (part for part in trigger.parts() if part.awaits):
                role = parsed(target).role
                beside = role in plan.learners and role not in awaited
                waits = _waits_in_vain(plan, part.demand, part.awaits, None if beside else granted)
                found += [f"triggers[{target!r}]: {fault}" for fault in waits]
    if granted is not None and hands_over_episodes(table):
        found.append(
            "actors are granted a round with each version, but the next version waits for whole "
            "episodes, and a round may end with none: a cycle that waits for itself; write "
            '"actors.sample": RoundTrigger(), which goes on until there are enough'
        )
    if found or granted is None:
        return found
    # Only targets that publish turn rows into versions, each into those of its learner.
    idle = non_publishing_targets(plan)
    for name in awaited:
        others = {*plan.learners} - {name}
        makes = {t: table[t] for t in table if t not in idle and parsed(t).role not in others}
        found += _starving(plan, makes, plan.weights_of(name))
    return found


def _awaited(plan: Plan, table: Table) -> list[str]:
    """The learners each of whose versions sampling waits for; none if there is another way on."""
    sampling = [trigger for target, trigger in table.items() if parsed(target).samples]
    keys = {cadence.key if cadence is not None else "" for cadence in _cadences(table)}
    names = {plan.weights_of(name): name for name in plan.learners}
    if not keys <= names.keys():
        return []
    if len(keys) > 1 and (len(sampling) > 1 or _has_a_choice(sampling[0])):
        return []  # of several learners one is enough
    return [name for key, name in names.items() if key in keys]


def _has_a_choice(trigger: Trigger) -> bool:
    if isinstance(trigger, And):
        return _has_a_choice(trigger.left) or _has_a_choice(trigger.right)
    return isinstance(trigger, Or)


def _usable(plan: Plan) -> int:
    return plan.capacity - plan.block(0).history


def _waits_in_vain(
    plan: Plan, part: Demand | None, size: int, granted: int | None
) -> Iterator[str]:
    n = part.n if part is not None and part.n is not None else 0
    if n > plan.actors:
        yield f"waits for n={n} actors, but there are {plan.actors}: raise actors or lower n"
    elif n > (least := plan.at_work.least):
        yield (
            f"waits for n={n} actors, but at times there are only {least}: leave out n to "
            "wait for all present actors, or lower it"
        )
    if size > _usable(plan):
        yield (
            f"size={size} rows never fit the capacity of {_usable(plan)} usable rows: raise "
            "capacity or lower size"
        )
    elif granted is not None and size > granted:
        yield (
            f"waits for size={size} rows per actor, but actors are granted only {granted} before "
            "the next version, which this firing would make: a cycle that waits for itself; set "
            "size to steps or fewer"
        )
    elif granted is not None and plan.steps % size and size % plan.steps:
        yield (
            f"size={size} and rounds of steps={plan.steps} do not divide one another, so rows pile "
            "up: make one of them a multiple of the other"
        )


def _starving(plan: Plan, table: Table, key: str) -> Iterator[str]:
    """If sampling waits for versions: does each version always lead to the next one?

    Rounds granted ahead only delay the end of a cycle that takes more rows than it makes. Updates
    of several targets are added up, since any of them may make versions.
    """
    if not all(table[target].always_claims for target in table if parsed(target).learns):
        return
    parts = [(target, part) for target, ps in demands(table).items() for part in ps]
    periods = [c.every for c in _cadences(table) if c is not None and c.key == key]
    if sum(_fed(plan, periods, p) for _, p in parts if not _too_old(plan, periods, p)) < 1:
        rarely = max(periods) > 1
        cure = ", or sample on every version and put every= on actors.sync" if rarely else ""
        for target, part in parts:
            why = _too_old(plan, periods, part)
            if (fed := _fed(plan, periods, part)) < 1:
                lower = "lower size" if part.n is None else "lower size or n"
                why = (
                    f"a version lets actors sample the rows of only {float(fed):.2g} updates: a "
                    f"cycle that waits for itself; {lower}"
                )
            yield f"triggers[{target!r}]: {why}{cure}"


def _cadences(table: Table) -> list[Cadence | None]:
    """Of the primitives that fire sampling."""
    return [p.cadence for target, t in table.items() if parsed(target).samples for p in t.parts()]


def _fed(plan: Plan, periods: Sequence[int], part: Demand) -> Fraction:
    """The average number of updates of this trigger that the rows of one version allow.

    Up to ``n - 1`` of the slowest actors may be left without others to make a batch with.
    """
    batches = 1 if part.n is None else plan.at_work.least // part.n
    rounds = sum(Fraction(1, every) for every in periods)
    return rounds * Fraction(batches * plan.steps, part.size)


def _too_old(plan: Plan, periods: Sequence[int], part: Demand) -> str:
    """Dropped rows feed no update, so enough rows must still be new enough when they are used.

    If actors are done before the learner is, the rounds of an update are of as many versions as
    there are rounds, and as many updates must follow as versions until all of these are new; the
    first of several rounds may have begun under the version before.
    """
    if part.max_lag is None or len(periods) > 1:
        return ""
    rounds, (every,) = max(1, part.size // plan.steps), periods
    oldest = (2 * rounds - 1) * every - (rounds == 1)
    return (
        ""
        if part.max_lag >= oldest
        else (
            f"max_lag={part.max_lag} drops rows that the next versions are made of, up to {oldest} "
            "versions old: a cycle that waits for itself; raise max_lag or lower size"
        )
    )
