from __future__ import annotations

import json
import random
import tempfile
import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from records_writer import Start, arrays_of

from artos.errors import CheckpointFault
from artos.runs import checkpoint
from artos.runs.checkpoint import MANIFEST, Manifest, check_workload, layout_of, load, save
from artos.specs.keys import ArraySpec

FACTS = Manifest(
    workload="ppo", env="CartPole-v1", seed=7, version=3, steps=4096, updates=3, episodes=99,
    seconds=12.5, rows=(2048, 2048), incarnations=(1, 2), resumes=1,
    restored=("weights", "optimiser"), not_restored=("episodes in progress",),
)  # fmt: skip
ARRAYS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "learner.step": np.asarray(5)}


def manifest_with(folder: Path, **changes: object) -> None:
    facts = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(facts | changes))


def arrays_file(folder: Path) -> Path:
    return folder / json.loads((folder / MANIFEST).read_text())["file"]


def test_what_was_saved_comes_back_with_its_facts(tmp_path: Path) -> None:
    done = save(tmp_path, ARRAYS, FACTS)
    arrays, manifest = load(tmp_path, layout_of(ARRAYS))
    assert manifest == done
    assert msgspec.structs.replace(done, layout=(), file="", sha256="", date="") == FACTS
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)
        assert arrays[name].flags.writeable


def test_past_versions_are_those_of_one_learner() -> None:
    names = ("past.2.params", "past.2.reads.heat", "rival/past.6.params", "rival/params", "params")
    found = dict.fromkeys(names, np.zeros(1))
    assert {v: [*of] for v, of in checkpoint.past_in(found).items()} == {
        2: ["params", "reads.heat"]
    }
    assert {v: [*of] for v, of in checkpoint.past_in(found, "rival/").items()} == {6: ["params"]}
    assert checkpoint.past_in(found, "other/") == {}


DTYPES = st.sampled_from(["float32", "float64", "float16", "int64", "uint8", "bool", ">f4"])


@given(st.dictionaries(st.text(min_size=1, max_size=8), DTYPES.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_side=4))
), max_size=4))  # fmt: skip
def test_any_arrays_come_back(arrays: dict[str, np.ndarray]) -> None:
    transposed = {name: array.T for name, array in arrays.items()}
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), transposed, FACTS)
        back, _ = load(Path(folder))
    assert back.keys() == arrays.keys()
    for name, array in transposed.items():
        np.testing.assert_array_equal(back[name], array)


def test_only_the_newest_checkpoint_is_kept(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        facts = msgspec.structs.replace(FACTS, version=version)
        save(tmp_path, {"w": np.full(2, version)}, facts)
    assert len(list(tmp_path.iterdir())) == 2
    arrays, manifest = load(tmp_path)
    assert (manifest.version, arrays["w"].tolist()) == (3, [3, 3])


def test_any_safetensors_reader_reads_the_arrays(tmp_path: Path) -> None:
    done = save(tmp_path, ARRAYS, FACTS)
    read = safetensors.numpy.load_file(tmp_path / done.file)
    np.testing.assert_array_equal(read["w"], ARRAYS["w"])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_truncated_arrays_are_named(tmp_path: Path, share: float) -> None:
    save(tmp_path, ARRAYS, FACTS)
    path = arrays_file(tmp_path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(CheckpointFault, match="damaged or truncated") as caught:
        load(tmp_path)
    assert path.name in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
def test_a_truncated_manifest_is_named(tmp_path: Path, share: float) -> None:
    save(tmp_path, ARRAYS, FACTS)
    text = (tmp_path / MANIFEST).read_bytes()
    (tmp_path / MANIFEST).write_bytes(text[: int(len(text) * share)])
    with pytest.raises(CheckpointFault, match="truncated or not of ARTOS"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": 1}', '{"format": "x"}', "\x80"])
def test_a_foreign_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text, encoding="latin-1")
    with pytest.raises(CheckpointFault, match="not of ARTOS"):
        load(tmp_path)


def test_a_newer_format_is_refused_by_its_number(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"format": 99, "new": true}')
    with pytest.raises(CheckpointFault, match=r"format 99.*reads 1"):
        load(tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointFault, match="there is no checkpoint"):
        load(tmp_path / "nowhere")
    save(tmp_path, ARRAYS, FACTS)
    arrays_file(tmp_path).unlink()
    with pytest.raises(CheckpointFault, match="cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["", "../outside.safetensors", "/etc/hostname", ".."])
def test_a_manifest_cannot_name_files_elsewhere(tmp_path: Path, name: str) -> None:
    save(tmp_path, ARRAYS, FACTS)
    manifest_with(tmp_path, file=name)
    with pytest.raises(CheckpointFault):
        load(tmp_path)


def test_arrays_that_are_no_safetensors_are_refused(tmp_path: Path) -> None:
    save(tmp_path, ARRAYS, FACTS)
    arrays_file(tmp_path).write_bytes(b"PK\x03\x04 a torch pickle")
    digest = checkpoint.hashlib.sha256(b"PK\x03\x04 a torch pickle").hexdigest()
    manifest_with(tmp_path, sha256=digest)
    with pytest.raises(CheckpointFault, match="no safetensors file"):
        load(tmp_path)


def test_a_manifest_that_describes_other_arrays_is_refused(tmp_path: Path) -> None:
    save(tmp_path, ARRAYS, FACTS)
    manifest_with(tmp_path, layout=[{"name": "w", "shape": [2, 3], "dtype": "float32"}])
    with pytest.raises(CheckpointFault, match=r"'learner\.step' is unknown"):
        load(tmp_path)


def test_every_array_that_does_not_fit_the_workload_is_named_at_once(tmp_path: Path) -> None:
    save(tmp_path, ARRAYS, FACTS)
    with pytest.raises(CheckpointFault) as caught:
        load(tmp_path, (ArraySpec("w", (3, 2)), ArraySpec("bias", (4,))))
    for part in ("'bias' is missing", "'learner.step' is unknown", "float32[2, 3] instead of"):
        assert part in str(caught.value)


def test_steps_that_were_counted_in_single_precision_are_taken_up(tmp_path: Path) -> None:
    arrays = {"w": ARRAYS["w"], "learner.step": np.asarray(5, np.float32)}
    save(tmp_path, arrays, FACTS)
    found, _ = load(tmp_path, (ArraySpec("w", (2, 3)), ArraySpec("learner.step", (), "float64")))
    assert found["learner.step"].dtype == np.float64
    assert found["learner.step"] == 5
    with pytest.raises(CheckpointFault, match="instead of"):
        load(tmp_path, (ArraySpec("w", (2, 3), "float64"), ArraySpec("learner.step", ())))


def test_a_checkpoint_of_another_workload_or_environment_is_refused(tmp_path: Path) -> None:
    done = save(tmp_path, ARRAYS, FACTS)
    check_workload(tmp_path, done, "ppo", "CartPole-v1")
    for workload, env in (("dqn", "CartPole-v1"), ("ppo", "Acrobot-v1")):
        with pytest.raises(CheckpointFault, match="saved by ppo on CartPole-v1"):
            check_workload(tmp_path, done, workload, env)


@pytest.mark.long
@pytest.mark.processes
def test_sigkill_while_saving_always_leaves_a_checkpoint_that_loads(
    tmp_path: Path, start: Start
) -> None:
    """Twenty kills, each after a random part of a save that follows a finished one."""
    chance = random.Random(1)
    for attempt in range(20):
        folder = tmp_path / str(attempt % 3)  # later writers find what killed ones left
        writer = start("save", folder)
        assert writer.stdout is not None
        first = int(writer.stdout.readline())
        # A pause here picks the point of the kill; nothing is ordered by it.
        threading.Event().wait(chance.random() * 0.03)
        writer.kill()
        finished = [first, *map(int, writer.stdout.read().split())]
        writer.wait()
        arrays, manifest = load(folder, layout_of(arrays_of(0)))
        assert manifest.version in (finished[-1], finished[-1] + 1)
        np.testing.assert_equal(arrays, arrays_of(manifest.version))


@pytest.mark.processes
def test_a_reader_beside_a_saving_run_always_gets_a_whole_checkpoint(
    tmp_path: Path, start: Start
) -> None:
    writer = start("save", tmp_path)
    assert writer.stdout is not None
    writer.stdout.readline()
    seen = []
    for _ in range(40):
        arrays, manifest = load(tmp_path)
        np.testing.assert_equal(arrays, arrays_of(manifest.version))
        seen.append(manifest.version)
    assert seen == sorted(seen)


def test_a_checkpoint_replaced_while_it_is_read_gives_the_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, {"w": np.zeros(2)}, msgspec.structs.replace(FACTS, version=1))
    read = checkpoint._read

    def read_after_a_save(folder: Path, name: str, sha256: str) -> bytes:
        if name.startswith("arrays-1-"):
            save(folder, {"w": np.ones(2)}, msgspec.structs.replace(FACTS, version=2))
        return read(folder, name, sha256)

    monkeypatch.setattr(checkpoint, "_read", read_after_a_save)
    arrays, manifest = load(tmp_path)
    assert (manifest.version, arrays["w"].tolist()) == (2, [1.0, 1.0])
