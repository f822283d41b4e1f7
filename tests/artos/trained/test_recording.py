"""Rows of a block, cut into whole episodes of an environment or a game."""

from __future__ import annotations

import numpy as np

from artos.trained.recording import Arrays, Side

KEYS = ("valid", "ages", "rewards")


def rows_of(valid: list[list[int]], front: str = "") -> Arrays:
    """Rows that are numbered, each of which is paid its number."""
    flags = np.array(valid, bool)
    numbers = np.arange(1.0, len(flags) + 1)
    return {
        f"{front}valid": flags,
        f"{front}ages": np.ones(flags.shape, np.int64),
        f"{front}rewards": np.repeat(numbers[:, None], flags.shape[1], axis=1),
        "numbers": numbers,
    }


def played(side: Side) -> list[list[float]]:
    return [episode["numbers"].tolist() for episode in side.episodes]


def test_an_episode_that_ends_with_a_block_is_one_and_the_next_goes_across_blocks() -> None:
    side, rows = Side(dict.fromkeys(KEYS, 1), ("valid",)), rows_of([[1, 1], [1, 1], [1, 0]])
    side.add(rows)
    assert played(side) == [[1, 2, 3]]
    side.add(rows_of([[1, 1]]))
    assert played(side) == [[1, 2, 3]]
    side.add(rows_of([[1, 0], [1, 1], [1, 0], [1, 1]]))
    assert played(side) == [[1, 2, 3], [1, 1], [2, 3]]
    assert [*side.returns(side.episodes[0])] == [("", 3.0)], "the last row is no transition"


def test_an_agent_that_comes_late_and_is_out_early_has_no_empty_episodes() -> None:
    side = Side(dict.fromkeys(KEYS, 0), ("valid",))
    side.add(rows_of([[0], [1], [0], [0], [0]]))
    side.add(rows_of([[0], [1], [1], [0]]))
    assert played(side) == [[2, 3], [2, 3, 4]]


def test_a_game_is_over_once_the_agents_of_all_policies_are_out() -> None:
    """What happens then between others, whose rows are not kept, is left out."""
    first = rows_of([[1], [1], [0], [0], [0], [1], [0]], "a/")
    other = rows_of([[1, 0], [0, 0], [1, 0], [0, 0], [0, 0], [1, 0], [0, 0]], "b/")
    at = {f"a/{key}": 0 for key in KEYS} | {f"b/{key}": slice(0, 2) for key in KEYS}
    side = Side(at, ("a/valid", "b/valid"), ("one", "two", "never"))
    side.add(first | other)
    assert played(side) == [[1, 2, 3, 4], [6, 7]]
    assert [*side.returns(side.episodes[0])] == [("one", 3.0), ("two", 4.0)]
    assert [*side.returns(side.episodes[1])] == [("one", 6.0), ("two", 6.0)]


def test_what_an_actor_cuts_at_the_end_of_a_round_is_no_part_of_the_next_episode() -> None:
    side = Side(dict.fromkeys(KEYS, 0), ("valid",))
    side.add(rows_of([[1], [0], [1], [1]]))
    begun = rows_of([[1], [1], [0]])
    begun["ages"][0] = 0
    side.add(begun)
    assert played(side) == [[1, 2], [1, 2, 3]]
