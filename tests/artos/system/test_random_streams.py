"""Whatever an object draws from begins anew, also if it has drawn ahead."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import torch

from artos.policies.distributions import CategoricalSampler
from artos.system.random_streams import renew, streams_of


class Holder:
    """Holds generators of every kind, some where only code leads to them."""

    def __init__(self) -> None:
        rng, self.own = np.random.default_rng(1), random.Random(1)
        self.parts: dict[str, Any] = {"torch": [torch.Generator().manual_seed(1)]}
        self.old = np.random.RandomState(1)
        self.draw = lambda: 1 - rng.random()
        self.more = partial(np.random.Generator.random, np.random.Generator(np.random.MT19937(1)))
        self.sampler = CategoricalSampler(4, 1, np.random.default_rng(2))
        self.myself = self

    def drawn(self) -> list[float]:
        """A number of each stream."""
        (of_torch,) = self.parts["torch"]
        actions = [int(self.sampler(np.zeros((1, 4), np.float32), {})[0][0]) for _ in range(20)]
        return [
            self.own.random(),
            float(torch.rand((), generator=of_torch)),
            float(self.old.random_sample()),
            self.draw(),
            float(self.more()),
            sum(action * 4**place for place, action in enumerate(actions)),
        ]


def test_every_stream_is_another_one_and_the_same_with_the_same_seed() -> None:
    one, other = Holder(), Holder()
    assert one.drawn() == other.drawn()
    for each, seed in ((one, 5), (other, 5)):
        renew(streams_of(each), seed)
    first = one.drawn()
    assert first == other.drawn()
    renew(streams_of(one), 6)
    assert not set(first) & set(one.drawn())


def test_nothing_is_drawn_by_what_holds_no_stream() -> None:
    assert streams_of({"a": [1, "b", np.zeros(3)], "c": lambda: np.random}) == []
