"""Rock, paper, scissors against its own past, as boldly as the learner says; in NumPy."""

import numpy as np

from artos import (
    Actor,
    ActorContext,
    Batch,
    DataKey,
    Invoke,
    Learner,
    LearnerContext,
    ObjectKey,
    Workload,
)
from triggers import DataKeyTrigger, ObjectKeyTrigger

PAYS = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], np.float32)  # of a move against another


def chances(preferences: np.ndarray, temperature: float) -> np.ndarray:
    """How likely each move is, (3,): all alike at a high temperature."""
    weights = np.exp((preferences - preferences.max()) / temperature, dtype=np.float64)
    return weights / weights.sum()


class Player(Actor):
    """Plays several games at once, each round against one of its past versions."""

    envs = 8
    reads = ("temperature",)
    kept = ("random",)

    def __init__(self, history: int, every: int) -> None:
        self.history, self.every = history, every

    def data_keys(self) -> tuple[DataKey, ...]:
        """Each row has a move and what it won for each of the games."""
        return DataKey("moves", (), "int64"), DataKey("rewards")

    def build_module(self, seed: int) -> np.ndarray:
        """It begins with a liking for rock."""
        return np.array([1, 0, 0], np.float32)

    def setup(self, context: ActorContext) -> None:
        """Take the block of rows and the seed, which no other actor has."""
        self.block, self.random = context.block, np.random.default_rng(context.seed)

    def bind(self, params: np.ndarray, version: int) -> None:
        """Play with these preferences, at the temperature that belongs to them."""
        temperature = float(self.bound.objects["temperature"])
        self.version, self.mine = version, chances(params, temperature)

    def opponent(self) -> np.ndarray:
        """How likely each move of a past version is; while there is none, it is this one."""
        if not self.history:
            return self.mine
        past = self.bound.past(int(self.random.integers(1, self.history + 1)))
        return chances(past.params, float(past.objects["temperature"]))

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Play a game in each environment for each row."""
        arrays, capacity, theirs = self.block.arrays, self.block.spec.capacity, self.opponent()
        for row in (step % capacity for step in range(start, start + rows)):
            moves = self.random.choice(3, self.envs, p=self.mine)
            others = self.random.choice(3, self.envs, p=theirs)
            arrays["moves"][row], arrays["rewards"][row] = moves, PAYS[moves, others]
            arrays["policy_version"][row] = self.version
        return {}


class Gradient(Learner):
    """REINFORCE, with a temperature that falls from update to update."""

    reads = ("moves", "rewards")
    objects = (ObjectKey("temperature"),)

    def __init__(self, lr: float, cooling: float) -> None:
        self.lr, self.cooling = lr, cooling

    def setup(self, context: LearnerContext) -> None:
        """Own preferences and temperature. The first actors read it: so it is published here."""
        self.publish, self.preferences = context.publish, context.module.copy()
        self.temperature = np.array([2.0])
        if self.publish.newest("temperature") is None:  # else the run goes on
            self.publish("temperature", 2.0)

    def live(self) -> dict[str, np.ndarray]:
        """Actors bind ``params``; the temperature is saved with them."""
        return {"params": self.preferences, "learner.temperature": self.temperature}

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Learn from arrays (actors, steps, environments); publish with the weights."""
        moves, rewards = batch.gather("moves").ravel(), batch.gather("rewards").ravel()
        now = float(self.temperature[0])
        played = np.bincount(moves, rewards - rewards.mean(), 3) / len(moves)
        self.preferences += self.lr / now * played
        self.temperature *= self.cooling
        self.publish("temperature", self.temperature[0])
        self.fresh = True
        return {"temperature": now, "won": float(rewards.mean())}


def workload(
    total_updates: int = 400,
    lr: float = 1.0,
    cooling: float = 0.998,
    history: int = 8,
    every: int = 5,
) -> Workload:
    """What ``artos run my_self_play.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="self-play",
        actor=Player(history, every),
        learner=Gradient(lr, cooling),
        triggers={
            "learner.update": DataKeyTrigger(("moves", "rewards"), n=2, size=16),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=2, steps=16, total_steps=0, total_updates=total_updates,
    )  # fmt: skip
