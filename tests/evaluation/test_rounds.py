"""What everyone moves is the same for everyone, and what a learner does with it is real work."""

import math

import numpy as np
import pytest

from artos.buffer.actor_block import ActorBlock
from artos.buffer.samplers.batch import Batch
from artos.losses.gae import advantages
from artos.policies.flat import layout
from artos.protocol.invocations import Claim
from evaluation.pipelining.recording import ENVS, drawn
from evaluation.pipelining.rounds import (
    FRAME,
    OBSERVATIONS,
    SMALL,
    STACK,
    Recording,
    packed,
    round_of,
    unpacked,
)
from evaluation.pipelining.rounds_plan import PARAMS, fill, keys, network, plan, weights
from evaluation.pipelining.shared import Place
from evaluation.pipelining.stand_in_learner import PIECE, Learning
from evaluation.pipelining.weights import weights as theirs

STEPS = 24


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording")
    frames, ages = drawn(3 * STEPS)
    ages[10] = 0  # an episode ends in the first round of every environment
    ages[11:] = (np.arange(1, 3 * STEPS - 10) % 256)[:, None]
    Recording.save(folder, frames, ages)
    return Recording(folder)


def test_stacks_are_the_last_frames_and_never_look_behind_an_episode(recording):
    frames, ages = recording.window(0, STEPS)
    stacks = round_of(recording, 0, STEPS)[OBSERVATIONS]
    assert stacks.shape == (STEPS, STACK, *FRAME)
    assert np.array_equal(stacks[5], frames[2:6])
    assert ages[10] == 0
    assert not stacks[10, :3].any()
    assert np.array_equal(stacks[11, 2:], frames[10:12])


def test_actors_have_rounds_of_their_own(recording):
    first, second, again = (recording.window(a, STEPS)[0] for a in (0, 1, ENVS))
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, again)
    assert recording.window(ENVS, STEPS)[1][0] == 0


@pytest.mark.parametrize("once", [True, False])
def test_a_block_holds_what_the_rivals_move(recording, tmp_path, once):
    made, _ = plan(2, STEPS, weights(3), once=once)
    blocks = {
        actor: ActorBlock.create(tmp_path / f"actor-{actor}", made.block(actor)) for actor in (0, 1)
    }
    for block in blocks.values():
        fill(block, recording, STEPS)
        block.commit(2 * STEPS)
    for start in (0, STEPS):
        batch = Batch(blocks, [Claim(actor, start, start + STEPS) for actor in blocks])
        for actor in blocks:
            expected = round_of(recording, actor, STEPS)
            for name, values in expected.items():
                found = batch.gather(name)[actor].reshape(values.shape)
                assert np.array_equal(found, values), name


def test_every_key_of_the_plan_is_moved_by_everyone():
    names = {key.name for key in keys(once=True)}
    assert names == {OBSERVATIONS, *SMALL}
    assert {key.name: key.dtype for key in keys(once=False)} == {OBSERVATIONS: "uint8", **SMALL}


def test_the_weights_are_those_of_the_network():
    shapes = [shape for _, shape in layout(network())]
    assert sum(map(math.prod, shapes)) == PARAMS == sum(each.size for each in theirs().values())


def test_small_keys_survive_packing(recording):
    found = round_of(recording, 3, STEPS)
    for name, values in unpacked(packed(found), STEPS).items():
        assert np.array_equal(values, found[name]), name


def test_a_place_holds_rounds_side_by_side(recording):
    rounds = [round_of(recording, actor, STEPS) for actor in (0, 1, 2)]
    place = Place(3, STEPS)
    put = place.put(rounds)
    for actor, found in enumerate(rounds):
        place.small[actor] = packed(found)
        assert np.array_equal(put.observations[actor], found[OBSERVATIONS])
    there = place.batch()
    for name in SMALL:
        assert np.array_equal(there.small[name], put.small[name]), name


def test_the_learner_finds_the_advantages_that_ours_finds(recording):
    rounds = [round_of(recording, actor, STEPS) for actor in (0, 1)]
    small = {name: np.stack([found[name] for found in rounds]) for name in SMALL}
    small["terminations"][:, 7] = True
    found = Learning().preprocess(small)
    wide = {name: values[..., None] for name, values in small.items()}
    names = ("rewards", "values", "bootstraps", "terminations", "truncations")
    expected, _ = advantages(*(wide[name] for name in names), 0.99, 0.95)
    np.testing.assert_allclose(found, expected[..., 0], rtol=1e-5, atol=1e-5)


def test_the_learner_reads_every_row_and_its_time_is_counted():
    rows = np.random.default_rng(0).integers(0, 255, (PIECE + 3, STACK, *FRAME), np.uint8)
    whole, changed = Learning(), Learning()
    with whole.working():
        whole.learn(rows)
    assert whole.seconds > 0
    assert whole.cpu_seconds > 0
    rows[-1, 0, 0, 0] ^= 255
    changed.learn(rows)
    assert not np.array_equal(whole.outputs, changed.outputs)
