"""Objects that go on from what others of their kind held."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from artos.system.snapshot import put_back, taken


class Counter:
    """As it is in the newer version of a program."""

    kept: ClassVar[tuple[str, ...]] = ("count", "rng", "since")

    def __init__(self, seed: int) -> None:
        self.count, self.since = 0, 7.0
        self.rng = np.random.default_rng(seed)


def test_another_goes_on_from_what_was_taken() -> None:
    first, second = Counter(1), Counter(2)
    first.count, first.since = 3, 9.0
    rng = second.rng
    put_back(second, taken(first))
    assert (second.count, second.since) == (3, 9.0)
    assert second.rng is rng
    assert first.rng.integers(1 << 60) == second.rng.integers(1 << 60)


def test_what_an_earlier_version_did_not_keep_stays() -> None:
    found: dict[str, Any] = taken(Counter(1))
    del found["since"]
    counter = Counter(2)
    put_back(counter, found | {"count": 5})
    assert (counter.count, counter.since) == (5, 7.0)
