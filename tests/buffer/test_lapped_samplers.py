"""Samplers whose rows are overwritten while they copy them."""

from __future__ import annotations

import numpy as np
import pytest
from sampler_helpers import NAMES, blocks_of, check, histories

from artos.buffer.prioritised import PrioritisedSampler
from artos.buffer.segment import ShmFolder
from artos.buffer.sequences import SequenceSampler
from artos.buffer.uniform import UniformSampler
from artos.errors import Overwritten


@pytest.mark.parametrize("kind", [UniformSampler, PrioritisedSampler])
def test_rows_overwritten_while_they_are_read_are_drawn_anew(
    folder: ShmFolder, monkeypatch, kind
) -> None:
    made = histories(folder.path, 2, 2, 12, 12)
    sampler = kind(blocks_of(made), NAMES, 64, next_keys=NAMES, seed=0)
    fill, laps = sampler._reader._fill, iter([7, 1, 3])

    def interrupted(out, picks):
        fill(out, picks)
        if (count := next(laps, 0)) > 0:
            made[0].write(count)

    monkeypatch.setattr(sampler._reader, "_fill", interrupted)
    sample = sampler.sample()
    check(sample, made, "zero", NAMES)
    assert sample["index"][sample["index"][:, 0] == 0, 1].min() >= 11 + 2
    if kind is PrioritisedSampler:
        assert np.isfinite(sample["weights"]).all()


@pytest.mark.parametrize("kind", [UniformSampler, PrioritisedSampler, SequenceSampler])
def test_a_writer_that_overwrites_much_in_every_copy_is_caught_up_with(
    folder: ShmFolder, monkeypatch, kind
) -> None:
    """A third of the buffer goes while the rows are copied, however few there are to be copied."""
    made = histories(folder.path, 1, 2, 60, 60)
    more = {"length": 4} if kind is SequenceSampler else {"next_keys": NAMES}
    sampler = kind(blocks_of(made), NAMES, 64, seed=0, **more)
    fill = sampler._reader._fill

    def overtaken(out, picks):
        fill(out, picks)
        made[0].write(20)

    monkeypatch.setattr(sampler._reader, "_fill", overtaken)
    for _ in range(5):
        sample = sampler.sample()
        if kind is not SequenceSampler:
            check(sample, made, "zero", NAMES)
        assert sample["index"][:, 1].min() >= made[0].block.oldest()


def test_a_reader_that_is_lapped_for_ever_gives_up(folder: ShmFolder, monkeypatch) -> None:
    made = histories(folder.path, 1, 1, 8, 8)
    sampler = UniformSampler(blocks_of(made), ("rewards",), 4, seed=0)
    fill = sampler._reader._fill

    def always_lapped(out, picks):
        fill(out, picks)
        made[0].write(8)

    monkeypatch.setattr(sampler._reader, "_fill", always_lapped)
    with pytest.raises(Overwritten):
        sampler.sample()
