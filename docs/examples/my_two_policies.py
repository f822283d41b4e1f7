"""A speaker, a listener, and a model of how well they understand each other; in NumPy."""

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

SYMBOLS = 4
ROW = ("symbols", "words", "guesses", "rewards")


def chances(preferences: np.ndarray) -> np.ndarray:
    """How likely each choice is, (SYMBOLS, SYMBOLS): a row for each thing that may be seen."""
    table = preferences.reshape(SYMBOLS, SYMBOLS)
    weights = np.exp(table - table.max(1, keepdims=True), dtype=np.float64)
    return weights / weights.sum(1, keepdims=True)


class Game(Actor):
    """The speaker sees a symbol and says a word; the listener hears it and guesses the symbol."""

    envs = 16
    reads = ("listener/model_param", "model/shown")

    def data_keys(self) -> tuple[DataKey, ...]:
        """What was seen, said and guessed in each game, and whether the guess was right."""
        return (*(DataKey(key, (), "int64") for key in ROW[:3]), DataKey("rewards"))

    def build_module(self, seed: int) -> np.ndarray:
        """Preferences that are nearly alike; each learner has others."""
        return np.random.default_rng(seed).normal(0, 0.1, SYMBOLS**2).astype(np.float32)

    def setup(self, context: ActorContext) -> None:
        """Take the block of rows and the seed, which no other actor has."""
        self.block, self.random = context.block, np.random.default_rng(context.seed)

    def bind(self, params: np.ndarray, version: int) -> None:
        """Both policies, and how often the model wants each symbol to be shown."""
        self.version, self.says = version, chances(params)
        self.guesses = chances(self.bound.objects["listener/model_param"])
        self.shown = self.bound.objects["model/shown"]

    def choose(self, of: np.ndarray) -> np.ndarray:
        """A choice for each game, (envs,), by its chances, (envs, SYMBOLS)."""
        return (self.random.random((self.envs, 1)) > of.cumsum(1)[:, :-1]).sum(1)

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Play each game once for each row."""
        arrays, capacity = self.block.arrays, self.block.spec.capacity
        for row in (step % capacity for step in range(start, start + rows)):
            symbols = self.choose(np.tile(self.shown, (self.envs, 1)))
            words = self.choose(self.says[symbols])
            guesses = self.choose(self.guesses[words])
            played = symbols, words, guesses, symbols == guesses
            for key, values in zip(ROW, played, strict=True):
                arrays[key][row] = values
            arrays["policy_version"][row] = self.version
        return {}


class Reinforce(Learner):
    """REINFORCE for a policy that sees the data key ``sees`` and has chosen ``does``."""

    def __init__(self, sees: str, does: str, lr: float) -> None:
        self.sees, self.does, self.lr = sees, does, lr

    def setup(self, context: LearnerContext) -> None:
        """Own the preferences."""
        self.preferences = context.module.copy()

    def live(self) -> dict[str, np.ndarray]:
        """What actors bind or read."""
        return {"params": self.preferences}

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Learn from arrays (actors, steps, environments)."""
        seen, done = batch.gather(self.sees).ravel(), batch.gather(self.does).ravel()
        rewards = batch.gather("rewards").ravel()
        towards = np.eye(SYMBOLS)[done] - chances(self.preferences)[seen]
        gains = (rewards - rewards.mean())[:, None] * towards
        gradient = np.zeros((SYMBOLS, SYMBOLS))
        np.add.at(gradient, seen, gains / len(seen))
        self.preferences += np.float32(self.lr) * gradient.ravel().astype(np.float32)
        self.fresh = True
        return {"right": float(rewards.mean())}


class Model(Learner):
    """Knows how often each symbol is understood, and has those shown that are not."""

    objects = (ObjectKey("shown", (SYMBOLS,)),)

    def setup(self, context: LearnerContext) -> None:
        """Publish a first value of what actors read."""
        self.publish, self.understood = context.publish, np.zeros(SYMBOLS, np.float32)
        if self.publish.newest("shown") is None:  # else the run goes on
            self.publish("shown", np.full(SYMBOLS, 1 / SYMBOLS))

    def live(self) -> dict[str, np.ndarray]:
        """Its weights: a share for each symbol."""
        return {"params": self.understood}

    def fit(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Look at the newest games, and forget older ones by half."""
        symbols, rewards = batch.gather("symbols").ravel(), batch.gather("rewards").ravel()
        right = np.bincount(symbols, rewards, SYMBOLS)
        found = right / np.maximum(1, np.bincount(symbols, None, SYMBOLS))
        self.understood[:] = (self.understood + found) / 2
        wanted = 1.2 - self.understood
        self.publish("shown", wanted / wanted.sum())
        self.fresh = True
        return {"worst": float(self.understood.min())}


def workload(total_updates: int = 400, lr: float = 8.0) -> Workload:
    """What ``artos run my_two_policies.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="two-policies",
        actor=Game(),
        learners={
            "speaker": Reinforce("symbols", "words", lr),
            "listener": Reinforce("words", "guesses", lr),
            "model": Model(),
        },
        triggers={
            "speaker.update": DataKeyTrigger(ROW, n=2, size=16),
            "listener.update": DataKeyTrigger(ROW, n=2, size=16),
            "model.fit": DataKeyTrigger(ROW, n=2, size=64),
            "actors.sample": ObjectKeyTrigger("speaker/model_param"),
        },
        actors=2, steps=16, total_steps=0, total_updates=total_updates,
    )  # fmt: skip
