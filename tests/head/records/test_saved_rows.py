"""The replay buffer in a checkpoint: what comes back, and which files are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import safetensors.numpy
from disks import full, needs_mount, small_disk

from artos.buffer import rows_file
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.errors import CheckpointFault
from artos.runs import checkpoint
from artos.runs.checkpoint import Manifest
from artos.specs.keys import DataKey

KEYS = (DataKey("rewards"), DataKey("frames", (3,), "uint8"))
FACTS = Manifest(workload="dqn", env="toy", seed=1, version=3, steps=8, updates=3)
ARRAYS = {"w": np.arange(4.0)}
CAPACITY, ENVS = 8, 2


def blocks_in(
    folder: Path, capacity: int = CAPACITY, keys: tuple[DataKey, ...] = KEYS
) -> dict[int, ActorBlock]:
    folder.mkdir()
    spec = {a: BlockSpec(a, keys, capacity, ENVS, (), "overwrite") for a in range(2)}
    return {actor: ActorBlock.create(folder / f"actor-{actor}", spec[actor]) for actor in spec}


def write(block: ActorBlock, rows: int) -> None:
    """Rows that say which they are."""
    for _ in range(rows):
        step = block.allocate(1)
        block.arrays["rewards"][block.index(step)] = step + 100 * block.spec.actor
        block.arrays["frames"][block.index(step)] = step
        block.arrays["policy_version"][block.index(step)] = step // 2
        block.commit(step + 1)


@pytest.fixture
def blocks(tmp_path: Path) -> dict[int, ActorBlock]:
    """Blocks of which one was overwritten in part and the other is not full."""
    made = blocks_in(tmp_path / "shm")
    write(made[0], 13)
    write(made[1], 5)
    made[1].begin_incarnation()
    return made


@pytest.fixture
def saved(tmp_path: Path, blocks: dict[int, ActorBlock]) -> Path:
    checkpoint.save(tmp_path / "saved", ARRAYS, FACTS, blocks, b"states")
    return tmp_path / "saved"


def restored(saved: Path, into: dict[int, ActorBlock]) -> dict[int, ActorBlock]:
    checkpoint.restore_rows(saved, checkpoint.read_manifest(saved), into)
    return into


def rows_of(block: ActorBlock) -> list[float]:
    start = block.oldest()
    out = np.zeros((block.written - start, ENVS), np.float32)
    block.read("rewards", start, block.written, out)
    return out[:, 0].tolist()


def test_rows_and_counters_come_back(
    saved: Path, blocks: dict[int, ActorBlock], tmp_path: Path
) -> None:
    new = restored(saved, blocks_in(tmp_path / "new"))
    for actor, block in blocks.items():
        assert (new[actor].written, new[actor].oldest()) == (block.written, block.oldest())
        assert new[actor].incarnation == block.incarnation
        assert rows_of(new[actor]) == rows_of(block)
        for step in range(block.oldest(), block.written):
            at = block.index(step)
            for name, array in block.arrays.items():
                np.testing.assert_array_equal(new[actor].arrays[name][at], array[at])
    write(new[0], 1)
    assert rows_of(new[0]) == [6, 7, 8, 9, 10, 11, 12, 13]


@pytest.mark.parametrize(
    ("capacity", "kept"), [(16, range(5, 13)), (4, range(9, 13))], ids=["larger", "smaller"]
)
def test_into_blocks_of_another_size(
    capacity: int, kept: range, saved: Path, tmp_path: Path
) -> None:
    new = restored(saved, blocks_in(tmp_path / "new", capacity))
    assert rows_of(new[0]) == list(kept)
    write(new[0], 2)
    assert rows_of(new[0])[-3:] == [12, 13, 14]


def test_others_can_read_the_file(saved: Path) -> None:
    rows = checkpoint.read_manifest(saved).rows_file
    assert rows is not None
    tensors = safetensors.numpy.load_file(saved / rows.file)
    np.testing.assert_array_equal(tensors["actor-0.rewards"][:, 0], np.arange(5, 13))
    assert tensors["actor-1.frames"].shape == (5, ENVS, 3)


def test_rows_that_are_overwritten_meanwhile_do_not_count(
    blocks: dict[int, ActorBlock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all = rows_file._write_all

    def slowly(descriptor: int, pieces: list[memoryview]) -> None:
        write(blocks[0], 3)  # the actor goes on
        write_all(descriptor, pieces)

    monkeypatch.setattr(rows_file, "_write_all", slowly)
    checkpoint.save(tmp_path / "saved", ARRAYS, FACTS, blocks)
    new = restored(tmp_path / "saved", blocks_in(tmp_path / "new"))
    assert new[0].written == 13
    assert rows_of(new[0]) == [8, 9, 10, 11, 12]


def test_they_are_written_from_where_they_are(
    blocks: dict[int, ActorBlock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes to the file is the mapping itself, not a copy."""
    pieces: list[memoryview] = []
    write_all = rows_file._write_all

    def noted(descriptor: int, parts: list[memoryview]) -> None:
        pieces.extend(parts[1:])
        write_all(descriptor, parts)

    monkeypatch.setattr(rows_file, "_write_all", noted)
    checkpoint.save(tmp_path / "saved", ARRAYS, FACTS, blocks)
    segments = [np.frombuffer(block.segment.memory, np.uint8) for block in blocks.values()]
    views = [np.frombuffer(piece, np.uint8) for piece in pieces]
    assert views
    assert all(any(np.shares_memory(v, segment) for segment in segments) for v in views if len(v))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def foreign(path: Path) -> None:
    path.write_bytes(b"something else")


@pytest.mark.parametrize("harm", [truncated, damaged, foreign, Path.unlink])
@pytest.mark.parametrize("kind", ["rows", "states"])
def test_a_file_that_is_not_whole_is_refused(
    kind: str, harm: Callable[[Path], None], saved: Path, tmp_path: Path
) -> None:
    (path,) = saved.glob(f"{kind}-*")
    harm(path)
    manifest = checkpoint.read_manifest(saved)
    new = blocks_in(tmp_path / "new")
    with pytest.raises(CheckpointFault, match=path.name):
        _ = (
            checkpoint.restore_rows(saved, manifest, new),
            checkpoint.load_states(saved, manifest, {}),
        )


def test_a_manifest_that_names_a_file_elsewhere_is_refused(saved: Path, tmp_path: Path) -> None:
    facts = json.loads((saved / "manifest.json").read_text())
    facts["rows_file"]["file"] = "../other"
    facts["states"] = "/etc/passwd"
    (saved / "manifest.json").write_text(json.dumps(facts))
    manifest = checkpoint.read_manifest(saved)
    with pytest.raises(CheckpointFault, match="names no file of its folder"):
        checkpoint.restore_rows(saved, manifest, blocks_in(tmp_path / "new"))
    with pytest.raises(CheckpointFault, match="names no file of its folder"):
        checkpoint.load_states(saved, manifest, {})


@pytest.mark.parametrize(
    "keys", [KEYS[:1], (*KEYS, DataKey("more")), (KEYS[0], DataKey("frames", (4,), "uint8"))]
)
def test_rows_of_other_keys_are_refused(
    keys: tuple[DataKey, ...], saved: Path, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointFault, match=r"do not fit.*--set checkpoint=model"):
        restored(saved, blocks_in(tmp_path / "new", keys=keys))


def test_states_of_another_plan_are_refused(blocks: dict[int, ActorBlock], tmp_path: Path) -> None:
    facts = msgspec.structs.replace(FACTS, states_of={"envs": "1", "steps": "2", "actors": "3"})
    manifest = checkpoint.save(tmp_path / "saved", ARRAYS, facts, blocks, b"states")
    same = {"envs": "1", "steps": "2", "actors": "3"}
    assert checkpoint.load_states(tmp_path / "saved", manifest, same) == b"states"
    for other in (same | {"envs": "2", "steps": "1"}, {"actors": "3"}):
        with pytest.raises(CheckpointFault, match=r"other envs, steps: .*--set checkpoint=model"):
            checkpoint.load_states(tmp_path / "saved", manifest, other)


def test_a_checkpoint_without_them_is_as_it_always_was(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, ARRAYS, FACTS)
    assert len(list(tmp_path.iterdir())) == 2
    facts = json.loads((tmp_path / "manifest.json").read_text())
    for name in ("rows_file", "states", "states_sha256"):
        del facts[name]  # as it was saved before there were any
    (tmp_path / "manifest.json").write_text(json.dumps(facts))
    _, manifest = checkpoint.load(tmp_path)
    assert msgspec.structs.replace(manifest, version=0) is not None
    assert checkpoint.load_states(tmp_path, manifest, {}) == b""
    assert restored(tmp_path, blocks_in(tmp_path / "new"))[0].written == 0


def test_only_the_newest_are_kept(saved: Path, blocks: dict[int, ActorBlock]) -> None:
    write(blocks[0], 1)
    newer = msgspec.structs.replace(FACTS, version=4)
    checkpoint.save(saved, ARRAYS, newer, blocks, b"more")
    assert len(list(saved.iterdir())) == 4
    checkpoint.save(saved, ARRAYS, newer)
    assert len(list(saved.iterdir())) == 2


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "256k") as made:
        yield made


@needs_mount
def test_on_a_full_disk_the_last_one_stays_whole(
    disk: Path, blocks: dict[int, ActorBlock], tmp_path: Path
) -> None:
    folder = disk / "saved"
    checkpoint.save(folder, ARRAYS, FACTS, blocks, b"states")
    before = sorted(path.name for path in folder.iterdir())
    write(blocks[0], 1)
    newer = msgspec.structs.replace(FACTS, version=4)
    filler = disk / ".some"
    for left in (0, 4096, 8192, 12288):  # for none, and for some of the files
        filler.write_bytes(bytes(left))
        with full(disk):
            filler.unlink()
            with pytest.raises(OSError, match="No space left"):
                checkpoint.save(folder, ARRAYS, newer, blocks, bytes(20_000))
        assert sorted(path.name for path in folder.iterdir()) == before
    assert restored(folder, blocks_in(tmp_path / "new"))[0].written == 13
