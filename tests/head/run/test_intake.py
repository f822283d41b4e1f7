"""What triggers hear of rows: as they are committed here, or as they arrive key by key."""

from __future__ import annotations

from pathlib import Path

import pytest

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.specs.keys import VERSION_KEY, DataKey
from head.run.coordination.rows import Arrivals, Commits
from triggers.events import Arrived, Committed

EARLY, LATE = ("rewards", VERSION_KEY), ("frames",)
ALL = ("rewards", "frames", VERSION_KEY)


@pytest.fixture
def block(tmp_path: Path) -> ActorBlock:
    keys = (DataKey("rewards"), DataKey("frames", (3,)))
    block = ActorBlock.create(tmp_path / "actor-0", BlockSpec(0, keys, 16))
    block.arrays[VERSION_KEY][:] = 0
    return block


def to(rows: int, *names: str) -> dict[str, int]:
    return dict.fromkeys(names, rows)


def test_here_every_commit_is_an_arrival_unless_it_is_shipped(block: ActorBlock) -> None:
    block.commit(4)
    both = Commits({0: block}, shipped=False).news(0)
    assert both == (4, [Committed(0, to(4, *ALL)), Arrived(0, to(4, *ALL))])
    assert Commits({0: block}, shipped=True).news(0) == (4, [Committed(0, to(4, *ALL))])


def test_events_are_cut_where_the_version_changes(block: ActorBlock) -> None:
    block.arrays[VERSION_KEY][3:] = 1
    block.commit(5)
    row_source = Commits({0: block}, shipped=True)
    rows, events = row_source.news(0)
    assert rows == 5
    assert [(dict(e.written), e.version) for e in events] == [(to(3, *ALL), 0), (to(5, *ALL), 1)]
    assert row_source.news(0) == (5, [])


def test_keys_that_arrive_at_different_times_make_events_of_their_own(block: ActorBlock) -> None:
    block.arrays[VERSION_KEY][3:] = 1
    row_source = Arrivals({0: block})
    block.commit(5, EARLY)
    assert row_source.news(0) == (0, [Arrived(0, to(3, *EARLY), 0), Arrived(0, to(5, *EARLY), 1)])
    block.commit(5, LATE)
    assert row_source.news(0) == (5, [Arrived(0, to(3, *LATE), 0), Arrived(0, to(5, *LATE), 1)])
    assert row_source.news(0) == (5, [])


def test_rows_without_a_version_do_not_count_yet(block: ActorBlock) -> None:
    row_source = Arrivals({0: block})
    block.commit(5, LATE)
    assert row_source.news(0) == (0, [])
    block.commit(4, EARLY)
    rows, events = row_source.news(0)
    assert rows == 4
    assert {name: rows for event in events for name, rows in event.written.items()} == to(4, *ALL)


def test_rows_of_another_place_are_not_looked_at(block: ActorBlock) -> None:
    row_source = Arrivals({0: block})
    block.commit(6, EARLY)
    block.commit(4, LATE)
    row_source.news(0)
    row_source.rewind(0, 1, 4)
    block.commit(8)  # of the old place, still on its way
    assert row_source.news(0) == (4, [])
    block.begin_term(1, 4)
    assert row_source.news(0) == (4, [])
    block.commit(5, EARLY)
    assert row_source.news(0) == (4, [Arrived(0, to(5, *EARLY))])
