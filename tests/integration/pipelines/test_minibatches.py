"""The first epoch's minibatches are made of who came first, later ones of the whole batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import STEPS, Hands

from artos.errors import Refused
from artos.protocol.invocations import Claim

Rows = frozenset[tuple[int, int]]


class Watched(Hands):
    """Notes the rows, as (actor, number within the round), of every minibatch stepped on."""

    def begin_learner(self) -> Any:
        role = super().begin_learner()
        self.minibatches: list[Rows] = getattr(self, "minibatches", [])
        seen = self.ppo._seen

        def noted(batch: Any, rows_seen: Any, index: Any) -> Any:
            claims, rows = np.divmod(index, len(batch) // len(batch.claims))
            actors = [batch.claims[claim].actor for claim in claims]
            self.minibatches.append(frozenset(zip(actors, rows.tolist(), strict=True)))
            assert len(self.minibatches[-1]) == len(index)
            return seen(batch, rows_seen, index)

        self.ppo._seen = noted
        return role


@contextmanager
def hands(folder: Path, **settings: Any) -> Iterator[Watched]:
    with Watched(folder, **{"pipeline": "minibatch", "minibatches": 3} | settings) as found:
        yield found


def all_rows(claims: Iterable[Claim], envs: int = 2) -> list[tuple[int, int]]:
    return sorted((c.actor, row) for c in claims for row in range((c.stop - c.start) * envs))


def flat(minibatches: Iterable[Rows]) -> list[tuple[int, int]]:
    return sorted(row for each in minibatches for row in each)


def test_minibatches_of_the_first_epoch_are_those_who_came_together(tmp_path: Path) -> None:
    with hands(tmp_path, actors=4, minibatches=2, epochs=3) as early:
        claims = early.sample()
        early.fire("first_pass", claims[1], claims[3])
        early.fire("first_pass", claims[0], claims[2])
        early.fire("update", *claims)
        first, later = early.minibatches[:2], early.minibatches[2:]
    assert [sorted({actor for actor, _ in rows}) for rows in first] == [[1, 3], [0, 2]]
    assert flat(first) == all_rows(claims)
    assert len(later) == len(set(later)) == 4, "shuffled anew for every epoch"
    for epoch in (later[:2], later[2:]):
        assert flat(epoch) == all_rows(claims)
        assert all(len({actor for actor, _ in rows}) == 4 for rows in epoch)


def test_one_actors_rows_make_several_minibatches_where_there_are_more(tmp_path: Path) -> None:
    with hands(tmp_path, actors=2, minibatches=4) as early:
        claims = early.sample()
        for claim in reversed(claims):
            early.fire("first_pass", claim)
        early.fire("update", *claims)
        sizes = [len(rows) for rows in early.minibatches]
        whose = [{actor for actor, _ in rows} for rows in early.minibatches]
        assert sizes == [STEPS] * 4
        assert whose == [{1}, {1}, {0}, {0}]
        assert flat(early.minibatches) == all_rows(claims)


@pytest.mark.parametrize("killed", [0, 1, 2, 3])
def test_a_version_has_every_row_of_its_first_epoch_once(killed: int, tmp_path: Path) -> None:
    """The learner dies after so many first passes; what those steps changed died with it."""
    with hands(tmp_path) as early:
        claims = early.sample()
        begun = early.params
        for claim in claims[:killed]:
            early.fire("first_pass", claim)
        assert np.array_equal(early.params, begun) == (killed == 0)
        early.begin_learner()
        np.testing.assert_array_equal(early.params, begun)
        early.minibatches.clear()
        for claim in claims[killed:]:
            early.fire("first_pass", claim)
        done = early.fire("update", *claims)
        assert flat(early.minibatches) == all_rows(claims)
        assert len(early.minibatches) == 3
    assert done.version == 1


def test_silent_steps_are_published_with_the_update(tmp_path: Path) -> None:
    """With one epoch the update itself may have nothing left to step on."""
    with hands(tmp_path) as early:
        claims = early.sample()
        before = early.node.weights.newest.arrays["params"].copy()
        for claim in claims:
            assert early.fire("first_pass", claim).version == 0
            np.testing.assert_array_equal(early.node.weights.newest.arrays["params"], before)
        done = early.fire("update", *claims)
        assert done.version == 1
        assert "policy_loss" in done.metrics
        np.testing.assert_array_equal(early.node.weights.newest.arrays["params"], early.params)
        assert not np.array_equal(early.params, before)


def test_rows_of_the_next_round_wait_for_this_rounds_update(tmp_path: Path) -> None:
    """Else this version would have steps on rows that the next one claims."""
    with hands(tmp_path, max_lag=1) as early:
        first, second = early.sample(), early.sample()
        early.fire("first_pass", first[0])
        early.fire("first_pass", second[0])
        early.fire("update", *first)
        assert flat(early.minibatches) == all_rows(first)
        early.minibatches.clear()
        early.fire("first_pass", second[1])
        assert flat(early.minibatches) == all_rows([second[1]])
        early.fire("update", *second)
        assert flat(early.minibatches) == all_rows(second)


def test_after_a_crash_first_passes_wait_for_an_update(tmp_path: Path) -> None:
    """A new process does not know which rows the published weights have learned from."""
    with hands(tmp_path, max_lag=1) as early:
        first, second = early.sample(), early.sample()
        early.fire("update", *first)
        early.begin_learner()
        early.minibatches.clear()
        early.fire("first_pass", second[0])
        assert early.minibatches == []
        early.fire("update", *second)
        assert flat(early.minibatches) == all_rows(second)


def refused(folder: Path, **settings: Any) -> str:
    with pytest.raises(Refused) as raised:
        Hands(folder, **settings).close()
    return str(raised.value)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    assert "set minibatches=1" in refused(tmp_path, pipeline="full", minibatches=4)
    for name in ("minibatch", "dual+minibatch"):
        told = refused(tmp_path, pipeline=name, actors=6, minibatches=4)
        assert "6 actors and 4 minibatches" in told
        told = refused(tmp_path, pipeline=name, actors="0:2,5:4", minibatches=2)
        assert "give actors as a number" in told
    assert "pipeline='dul'" in refused(tmp_path, pipeline="dul")
