"""Which habits go together, and few environments that have had all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from itertools import islice, product

from odd_worlds import ACTED, ARRAYS, BOUNDED, FLAGS, MADE, NUMBERS, OBSERVED, Habits

from artos.specs.address import address

ACTOR_CRITICS = ("ppo", "a2c", "impala")
REPLAYING = ("dqn", "sac", "td3")
ALGORITHMS = (*ACTOR_CRITICS, *REPLAYING)
DISCRETE = ("category", "shifted")
CHOICES: dict[str, Sequence[str]] = {
    "observed": tuple(OBSERVED),
    "acted": tuple(ACTED),
    "shown": ARRAYS,
    "taken": ("leaves", "keeps", "writes"),
    "paid": NUMBERS,
    "said": FLAGS,
    "infos": ("fresh", "reused", "shared"),
    "masks": ("", "info", "observation"),
    "ends": ("terminates", "truncates", "both", "mixed"),
    "made": MADE,
}
TAKES = {
    "dqn": DISCRETE,
    "rainbow": DISCRETE,
    "apex": DISCRETE,
    "r2d2": DISCRETE,
    "sac": (*DISCRETE, *BOUNDED),
    "td3": BOUNDED,
    "ddpg": BOUNDED,
    "d4pg": BOUNDED,
    "crossq": BOUNDED,
}

Case = tuple[str, Habits]


def fits(algorithm: str, habits: Habits) -> bool:
    """Whether an algorithm takes it, and no library between spoils it."""
    who, _, mode = habits.made.partition(" ")
    if habits.acted not in TAKES.get(algorithm, ACTED):
        return False
    if habits.masks and habits.acted in (*BOUNDED, "open"):
        return False
    if algorithm not in ACTOR_CRITICS and mode == "SAME_STEP":
        return False  # the last observations are in no row
    if habits.observed == "frames":  # the wrapper keeps frames without copying them
        lasts = habits.shown in ("fresh", "readonly", "fortran")
        return lasts and not habits.masks and who == "single"
    return who != "sync" or _gymnasium_copes(habits, mode)


def _gymnasium_copes(habits: Habits, mode: str) -> bool:
    """Whether ``SyncVectorEnv`` does not mix up what its environments return."""
    plain = habits.shown in ("fresh", "fortran", "readonly")
    kept = habits.shown in ("reused", "strided", "reversed", "swapped") and mode != "SAME_STEP"
    numbers = not {habits.paid, habits.said} & {"zero-d", "one", "list", "tensor"}
    told = habits.infos == "fresh" and habits.masks != "info"
    return (plain or kept) and numbers and told


def covering(algorithms: Sequence[str], seed: int) -> Iterator[Case]:
    """Few cases that have each algorithm, and each choice that one of them has."""
    rng = random.Random(seed)
    left = {met for case in islice(_drawn(algorithms, rng), 6_000) for met in _meets(case)}
    while left:
        best = max(islice(_drawn(algorithms, rng), 300), key=lambda case: len(left & _meets(case)))
        if left & _meets(best):
            left -= _meets(best)
            yield best


def pairs(first: str, second: str, seed: int) -> Iterator[Case]:
    """A case for each two choices of these names that go together."""
    rng = random.Random(seed)
    for values in product(CHOICES[first], CHOICES[second]):
        fixed = dict(zip((first, second), values, strict=True))
        yield from islice(_drawn(ALGORITHMS, rng, **fixed), 1)


def _drawn(algorithms: Sequence[str], rng: random.Random, **fixed: str) -> Iterator[Case]:
    """Random cases, until none was found in some hundred tries."""
    # Single environments, which are most, have a chance as good as all vectors.
    usual = CHOICES | {"made": ("single",) * len(MADE) + tuple(MADE)}
    choices = usual | {name: (value,) for name, value in fixed.items()}
    since = 0
    while since < 500:
        algorithm, since = rng.choice(algorithms), since + 1
        habits = Habits(**{name: rng.choice(values) for name, values in choices.items()})
        if fits(algorithm, habits):
            since = 0
            yield algorithm, habits


def _meets(case: Case) -> set[tuple[str, ...]]:
    algorithm, habits = case
    return {(algorithm,), *asdict(habits).items()}


def named(habits: Habits) -> str:
    """Its address: by a factory, or for some by an id of Gymnasium's registry."""
    usual = Habits()
    said = {f.name: value for f in fields(habits)
            if (value := getattr(habits, f.name)) != getattr(usual, f.name)}  # fmt: skip
    by_id = habits.ends == "both" and not habits.made.startswith("sync")
    name = ("vector:" * (habits.made != "single") + "odd_envs:Odd-v0") if by_id else "odd_envs:make"
    return address(name, said)
