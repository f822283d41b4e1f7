from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from helpers import PATIENCE, python

from artos.envs.make import describe, make_vector
from artos.envs.notes import address_notes
from artos.envs.stepper import Stepper
from artos.errors import Refused

pytestmark = pytest.mark.usefixtures("atari")


def test_pong_is_stored_as_single_frames() -> None:
    spec = describe("PongNoFrameskip-v4")
    (part,) = spec.parts
    assert (part.shape, part.stack, part.dtype, part.value_shape) == (
        (84, 84),
        4,
        "uint8",
        (4, 84, 84),
    )
    assert spec.actions.sizes == (6,)
    assert "ages" in {key.name for key in spec.data_keys()}


@pytest.mark.parametrize("name", ["PongNoFrameskip-v4", "ALE/Pong-v5"])
def test_stacks_can_be_rebuilt_from_frames_and_ages(name: str) -> None:
    stepper = Stepper(make_vector(name, 2), name)
    stack = stepper.reset(3)["observations"]
    rng = np.random.default_rng(0)
    frames: list[list[np.ndarray]] = [[], []]
    for _ in range(60):
        for env in range(2):
            frames[env].append(stack[env, -1].copy())
            age = int(stepper.ages[env])
            for lag in range(4):
                wanted = frames[env][-1 - lag] if lag <= age else 0
                assert (stack[env, -1 - lag] == wanted).all()
        stack = stepper.step(rng.integers(0, 6, 2)).obs["observations"]
    stepper.close()


def test_a_point_lost_and_a_game_over_are_told_apart() -> None:
    stepper = Stepper(make_vector("BreakoutNoFrameskip-v4", 2), terminal_lives=True)
    obs = stepper.reset(1)["observations"]
    rng = np.random.default_rng(0)
    lost = games = 0
    for _ in range(400):
        step = stepper.step(rng.integers(0, 4, 2))
        lost += int(step.terminations.sum())
        if step.ended is not None:
            games += len(step.ended)
            assert step.final is not None
            assert step.final["observations"].shape == (len(step.ended), 4, 84, 84)
            assert step.final["observations"][0, 0].any()
            assert (stepper.ages[step.ended] == 0).all()
            assert not step.obs["observations"][step.ended[0], :3].any()
    assert obs.shape == (2, 4, 84, 84)
    assert games >= 1
    assert lost >= 5 * games
    assert len(stepper.drain_episodes()[0]) == games
    stepper.close()


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_stacks_can_be_rebuilt_across_games(mode: AutoresetMode) -> None:
    """Also that of a final observation, which is shown where the reset waits for the next step."""
    stepper = Stepper(make_vector("BreakoutNoFrameskip-v4", 1, autoreset=mode))
    stack = stepper.reset(1)["observations"]
    rng = np.random.default_rng(0)
    frames: list[np.ndarray] = []
    resets = games = 0
    while games < 2:
        frames.append(stack[0, -1].copy())
        for lag in range(4):
            wanted = frames[-1 - lag] if lag <= stepper.ages[0] else 0
            assert (stack[0, -1 - lag] == wanted).all()
        step = stepper.step(rng.integers(0, 4, 1))
        assert step.valid[0] or (stepper.ages[0] == 0 and not step.rewards[0])
        stack, resets = step.obs["observations"], resets + int(not step.valid[0])
        games += step.ended is not None
        assert len(frames) < 2_000
    assert resets == (1 if mode is AutoresetMode.NEXT_STEP else 0)
    stepper.close()


def test_the_same_seed_plays_the_same_game() -> None:
    def play(seed: int) -> list[int]:
        stepper = Stepper(make_vector("PongNoFrameskip-v4", 2))
        total = [int(stepper.reset(seed)["observations"].sum())]
        for at in range(40):
            total.append(int(stepper.step(np.full(2, at % 6)).obs["observations"].sum()))
        stepper.close()
        return total

    assert play(3) == play(3)
    assert play(2**40 + 3) == play(2**40 + 3)
    assert play(3) != play(4)


def test_an_unknown_game_is_refused_with_the_closest() -> None:
    with pytest.raises(Refused, match="PongNoFrameskip-v4"):
        make_vector("PonNoFrameskip-v4", 1)


def test_a_bare_emulator_is_taken_and_told() -> None:
    """Also in a process that has not looked for it before, as those of actors."""
    make = "from artos.envs.make import make_vector as m; print(m('Pong-v4', 1).num_envs)"
    with python("-c", make) as process:
        output, _ = process.communicate(timeout=PATIENCE)
    assert output.split()[-1:] == ["1"], output
    describe("Pong-v4")
    (note,) = address_notes("Pong-v4", "Pong-v4")
    assert note.startswith("Pong-v4 is the bare emulator")
    assert "--env PongNoFrameskip-v4 or ALE/Pong-v5" in note
    for usual in ("PongNoFrameskip-v4", "ALE/Pong-v5", "vector:ALE/Pong-v5"):
        assert not list(address_notes(usual, usual))


def test_a_game_alone_is_asked_about() -> None:
    with pytest.raises(Refused, match="'Pong': did you mean PongNoFrameskip-v4 or ALE/Pong-v5"):
        describe("Pong")
