"""Rewards that are computed anew: what the function sees, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from artos.errors import Refused
from artos.runs.rescoring import rescore

REWARDS = """
def next_number(rows):
    assert set(rows) >= {"observations", "actions", "next.observations"}
    assert (rows["next.observations"][:, 0] == rows["observations"][:, 0] + 1).all()
    return rows["next.observations"][:, 0]

def short(rows):
    return rows["rewards"][1:]

def words(rows):
    return ["good"] * len(rows["rewards"])

def endless(rows):
    return rows["rewards"] / 0

def broken(rows):
    return rows["reward"]

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two episodes of three steps, the second of which is given up after two."""
    place = np.array([0, 1, 2, 3, 0, 1, 0, 1], np.uint8)
    np.savez(
        tmp_path / "demos.npz", observations=np.arange(16, dtype="float32").reshape(8, 2) // 2,
        actions=np.arange(8), rewards=np.full(8, 7, "float32"), ages=place, valid=place < 3,
    )  # fmt: skip
    (tmp_path / "rewards.py").write_text(REWARDS)
    return tmp_path


def test_transitions_have_new_rewards_and_all_else_is_kept(folder: Path) -> None:
    source, path = folder / "demos.npz", folder / "new.npz"
    found = rescore(source, f"{folder / 'rewards.py'}:next_number", path)
    assert (found.rows, found.transitions, found.mean_before) == (8, 5, 7.0)
    before, after = np.load(source), np.load(path)
    assert after["rewards"].tolist() == [1, 2, 3, 7, 5, 7, 7, 7]
    assert after["rewards"].dtype == np.float32
    for name in before.files:
        assert name == "rewards" or np.array_equal(before[name], after[name])


def test_environments_side_by_side_stay_so(folder: Path) -> None:
    flat = np.load(folder / "demos.npz")
    np.savez(folder / "wide.npz", **{name: np.stack([flat[name]] * 2, 1) for name in flat.files})
    rescore(folder / "wide.npz", f"{folder / 'rewards.py'}:next_number", folder / "new.npz")
    assert np.load(folder / "new.npz")["rewards"][:5].tolist() == [[n, n] for n in (1, 2, 3, 7, 5)]


def test_of_several_policies_the_rows_of_one_are_scored_by_their_usual_names(folder: Path) -> None:
    flat, reward = np.load(folder / "demos.npz"), f"{folder / 'rewards.py'}:next_number"
    own = {f"prey/{name}": np.stack([flat[name]] * 2, 1) for name in flat.files}
    np.savez(folder / "game.npz", **own, **{f"hunters/{name}": flat[name] for name in flat.files})
    for policy in ("", "pray"):
        with pytest.raises(Refused, match="choose by --policy one of hunters, prey"):
            rescore(folder / "game.npz", reward, folder / "new.npz", policy)
    with pytest.raises(Refused, match="leave --policy prey out"):
        rescore(folder / "demos.npz", reward, folder / "new.npz", "prey")
    found = rescore(folder / "game.npz", reward, folder / "new.npz", "prey")
    assert (found.rows, found.transitions) == (8, 10)
    before, after = np.load(folder / "game.npz"), np.load(folder / "new.npz")
    assert after["prey/rewards"][:5].tolist() == [[n, n] for n in (1, 2, 3, 7, 5)]
    assert before.files == after.files
    for name in before.files:
        assert name == "prey/rewards" or np.array_equal(before[name], after[name])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("short", r"returned float32 \(4,\): return a number for each row, \(5,\)"),
        ("words", "return a number for each row"),
        ("endless", "rewards are finite"),
        ("broken", "raised: KeyError: 'reward'"),
        ("number", "is a int: give a function"),
        ("numbr", "did you mean number"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_what_is_no_reward_is_refused(name: str, words: str, folder: Path) -> None:
    with pytest.raises(Refused, match=words):
        rescore(folder / "demos.npz", f"{folder / 'rewards.py'}:{name}", folder / "new.npz")
    assert not (folder / "new.npz").exists()


@pytest.mark.parametrize(
    ("path", "words"),
    [("demos.npz", "is there already"), ("new.txt", "FILE.npz"), ("gone/new.npz", "no folder")],
)
def test_nothing_is_overwritten(path: str, words: str, folder: Path) -> None:
    with pytest.raises(Refused, match=words):
        rescore(folder / "demos.npz", f"{folder / 'rewards.py'}:next_number", folder / path)


def test_what_has_no_episodes_is_refused(folder: Path) -> None:
    np.savez(folder / "bare.npz", rewards=np.zeros(3, "float32"))
    with pytest.raises(Refused, match="lacks valid, ages"):
        rescore(folder / "bare.npz", f"{folder / 'rewards.py'}:next_number", folder / "new.npz")
