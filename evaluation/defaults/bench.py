"""``artos bench defaults``: does DQN keep what it has learned, if nothing is set?

Ten seeds, whose final policies play greedily. The same again with evaluations meanwhile, of which
the best policy is kept and plays, too: that is told and has no goal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, ours

SEEDS = 10
STEPS, QUICK_STEPS = 60_000, 2_000
RETURN = "greedy return, DQN, CartPole-v1, all defaults"
KEPT = "share of seeds that return 300, DQN, CartPole-v1, all defaults"
FINAL, WATCHED = f"{OURS}, final policy", f"{OURS}, final policy, evaluated meanwhile"
BEST = f"{OURS}, best policy of those evaluated"
MEDIAN_GOAL, LEAST, SHARE_GOAL = 400.0, 300.0, 0.9
"""The median of the returns, and the return that so large a share of the seeds reaches."""
EVERY = 500
"""Updates from one evaluation to the next, some thirty in a run."""
_DEADLINE_SECONDS = 900.0


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Train with ``repeats`` seeds; ``quick`` only shows that it runs."""
    results = Results("defaults", repeats)
    alternate(results, [*_contestants(results, QUICK_STEPS if quick else STEPS)], repeats, say)
    final, kept = f"{RETURN}: {FINAL}", f"{KEPT}: {FINAL}"
    results.require(final, MEDIAN_GOAL, "at least")
    results.require(kept, SHARE_GOAL, "at least")
    (found,) = (row.values for row in results.report().rows if row.case == final)
    returns = [value for value in found if value is not None]
    if len(returns) == repeats:
        results.add(kept, "share", sum(value >= LEAST for value in returns) / repeats)
    else:
        results.missed(kept, "share", f"{len(returns)} of {repeats} seeds were measured")
    return results


BENCHMARK = Benchmark(measure, MEMBERS, least=SEEDS)


def _contestants(results: Results, steps: int) -> Iterator[Contestant]:
    common = ("run", "dqn", "--env", "CartPole-v1", "--actors", "2", "--total-steps", str(steps))

    def trained(more: Sequence[str]) -> Answer:
        words = (*common, "--seed", str(results.repetition), *more)
        return ours("defaults.artos_side", *words, seconds=_DEADLINE_SECONDS)()

    cases = {who: (f"{RETURN}: {who}", "return") for who in (FINAL, WATCHED, BEST)}
    yield Contestant(FINAL, {"final": cases[FINAL]}, partial(trained, ()))
    both = {"final": cases[WATCHED], "best": cases[BEST]}
    evaluated = ("--set", f"evaluate_every={EVERY}")
    yield Contestant(WATCHED, both, partial(trained, evaluated))
