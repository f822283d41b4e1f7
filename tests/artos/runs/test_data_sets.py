"""Data sets: what is read of them, what they are refused for, and the block that they fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.data_block import DataBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.part_of_block import Part
from artos.buffer.samplers.drawn_batch import drawn, sampler_of
from artos.buffer.samplers.patterns import Draw, Prioritised, Sequences, Uniform
from artos.buffer.shm_folder import ShmFolder
from artos.envs.spec import ActionSpec, EnvSpec
from artos.envs.spec import Part as EnvPart
from artos.errors import NothingToSample, Refused, UnknownKey
from artos.runs import checkpoint
from artos.runs.checkpoint import SAVED, Manifest
from artos.runs.data_sets import choices_of, examined, filled, read
from artos.specs.data import NO_VERSION, DataSet, Rows
from artos.specs.keys import VERSION_KEY, DataKey

KEYS = (
    DataKey("observations", (2,)), DataKey("actions", (), "int64"), DataKey("rewards"),
    DataKey("terminations", (), "bool"), DataKey("truncations", (), "bool"),
    DataKey("valid", (), "bool"), DataKey("ages", (), "uint8"),
)  # fmt: skip
NAMES = tuple(key.name for key in KEYS)
ROW = NAMES[:5]
DEMOS = 7
"""The number of its block."""

Arrays = dict[str, NDArray[Any]]


@pytest.fixture
def shm() -> Any:
    folder = ShmFolder.create("data")
    yield folder.path
    folder.remove()


def episodes(count: int, length: int = 4, first: float = 0.0) -> Arrays:
    """Episodes one after the other, each with its last observation in a row more.

    The observation of row n is (first + n, -(first + n)), so that a successor shows that it is one.
    """
    rows = count * (length + 1)
    place = np.arange(rows) % (length + 1)
    number = (first + np.arange(rows)).astype("float32")
    return {
        "observations": np.stack([number, -number], 1),
        "actions": np.arange(rows),
        "rewards": np.ones(rows, "float32"),
        "terminations": place == length - 1,
        "truncations": np.zeros(rows, bool),
        "valid": place < length,
        "ages": place.astype("uint8"),
    }


def stored(folder: Path, **changes: Any) -> str:
    """A file of three episodes in which some arrays are others, or None: not there."""
    arrays = episodes(3) | changes
    np.savez(folder / "demos.npz", **{n: a for n, a in arrays.items() if a is not None})
    return "demos.npz"


def faults_of(folder: Path, path: str = "demos.npz") -> list[str]:
    faults: list[str] = []
    examined({"demos": Rows(path)}, str(folder), KEYS, faults)
    return faults


def found(folder: Path, path: str = "demos.npz", keys: tuple[DataKey, ...] = KEYS) -> DataSet:
    faults: list[str] = []
    (data_set,) = examined({"demos": Rows(path)}, str(folder), keys, faults)
    assert faults == []
    return data_set


def block_of(
    shm: Path, data_set: DataSet, choices: Mapping[str, Sequence[int]] | None = None
) -> DataBlock:
    spec = BlockSpec(DEMOS, data_set.keys, data_set.rows, data_set.envs, (), "overwrite")
    filled(shm / "data-demos", spec, data_set, choices or {})
    return DataBlock.attach(shm / "data-demos")


def test_a_block_is_full_from_the_start_and_read_only(tmp_path: Path, shm: Path) -> None:
    data_set = found(tmp_path, stored(tmp_path, unread=np.zeros(3)))
    assert (data_set.rows, data_set.envs, data_set.keys) == (15, 1, KEYS)
    block = block_of(shm, data_set)
    assert (block.written, block.oldest()) == (15, 0)
    for name, array in episodes(3).items():
        np.testing.assert_array_equal(block.arrays[name][:, 0], array)
    assert (block.arrays[VERSION_KEY] == NO_VERSION).all()
    with pytest.raises(ValueError, match="read-only"):
        block.arrays["rewards"][0] = 1.0


def test_environments_may_lie_side_by_side(tmp_path: Path, shm: Path) -> None:
    wide = {name: np.stack([array, array], 1) for name, array in episodes(3).items()}
    data_set = found(tmp_path, stored(tmp_path, **wide))
    assert (data_set.rows, data_set.envs) == (15, 2)
    block = block_of(shm, data_set)
    np.testing.assert_array_equal(block.arrays["observations"], wide["observations"])


@pytest.mark.parametrize("front", ["", "prey/"], ids=["its own names", "those of a run"])
def test_a_policy_has_its_rows_by_its_own_names_or_among_those_of_others(
    front: str, tmp_path: Path, shm: Path
) -> None:
    """Each row of a run has all agents of a policy, and the other policies are not read."""
    wide = {name: np.stack([array, array], 1) for name, array in episodes(3).items()}
    others = {f"hunters/{name}": array[:9] for name, array in wide.items()} if front else {}
    np.savez(tmp_path / "game.npz", **{front + n: a for n, a in wide.items()}, **others)
    part, faults = Part("prey", KEYS, 2), list[str]()
    data = {"demos": Rows("game.npz")}
    (data_set,) = examined(data, str(tmp_path), (), faults, {"demos": part})
    assert faults == []
    assert (data_set.rows, data_set.envs, data_set.policy) == (15, 2, "prey")
    block = block_of(shm, data_set)
    np.testing.assert_array_equal(block.arrays["observations"], wide["observations"])
    examined(data, str(tmp_path), (), faults, {"demos": Part("wolves", KEYS[:1], 2)})
    assert len(faults) == bool(front), "there is no such policy in the game"


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    stored(
        tmp_path, observations=np.zeros((15, 2)), actions=np.zeros((15, 3), "int64"),
        rewards=np.zeros(14, "float32"), valid=np.ones((15, 2), bool),
    )  # fmt: skip
    assert faults_of(tmp_path) == [
        "data['demos']: 'observations' is float64, the run's rows have float32: store it with "
        ".astype('float32')",
        "data['demos']: its arrays differ in their number of rows ('observations' 15, 'actions' "
        "15, 'rewards' 14, 'terminations' 15, 'truncations' 15, 'valid' 15, 'ages' 15)",
    ]
    stored(tmp_path, observations=np.zeros((15, 3), "float32"))
    (fault,) = faults_of(tmp_path)
    assert fault.endswith("store it as (rows, 2), or (rows, environments, 2)")


def test_environments_of_two_numbers_are_refused(tmp_path: Path) -> None:
    stored(tmp_path, valid=np.ones((15, 2), bool))
    (fault,) = faults_of(tmp_path)
    assert "differ in their number of environments" in fault


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: None, "there is no file"),
        (lambda path: path.write_bytes(b"no zip"), "not a zip file"),
        (lambda path: np.savez(path, observations=np.array([{}])), "Python objects"),
        (lambda path: np.savez(path, unread=np.zeros(3)), "has none of the run's data keys"),
        (lambda path: np.savez(path, **{n: a[:0] for n, a in episodes(1).items()}), "no rows"),
    ],
    ids=["no file", "no zip", "pickle", "other keys", "empty"],
)
def test_what_is_no_data_set_is_refused(
    write: Callable[[Path], Any], words: str, tmp_path: Path
) -> None:
    write(tmp_path / "demos.npz")
    (fault,) = faults_of(tmp_path)
    assert words in fault


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rewards": np.full(15, np.nan, "float32")}, "NaN or infinity in row 0"),
        ({"valid": np.zeros(15, bool)}, "none is a transition"),
        ({"ages": np.arange(1, 16).astype("uint8")}, "begin with an episode's first row"),
    ],
    ids=["not finite", "no transition", "not from the beginning"],
)
def test_values_that_no_one_could_use_are_refused(
    changes: Arrays, words: str, tmp_path: Path, shm: Path
) -> None:
    data_set = found(tmp_path, stored(tmp_path, **changes))
    with pytest.raises(Refused, match=words):
        block_of(shm, data_set)


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (np.arange(15) % 2 + 7, "'actions' has 7 in row 0, and the environment has 0 to 1"),
        (np.arange(15) % 2 - 1, "'actions' has -1 in row 0"),
        (np.arange(15) % 2, ""),
        (np.where(np.arange(15) % 5 == 4, -1, 1), ""),  # of rows that only hold an observation
    ],
    ids=["too large", "negative", "right", "where none is taken"],
)
def test_choices_that_there_are_not_are_refused(
    actions: NDArray[Any], words: str, tmp_path: Path, shm: Path
) -> None:
    """They were an index out of bounds inside the learner."""
    data_set = found(tmp_path, stored(tmp_path, actions=actions))
    with pytest.raises(Refused, match=words) if words else nullcontext():
        block_of(shm, data_set, {"actions": (2,)})


@pytest.mark.parametrize(("place", "words"), [((0, 1), "has 2 in row 0"), ((4, 0), "5 in row 4")])
def test_each_element_has_choices_of_its_own(
    place: tuple[int, int], words: str, tmp_path: Path, shm: Path
) -> None:
    """Also of observations, of which the last one of an episode counts, too."""
    keys, seen = (DataKey("observations", (2,), "int64"), *KEYS[1:]), np.zeros((15, 2), "int64")
    seen[:, 0] = 4
    seen[place] = 2 if place[1] else 5
    data_set = found(tmp_path, stored(tmp_path, observations=seen), keys)
    with pytest.raises(Refused, match=words):
        block_of(shm, data_set, {"observations": (5, 2)})


def test_each_policy_has_the_choices_of_its_seat() -> None:
    place = EnvPart("observations", (2,), "int64", sizes=(5, 2))
    seen = EnvPart("observations", (2,), "float32")
    one = EnvSpec("game", (place,), ActionSpec("discrete", (), (3,)))
    other = EnvSpec("game", (seen,), ActionSpec("box", (1,), (), (-1.0,), (1.0,)))
    spec = replace(one, seats={"one": one, "other": other})
    plain = to_builtins(spec)
    both = {"observations": (5, 2), "actions": (3,)}
    assert choices_of(plain) == choices_of(plain, "one") == both
    assert choices_of(plain, "other") == {}
    assert choices_of(None) == {}


@pytest.mark.parametrize("ends", ["terminations", "truncations"])
def test_episodes_without_a_row_for_their_last_observation_are_refused(
    ends: str, tmp_path: Path, shm: Path
) -> None:
    """Their last transitions have no successor: they would never be drawn."""
    never = np.zeros(15, bool)
    whole = {"valid": ~never, "terminations": never, "truncations": never}
    ended = np.arange(15) % 5 == 4
    data_set = found(tmp_path, stored(tmp_path, **whole | {ends: ended}))
    with pytest.raises(Refused, match="row 4 ends an episode whose last observation has no row"):
        block_of(shm, data_set)


def test_a_file_that_was_made_of_a_run_may_lack_a_last_observation(
    tmp_path: Path, shm: Path
) -> None:
    rows = episodes(3)
    data_set = found(tmp_path, stored(tmp_path, **{n: a[:-1] for n, a in rows.items()}))
    assert block_of(shm, data_set).written == 14


def test_a_file_that_has_changed_since_is_refused(tmp_path: Path, shm: Path) -> None:
    data_set = found(tmp_path, stored(tmp_path))
    np.savez(tmp_path / "demos.npz", **episodes(4))
    with pytest.raises(Refused, match="has just changed"):
        block_of(shm, data_set)


# -- rows of a run ---------------------------------------------------------------------------------


def kept(run: Path, shm: Path, keys: tuple[DataKey, ...] = KEYS, front: str = "") -> None:
    """The checkpoint of a run whose two actors wrote 15 and 10 rows, and kept the newest 12."""
    blocks, capacity = {}, 12
    for actor, count in ((0, 3), (1, 2)):
        block = ActorBlock.create(
            shm / f"actor-{actor}", BlockSpec(actor, keys, capacity, 1, (), "overwrite")
        )
        rows = episodes(count, first=100.0 * (actor + 1))
        for step in range(count * 5):
            block.allocate(1)
            for name, array in rows.items():
                block.arrays[front + name][block.index(step)] = array[step]
            block.arrays[VERSION_KEY][block.index(step)] = step
            block.commit(step + 1)
        blocks[actor] = block
    manifest = Manifest(workload="w", env="e", seed=1, version=1, steps=1, updates=1)
    checkpoint.save(run / SAVED, {"model.w": np.zeros(1, "float32")}, manifest, blocks)


def test_rows_of_a_run_are_a_data_set(tmp_path: Path, shm: Path) -> None:
    """Of actors one after the other, and the last row of one is not followed by another's."""
    kept(tmp_path / "run", shm)
    data_set = found(tmp_path, "run")
    assert data_set.rows == 12 + 10
    block = block_of(shm, data_set)
    numbers = block.arrays["observations"][:, 0, 0]
    assert numbers.tolist() == [*range(103, 115), *range(200, 210)]
    assert block.arrays["ages"][0] == 0  # it was 3
    draws = _draw(Uniform(256, n_step=3))
    batch = drawn(sampler_of(draws, {}, 1, {"demos": block}), 5, 0.5)
    first, following = batch["observations"][:, 0], batch["next.observations"][:, 0]
    assert ((following - first > 0) & (following - first <= 3)).all()
    assert set(first) == {103.0, *range(105, 109), *range(110, 114), *range(200, 204),
                          *range(205, 209)}  # fmt: skip


def test_an_episode_begins_with_the_first_row_of_each_policy_of_an_actor(
    tmp_path: Path, shm: Path
) -> None:
    """So that no row of another actor is taken for the one before."""
    keys = tuple(replace(key, name=f"p/{key.name}") for key in KEYS)
    kept(tmp_path / "run", shm, keys, "p/")
    assert read(tmp_path / "run")["p/ages"][:3, 0].tolist() == [0, 1, 0]  # they were 3, 4, 0


def test_stacks_of_rows_of_a_run_are_whole(tmp_path: Path, shm: Path) -> None:
    keys = (DataKey("observations", (2,), stack=3), *KEYS[1:])
    kept(tmp_path / "run", shm, keys)
    block = block_of(shm, found(tmp_path, "run", keys))
    batch = drawn(sampler_of(_draw(Uniform(256)), {}, 1, {"demos": block}), 5, 0.5)
    stacks, ages = batch["observations"][..., 0], block.arrays["ages"][:, 0]
    for stack, step in zip(stacks, batch.index[:, 1], strict=True):
        back = min(2, int(ages[step]))
        assert stack[2 - back :].tolist() == [stack[2] - n for n in range(back, -1, -1)]


def test_a_run_without_rows_is_refused(tmp_path: Path) -> None:
    manifest = Manifest(workload="w", env="e", seed=1, version=1, steps=1, updates=1)
    checkpoint.save(tmp_path / "run" / SAVED, {"model.w": np.zeros(1, "float32")}, manifest)
    (fault,) = faults_of(tmp_path, "run")
    assert "checkpoint=all" in fault
    assert "artos record" in fault


# -- draws -----------------------------------------------------------------------------------------


def _draw(pattern: Uniform | Prioritised | Sequences, picks: int | None = None) -> Draw:
    data = {"demos": pattern.batch if picks is None else picks}
    return Draw("learner.update", ROW, pattern, None, data)


@pytest.fixture
def live(shm: Path) -> ActorBlock:
    """Two episodes of an actor, from observation 1000 on."""
    block = ActorBlock.create(shm / "actor-0", BlockSpec(0, KEYS, 64, 1, (), "overwrite"))
    rows = episodes(2, first=1000.0)
    start = block.allocate(10)
    for name, array in rows.items():
        block.arrays[name][start : start + 10, 0] = array
    block.arrays[VERSION_KEY][start : start + 10] = 3
    block.commit(10)
    return block


@pytest.mark.parametrize(
    "pattern",
    [Uniform(32), Uniform(32, n_step=3), Prioritised(32), Sequences(32, length=3, burn_in=1)],
    ids=["uniform", "n-step", "prioritised", "sequences"],
)
def test_so_many_of_a_batch_are_of_the_data_set(
    pattern: Uniform | Prioritised | Sequences, tmp_path: Path, shm: Path, live: ActorBlock
) -> None:
    block = block_of(shm, found(tmp_path, stored(tmp_path)))
    sampler = sampler_of(_draw(pattern, 8), {0: live}, 1, {"demos": block})
    for _ in range(3):
        batch = drawn(sampler, 5, 0.5)
        assert len(batch["actions"]) == 32
        shown = batch.of("demos")
        assert shown.tolist() == [False] * 24 + [True] * 8
        numbers = batch["observations"].reshape(32, -1, 2)[:, :, 0]
        assert ((numbers < 100) == shown[:, None]).all()
        assert ((batch[VERSION_KEY].reshape(32, -1) == NO_VERSION) == shown[:, None]).all()
        assert len(batch.weights) == 32
        assert batch.burn_in == getattr(pattern, "burn_in", 0)
    with pytest.raises(UnknownKey, match="demos"):
        batch.of("dmos")


def test_priorities_are_those_of_the_rows_that_they_were_given_for(
    tmp_path: Path, shm: Path, live: ActorBlock
) -> None:
    block = block_of(shm, found(tmp_path, stored(tmp_path)))
    sampler = sampler_of(_draw(Prioritised(64, alpha=1.0), 32), {0: live}, 1, {"demos": block})
    for _ in range(8):  # until each row has had its priority
        batch = drawn(sampler, 5, 0.5)
        chosen = np.isin(batch["observations"][:, 0], (1001.0, 6.0))
        batch.prioritise(np.where(chosen, 1.0, 1e-6))
    batch = drawn(sampler, 5, 0.5)
    assert set(batch["observations"][:32, 0]) == {1001.0}
    assert set(batch["observations"][32:, 0]) == {6.0}


def test_a_sampler_goes_on_from_what_was_taken(tmp_path: Path, shm: Path, live: ActorBlock) -> None:
    from artos.system.snapshot import pickled, put_back, taken, unpickled  # noqa: PLC0415

    data = {"demos": block_of(shm, found(tmp_path, stored(tmp_path)))}
    one, other = (sampler_of(_draw(Prioritised(16), 4), {0: live}, s, data) for s in (1, 2))
    drawn(one, 5, 0.5)
    put_back(other, unpickled(pickled(taken(one))))
    np.testing.assert_array_equal(drawn(one, 5, 0.5).index, drawn(other, 5, 0.5).index)


def test_without_live_rows_a_mixed_batch_waits(tmp_path: Path, shm: Path) -> None:
    block = block_of(shm, found(tmp_path, stored(tmp_path)))
    empty = ActorBlock.create(shm / "actor-1", BlockSpec(1, KEYS, 64, 1, (), "overwrite"))
    sampler = sampler_of(_draw(Uniform(8), 4), {1: empty}, 1, {"demos": block})
    with pytest.raises(NothingToSample):
        sampler.sample(1)
