"""Checks of draws from the replay buffer: batches that exist, at a ratio that can be kept."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import msgspec

from artos.buffer.samplers.patterns import Sequences
from artos.runs.plan import Plan
from artos.specs.keys import ACHIEVED_KEY, AGES_KEY, DESIRED_KEY, VALID_KEY
from artos.system.closest import closest
from triggers.targets import parsed

if TYPE_CHECKING:
    from triggers.replay import ReplayTrigger

_READ = ("rewards", "terminations", "truncations")
"""Keys that looking ahead, or the ends of sequences, read."""
_OF_LIVE_ROWS = ("ratio", "after", "slack", "max_lag")


def ample_slack(plan: Plan, replay: ReplayTrigger) -> float:
    """Draws of a round and a batch: with that learner and actors both work; half is the least."""
    return replay.ratio * plan.steps * replay.limit.envs + replay.live_rows


def draw_faults(replay: ReplayTrigger, plan: Plan) -> list[str]:
    """Everything wrong with what is drawn, and how often."""
    found = []
    if not _positive(replay.ratio):
        found.append(f"ratio must be a positive number, not {replay.ratio!r}")
    if not isinstance(replay.after, int) or replay.after < 0:
        found.append(f"after must be a whole number of at least 0, not {replay.after!r}")
    if replay.slack is not None and not _positive(replay.slack):
        found.append(f"slack must be a positive number, not {replay.slack!r}")
    rows = plan.rows_of(parsed(replay.target).role)
    found += [*_pattern(replay, rows), *_data(replay, plan)]
    return found or [*_reach(replay, rows, plan.envs), *_held(replay, rows)]


def _data(replay: ReplayTrigger, plan: Plan) -> Iterator[str]:
    """What is wrong with ``source``."""
    known, batch = [each.name for each in plan.data], replay.sample.batch
    for name in replay.data:
        if name not in known:
            have = f" (have {', '.join(known)})" if known else ""
            yield (
                f"source: the workload has no data set {name!r}{closest(str(name), known)}{have}: "
                f'give it data={{"{name}": Rows("FILE.npz")}}'
            )
    picks = [*replay.data.values()]
    if not all(isinstance(each, int) and each > 0 for each in picks):
        yield f"source={replay.source!r}: numbers of picks are whole and at least 1"
    elif sum(picks) > batch:
        yield f"source={replay.source!r}: {sum(picks)} picks of a batch of {batch}: lower them"
    elif replay.live_rows and not plan.actors:
        yield (
            f"{replay.live_rows} rows of each batch are live, and actors=0 brings none: write "
            f'source="{next(iter(replay.data), next(iter(known), "demos"))}", or raise actors'
        )
    elif not replay.live_rows:
        defaults = {field.name: field.default for field in fields(replay)}
        given = [n for n in _OF_LIVE_ROWS if getattr(replay, n) != defaults[n]]
        if given:
            yield (
                f"{', '.join(given)}: about live rows, of which this batch has none; leave it out, "
                "or say by source={NAME: PICKS} that only some rows are of a data set"
            )


def _held(replay: ReplayTrigger, plan: Plan) -> Iterator[str]:
    """Data sets that lack what is drawn from them."""
    pattern, written = replay.sample, {key.name for key in plan.data_keys}
    initial = getattr(pattern, "initial", "")
    needed = (*replay.draw.keys, *_READ, VALID_KEY, AGES_KEY, *((initial,) if initial else ()))
    window = pattern.window if isinstance(pattern, Sequences) else 1
    for each in (each for each in plan.data if each.name in replay.data and each.rows):
        have, where = {key.name for key in each.keys}, f"{each.name!r} ({each.path})"
        lacks = [name for name in dict.fromkeys(needed) if name in written and name not in have]
        if lacks:
            yield (
                f"data set {where} lacks {', '.join(map(repr, lacks))}: store an array of that "
                "name, or draw other keys"
            )
        if each.rows <= window:
            yield (
                f"data set {where} has {each.rows} rows, and a draw takes {window} and the next "
                "one: give it more"
            )


def _pattern(replay: ReplayTrigger, plan: Plan) -> Iterator[str]:
    pattern = replay.sample
    for name in ("batch", "n_step", "length"):
        value = getattr(pattern, name, 1)
        if not isinstance(value, int) or value < 1:
            yield f"{name} must be a whole number of at least 1, not {value!r}"
    for name, value in msgspec.structs.asdict(pattern).items():
        parts = value if isinstance(value, tuple) else (value,)
        if name in ("alpha", "beta", "gamma", "her") and not all(0 <= part <= 1 for part in parts):
            yield f"{name} must be within 0 and 1, not {value!r}"
    if not isinstance(burn_in := getattr(pattern, "burn_in", 0), int) or burn_in < 0:
        yield f"burn_in must be a whole number of at least 0, not {burn_in!r}"
    known = {key.name: key for key in plan.data_keys}
    if getattr(pattern, "her", 0):
        yield from _hindsight(replay, known)
    initial = getattr(pattern, "initial", "")
    read = (*_READ, initial) if initial else _READ
    for name in (name for name in read if name not in known):
        yield f"drawing reads the data key {name!r}, which the actor does not write"
    if plan.state_keys and not isinstance(pattern, Sequences):
        yield (
            "the policy is recurrent, so it learns from sequences, not from single transitions: "
            "draw Sequences(batch, length)"
        )
    if isinstance(pattern, Sequences) and (absent := {*plan.state_keys} - {*replay.draw.keys}):
        names = ", ".join(map(repr, sorted(absent)))
        yield f"sequences begin with the policy's state: add {names} to the keys of this trigger"
    first = known.get(initial)
    if first and not (first.per_env and not first.shape and first.dtype.startswith("float")):
        yield f"initial={initial!r}: a first priority is one float for each row and environment"
    if pattern.successors and not {VALID_KEY, AGES_KEY} <= set(known):
        yield (
            f"drawing needs the data keys {VALID_KEY!r} and {AGES_KEY!r}, or truncated episodes "
            "would be bootstrapped from the next ones. RolloutActor writes them: name them in "
            "data_keys if the workload names any. An actor of your own stores the last observation "
            f"of an episode in a row of its own where {VALID_KEY!r} is False, and the steps since "
            f"an episode began as {AGES_KEY!r}"
        )


def _hindsight(replay: ReplayTrigger, known: Container[str]) -> Iterator[str]:
    if (n_step := getattr(replay.sample, "n_step", 1)) != 1:
        yield f"her relabels single transitions, not returns over n_step={n_step}: set n_step=1"
    if replay.data:
        yield "her relabels rows of actors alone, and data sets are drawn here: leave out source"
    for name in (ACHIEVED_KEY, DESIRED_KEY):
        if name in known and name not in replay.draw.keys:
            yield f"her relabels goals: add {name!r} to the keys of this trigger"


def _reach(replay: ReplayTrigger, plan: Plan, envs: int) -> Iterator[str]:
    """Draws that never come; ``plan`` is of its rows, and ``envs`` are all that steps count."""
    if not replay.live_rows:
        return
    held = plan.capacity * plan.envs * plan.at_work.least
    if replay.after > held:
        yield (
            f"after={replay.after}, but the blocks hold {held} transitions (capacity "
            f"{plan.capacity} x {plan.envs} environments x {plan.at_work.least} actors): raise "
            "capacity or lower after"
        )
    if 0 < plan.total_steps * plan.envs // envs < replay.after:
        yield (
            f"after={replay.after}, but the run ends after total_steps={plan.total_steps}, before "
            "the first update: lower after or raise total_steps"
        )
    if isinstance(replay.sample, Sequences) and replay.sample.window >= plan.capacity:
        yield (
            f"sequences of {replay.sample.window} rows, burn-in included, need a capacity above "
            f"that, not {plan.capacity}: raise capacity, or lower length or burn_in"
        )
    rows = plan.steps * plan.envs
    least = ample_slack(plan, replay) / 2
    if replay.limit.slack < least:
        yield (
            f"slack={replay.limit.slack:g} can never be kept: a round is {rows} transitions, drawn "
            f"{replay.ratio:g} times each, and a batch draws {replay.live_rows}, so learner and "
            f"actors would wait for each other; give at least {math.ceil(least)}, or leave it out"
        )


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < math.inf
