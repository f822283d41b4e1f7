"""An actor that writes whole episodes: groups of answers to one question, as GRPO learns from."""

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

GROUP, MOST = 8, 12
ADDENDS = np.array([1, 2, 3])


def odds(table: np.ndarray, left: np.ndarray) -> np.ndarray:
    """How likely each addend is chosen where so much is left, (n, 3)."""
    weights = np.exp(table[left], dtype=np.float64)
    return weights / weights.sum(axis=1, keepdims=True)


class Player(Actor):
    """Adds up to a number, in few steps and not beyond; a group of answers at a time."""

    envs = GROUP

    def data_keys(self) -> tuple[DataKey, ...]:
        """The last three say where episodes begin and end, and which rows belong to none."""
        return (
            DataKey("left", (), "int64"), DataKey("choices", (), "int64"), DataKey("rewards"),
            DataKey("ages", (), "uint8"), DataKey("terminations", (), "bool"),
            DataKey("valid", (), "bool"),
        )  # fmt: skip

    def build_module(self, seed: int) -> np.ndarray:
        """Preferences for the addends, by what is left."""
        return np.zeros((MOST + 1, len(ADDENDS)), np.float32)

    def setup(self, context: ActorContext) -> None:
        """Take the block of rows and the seed, which no other actor has."""
        self.block, self.random = context.block, np.random.default_rng(context.seed)
        self.ended = [], []

    def bind(self, params: np.ndarray, version: int) -> None:
        """Act with these weights from now on."""
        self.table, self.version = params.reshape(MOST + 1, -1), version

    def sample(self, start: int, rows: int, call: Invoke) -> Wrote:
        """Answer one question; the round ends with the longest of the answers."""
        arrays, capacity = self.block.arrays, self.block.spec.capacity
        left = np.full(GROUP, self.random.integers(4, MOST + 1))
        for age in range(rows):
            row, going = (start + age) % capacity, left > 0
            chosen = (odds(self.table, left).cumsum(axis=1) < self.random.random((GROUP, 1))).sum(1)
            after = left - ADDENDS[chosen]
            arrays["left"][row], arrays["choices"][row] = left, chosen
            arrays["rewards"][row] = np.where(after == 0, 1.0, -0.05)
            arrays["ages"][row], arrays["valid"][row] = age, going
            arrays["terminations"][row] = ended = going & (after <= 0)
            arrays["policy_version"][row] = self.version
            self.ended[0].extend(arrays["rewards"][row][ended].tolist())
            self.ended[1].extend([age + 1] * ended.sum())
            left = np.where(going, after.clip(min=0), 0)
            if not left.any():
                break
        return Wrote(age + 1)

    def episodes(self) -> tuple[list[float], list[int]]:
        """Last rewards and lengths of the episodes that ended since the last call."""
        found, self.ended = self.ended, ([], [])
        return found


class Groups(Learner):
    """Each answer counts as much as it is better than the others of its group."""

    def setup(self, context: LearnerContext) -> None:
        """Own the preferences."""
        self.table = context.module.copy()

    def live(self) -> dict[str, np.ndarray]:
        """What a version is made of."""
        return {"params": self.table.reshape(-1)}

    def update(self, batch: EpisodeBatch, call: Invoke) -> dict[str, float]:
        """Episodes of a group begin in the same row of the same actor."""
        returns = batch.padded("rewards").sum(axis=0)
        begun = np.array([(claim.actor, claim.start) for claim in batch.claims])
        _, group = np.unique(begun, axis=0, return_inverse=True)
        better = returns - (np.bincount(group, returns) / np.bincount(group))[group]
        weight, left = np.repeat(better, batch.lengths), batch["left"]
        gradient = np.eye(len(ADDENDS))[batch["choices"]] - odds(self.table, left)
        np.add.at(self.table, left, 0.5 * weight[:, None] * gradient)
        self.fresh = True
        return {"return": float(returns.mean()), "length": float(batch.lengths.mean())}


def workload(actors: int = 2, total_steps: int = 60_000) -> Workload:
    """What ``artos run my_groups.py:workload`` runs; every argument is a ``--set``."""
    keys = ("left", "choices", "rewards", "ages", "terminations", "valid")
    return Workload(
        name="groups",
        actor=Player(),
        learner=Groups(),
        triggers={
            "learner.update": DataKeyTrigger(keys, sample=Episodes(4 * GROUP)),
            "actors.sample": RoundTrigger(ahead=1),
        },
        actors=actors, steps=MOST, capacity=64 * MOST, total_steps=total_steps,
    )  # fmt: skip
