"""Evolution strategies (Salimans et al. 2017), in NumPy: what is tried, and what it returned."""

import gymnasium as gym
import numpy as np

from artos import (
    Actor,
    ActorContext,
    DataKey,
    EpisodeBatch,
    Episodes,
    Invoke,
    Learner,
    LearnerContext,
    Workload,
    Wrote,
)
from triggers import DataKeyTrigger, RoundTrigger

KEYS = ("tried", "rewards", "ages", "terminations", "truncations", "valid")


def noise(tried: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """What so many candidates add to the parameters, (n, *shape): n and -n are mirror images."""
    return np.stack([np.sign(n) * np.random.default_rng(abs(n)).normal(size=shape) for n in tried])


class Candidates(Actor):
    """Plays an episode with each of ``envs`` perturbed linear policies: that is a round."""

    kept = ("random",)  # what changes from round to round: saved with checkpoint=all

    def __init__(self, task: str, envs: int, sigma: float) -> None:
        self.task, self.envs, self.sigma = task, envs, sigma
        with gym.make(task) as env:
            self.shape = env.observation_space.shape[0], env.action_space.n

    def data_keys(self) -> tuple[DataKey, ...]:
        """Of a candidate a row has the seed of its noise, not the parameters."""
        return (
            DataKey("tried", (), "int64"), DataKey("rewards"), DataKey("ages", (), "uint8"),
            *(DataKey(key, (), "bool") for key in KEYS[3:]),
        )  # fmt: skip

    def build_module(self, seed: int) -> np.ndarray:
        """Parameters to begin with."""
        return np.zeros(self.shape, np.float32)

    def setup(self, context: ActorContext) -> None:
        """Have an environment for each candidate."""
        self.block, self.random = context.block, np.random.default_rng(context.seed)
        self.playing, self.ended = gym.make_vec(self.task, self.envs, "sync"), ([], [])

    def bind(self, params: np.ndarray, version: int) -> None:
        """Perturb these from now on."""
        self.params, self.version = params.reshape(self.shape), version

    def sample(self, start: int, rows: int, call: Invoke) -> Wrote:
        """Half of the candidates mirror the others; the round ends with the longest episode."""
        arrays, capacity = self.block.arrays, self.block.spec.capacity
        tried = self.random.integers(1, 2**62, self.envs // 2)
        tried = np.concatenate((tried, -tried))
        policies = self.params + self.sigma * noise(tried, self.shape)
        seen, _ = self.playing.reset(seed=int(self.random.integers(2**31)))
        going, returns, lengths = np.ones(self.envs, bool), np.zeros(self.envs), np.zeros(self.envs)
        for age in range(rows):
            actions = np.einsum("es,esa->ea", seen, policies).argmax(1)
            seen, rewards, over, cut, _ = self.playing.step(actions)
            cut = cut | (age == rows - 1)
            said = (tried, rewards, min(age, 255), going & over, going & cut, going)
            for key, values in zip((*KEYS, "policy_version"), (*said, self.version), strict=True):
                arrays[key][(start + age) % capacity] = values
            returns, lengths = returns + going * rewards, lengths + going
            going = going & ~(over | cut)
            if not going.any():
                break
        self.ended[0].extend(returns.tolist())
        self.ended[1].extend(lengths.astype(int).tolist())
        return Wrote(age + 1)

    def episodes(self) -> tuple[list[float], list[int]]:
        """Returns and lengths of the episodes that ended since the last call."""
        found, self.ended = self.ended, ([], [])
        return found

    def close(self) -> None:
        """End the environments."""
        self.playing.close()


class Evolution(Learner):
    """Moves the parameters towards what returned more than others did."""

    def __init__(self, lr: float, sigma: float) -> None:
        self.lr, self.sigma = lr, sigma

    def setup(self, context: LearnerContext) -> None:
        """Own the parameters."""
        self.params = context.module.copy()

    def live(self) -> dict[str, np.ndarray]:
        """What a version is made of."""
        return {"params": self.params.reshape(-1)}

    def update(self, batch: EpisodeBatch, call: Invoke) -> dict[str, float]:
        """Each of n episodes is a candidate's, whose noise is drawn again from its seed."""
        returns = batch.padded("rewards").sum(axis=0)
        tried = [int(seeds[0]) for seeds in batch.episodes("tried")]
        better = (returns - returns.mean()) / (returns.std() + 1e-8)
        uphill = np.tensordot(better, noise(tried, self.params.shape), 1) / len(returns)
        self.params += np.float32(self.lr / self.sigma) * uphill.astype(np.float32)
        self.fresh = True
        return {"return": float(returns.mean()), "best": float(returns.max())}


def workload(
    env: str = "CartPole-v1", actors: int = 2, *, envs: int = 16, longest: int = 500,
    total_steps: int = 200_000, lr: float = 1.0, sigma: float = 0.5,
) -> Workload:  # fmt: skip
    """What ``artos run my_es.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="evolution",
        actor=Candidates(env, envs, sigma),
        learner=Evolution(lr, sigma),
        triggers={
            "learner.update": DataKeyTrigger(KEYS, sample=Episodes(actors * envs)),
            "actors.sample": RoundTrigger(ahead=1),
        },
        actors=actors, steps=longest, capacity=4 * longest, total_steps=total_steps,
    )  # fmt: skip
