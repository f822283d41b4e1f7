"""Real processes on one block: readers lapped by a fast writer, writers killed anywhere."""

from __future__ import annotations

import time

import numpy as np
import pytest
from buffer_helpers import Child, new_block
from helpers import PATIENCE

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import Consumer
from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.samplers.sequences import SequenceSampler
from artos.buffer.samplers.uniform import UniformSampler
from artos.buffer.shm_folder import ShmFolder
from artos.errors import Overwritten
from artos.specs.keys import VERSION_KEY, DataKey

pytestmark = pytest.mark.processes

WIDE = 600
KEYS = (
    DataKey("wide", (WIDE,), "int64"),
    DataKey("frames", (WIDE,), "int64", stack=3),
    DataKey("ages", (), "uint8"),
    DataKey("terminations", (), "bool"),
    DataKey("truncations", (), "bool"),
    DataKey("valid", (), "bool"),
)
ENVS, CHUNK, EPISODE = 2, 4, 50


def write_rows(block: ActorBlock, start: int, stop: int) -> None:
    """Every number of a row is its step (with the environment's in front)."""
    for step in range(start, stop):
        row = block.index(step)
        for env in range(ENVS):
            block.arrays["wide"][row, env] = env << 40 | step
            block.arrays["frames"][row, env] = env << 40 | step
        block.arrays["ages"][row] = step % EPISODE
        block.arrays["terminations"][row] = step % EPISODE == EPISODE - 2
        block.arrays["truncations"][row] = False
        block.arrays["valid"][row] = step % EPISODE < EPISODE - 1
        block.arrays[VERSION_KEY][row] = step


def write_for_ever(block: ActorBlock) -> None:
    heir = ActorBlock.attach(block.segment.path)
    heir.begin_incarnation()
    while True:
        start = heir.allocate(CHUNK)
        write_rows(heir, start, start + CHUNK)
        heir.commit(start + CHUNK)


def whole(value: np.ndarray, expected: int) -> bool:
    return bool((value == expected).all())


def check_row(
    sample: dict[str, np.ndarray], place: int, step: int, env: int, prefix: str = ""
) -> None:
    mark = env << 40
    assert whole(sample[f"{prefix}wide"][place], mark | step)
    for lag in range(3):
        frame = sample[f"{prefix}frames"][place, 2 - lag]
        assert whole(frame, 0 if lag > step % EPISODE else mark | (step - lag))


def test_ranges_read_under_a_fast_writer_are_whole_or_refused(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, 64, envs=ENVS)
    out = np.empty((32, ENVS, WIDE), np.int64)
    good = refused = 0
    with Child(lambda: write_for_ever(block)):
        end = time.monotonic() + PATIENCE
        while (good < 200 or refused < 20) and time.monotonic() < end:
            stop = block.committed(("wide",))
            # Alternately the newest rows, which mostly can be read, and the very oldest.
            start = max(0, stop - 32) if good <= 10 * refused else block.oldest()
            if stop - start < 32:
                continue
            try:
                block.read("wide", start, start + 32, out)
            except Overwritten:
                refused += 1
                continue
            good += 1
            for env in range(ENVS):
                want = (env << 40 | np.arange(start, start + 32))[:, None]
                assert (out[:, env] == want).all(), "a torn row"
    assert good >= 200
    assert refused >= 20


@pytest.mark.parametrize("kind", [UniformSampler, PrioritisedSampler])
def test_samples_under_fast_writers_are_whole(
    folder: ShmFolder, kind: type[UniformSampler]
) -> None:
    blocks = {a: new_block(folder.path, KEYS, 200, actor=a, envs=ENVS) for a in range(2)}
    names = ("wide", "frames")
    sampler = kind(blocks, names, 32, next_keys=names, seed=0)
    children = [Child(lambda b=block: write_for_ever(b)) for block in blocks.values()]
    try:
        while min(block.written for block in blocks.values()) < 250:
            assert all(child.status is None for child in children)
        first, replaced = blocks[0].written, 0
        replace = sampler._reader._replace

        def counted(*args: object) -> None:
            nonlocal replaced
            replaced += 1
            replace(*args)

        sampler._reader._replace = counted
        end, turn = time.monotonic() + PATIENCE, 0
        while turn < 100 or not replaced:
            assert time.monotonic() < end, f"{turn} whole samples, {replaced} rows replaced"
            try:
                sample = sampler.sample()
            except Overwritten:
                continue  # refused aloud: two writers on a busy machine may lap it every time
            turn += 1
            for place, (_, step, env) in enumerate(sample["index"].tolist()):
                check_row(sample, place, step, env)
                check_row(sample, place, step + 1, env, "next.")
            if kind is PrioritisedSampler and turn % 3 == 0:
                sampler.update(sample["index"], np.ones(32))
        assert blocks[0].written > first + 200, "the writer went round while this was sampled"
    finally:
        for child in children:
            child.kill()


def test_sequences_under_a_fast_writer_are_whole(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, 600, envs=ENVS)
    sampler = SequenceSampler({0: block}, ("wide", "frames"), 8, 10, seed=0)
    with Child(lambda: write_for_ever(block)):
        while block.written < 700:
            pass
        for _ in range(60):
            sample = sampler.sample()
            for place, (_, start, env) in enumerate(sample["index"].tolist()):
                part = {name: value[place] for name, value in sample.items()}
                for offset in range(10):
                    check_row(part, offset, start + offset, env)


def test_a_writer_killed_anywhere_loses_no_committed_row(folder: ShmFolder) -> None:
    """Thirty kills: the consumer sees every step once, in order, each row whole.

    A commit cut short by a kill is finished by the executor or by the next writer, in turn.
    """
    names = tuple(key.name for key in KEYS)
    block = new_block(
        folder.path, KEYS, 40, envs=ENVS, consumers=(Consumer("learner", names),), on_full="wait"
    )
    taken = 0
    for kill in range(30):
        with Child(lambda: write_for_ever(block)) as child:
            until = block.written + 5 + kill % 7 * 3
            while taken < until:
                stop = block.committed(names)
                for part in block.views("wide", taken, stop) if stop > taken else ():
                    for row in part:
                        for env in range(ENVS):
                            assert whole(row[env], env << 40 | taken)
                        taken += 1
                block.acknowledge("learner", taken, taken)
            child.kill()
        assert block.committed(names) >= taken
        if kill % 2:
            block.recover()
            assert block.written >= taken
            assert block.free() <= block.spec.capacity
    assert block.incarnation == 30
