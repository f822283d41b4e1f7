"""PPO of the one file on EnvPool's games, which step together or asynchronously: steps per second.

Together they are stepped by the one file's own ``act``. Asynchronously EnvPool hands out those of
its games that are done first, so half of them step while the network acts in the others. A round
then ends after as many steps as the one file's rounds have; a game's last row, whose reward is not
known yet, is the first of its next round and gives the value that the others are bootstrapped from.
Either way the step in which EnvPool begins a game anew counts as one.

``python -m evaluation.throughput.envpool_side --env cartpole --seconds 10 --threads 2``
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import envpool
import numpy as np
import torch

from evaluation.baselines.one_file_ppo import (
    GAMMA,
    LAMBDA,
    SETTINGS,
    Array,
    Loop,
    Settings,
    network_for,
    optimiser_for,
    speed,
)
from evaluation.baselines.timing import answer

GAMES = {"cartpole": "CartPole-v1", "pong": "Pong-v5"}
_COLUMNS = ("observations", "actions", "log_probs", "values", "rewards", "dones")


def make_games(settings: Settings, seed: int, threads: int, batch: int) -> Any:
    """EnvPool's games, of which ``batch`` are handed out at a time."""
    more = {"noop_max": 30, "repeat_action_probability": 0.0} if settings.env == "pong" else {}
    return envpool.make(
        GAMES[settings.env], env_type="gymnasium", num_envs=settings.envs, batch_size=batch,
        num_threads=threads, seed=seed, **more,
    )  # fmt: skip


class Pool:
    """EnvPool's games, all of them at a time, as the one file takes environments."""

    def __init__(self, settings: Settings, seed: int, threads: int) -> None:
        self._games = make_games(settings, seed, threads, settings.envs)
        self.single_observation_space = self._games.observation_space
        self.single_action_space = self._games.action_space

    def reset(self, seed: int) -> Any:
        """The first observations; the games were seeded when they were made."""
        return self._games.reset()

    def step(self, actions: Array) -> Any:
        """Step all games; one that is over begins anew instead."""
        return self._games.step(actions)


class Together(Loop):
    """The one file as it is."""

    def _make_envs(self, seed: int, threads: int) -> Pool:
        return Pool(self.settings, seed, threads)


class Asynchronous(Loop):
    """``act`` and ``learn`` of the one file, with rows that come in any order."""

    def __init__(self, settings: Settings, seed: int, threads: int) -> None:
        torch.manual_seed(seed)
        self.settings, self.random = settings, np.random.default_rng(seed)
        self.device = torch.device("cpu")
        self.envs: Any = make_games(settings, seed, threads, settings.envs // 2)
        shape = self.envs.observation_space.shape
        self.network = network_for(shape, int(self.envs.action_space.n), self.device)
        self.optimiser = optimiser_for(self.network, settings)
        self._most = 4 * settings.steps
        dtype = torch.uint8 if len(shape) == 3 else torch.float32
        size = (settings.envs, self._most)
        self.rows: dict[str, torch.Tensor] = {
            "observations": torch.zeros((*size, *shape), dtype=dtype),
            "actions": torch.zeros(size, dtype=torch.int64),
            **{name: torch.zeros(size) for name in _COLUMNS[2:]},
        }
        self._count = np.zeros(settings.envs, np.int64)
        """Rows of each game, the last of which has no reward yet."""
        self.envs.async_reset()

    def act(self) -> None:
        """Go on until so many rows have their rewards."""
        self._keep_last()
        done, wanted = 0, self.settings.batch
        with torch.inference_mode():
            while done < wanted:
                seen, rewards, ended, cut, info = self.envs.recv()
                games = info["env_id"]
                done += self._reward(games, rewards, ended | cut)
                self._send(torch.as_tensor(seen), games)

    def _keep_last(self) -> None:
        for game in np.flatnonzero(self._count):
            for column in self.rows.values():
                column[game, 0] = column[game, self._count[game] - 1].clone()
        self._count = np.minimum(self._count, 1)

    def _reward(self, games: Any, rewards: Any, over: Any) -> int:
        """Complete the games' last rows; returns how many there were."""
        begun = self._count[games] > 0
        places = (games[begun], self._count[games[begun]] - 1)
        self.rows["rewards"][places] = torch.as_tensor(np.sign(rewards[begun]), dtype=torch.float32)
        self.rows["dones"][places] = torch.as_tensor(over[begun], dtype=torch.float32)
        return int(begun.sum())

    def _send(self, seen: torch.Tensor, games: Any) -> None:
        logits, values = self.network(seen)
        scores = torch.log_softmax(logits, 1)
        action = torch.multinomial(scores.exp(), 1)
        chosen = (seen, action[:, 0], scores.gather(1, action)[:, 0], values)
        places = (games, self._count[games])
        for name, column in zip(_COLUMNS[:4], chosen, strict=True):
            self.rows[name][places] = column
        self._count[games] += 1
        self.envs.send(action[:, 0].numpy().astype(np.int32), games)

    def learn(self) -> None:
        """Run all epochs over the rows that have their rewards."""
        advantages, rows = self._advantages(), self.rows
        known = np.arange(self._most) < self._count[:, None] - 1
        # After its last step a game only begins anew, whatever the action.
        known[:, 1:] &= rows["dones"][:, :-1].numpy() == 0
        games, places = np.nonzero(known)
        flat = [rows[name][games, places] for name in _COLUMNS[:4]] + [advantages[games, places]]
        for _ in range(self.settings.epochs):
            order = self.random.permutation(len(games))
            for part in np.array_split(order, self.settings.minibatches):
                chosen = torch.as_tensor(part)
                self._update(*(tensor[chosen] for tensor in flat))

    def _advantages(self) -> torch.Tensor:
        """Generalised advantage estimates, (games, rows)."""
        rows, out = self.rows, torch.zeros_like(self.rows["rewards"])
        running = torch.zeros(self.settings.envs)
        last = torch.as_tensor(self._count - 1)
        for t in reversed(range(int(self._count.max()) - 1)):
            alive, known = 1.0 - rows["dones"][:, t], t < last
            ahead = rows["values"][:, t + 1]
            delta = rows["rewards"][:, t] + GAMMA * ahead * alive - rows["values"][:, t]
            running = torch.where(known, delta + GAMMA * LAMBDA * alive * running, 0.0)
            out[:, t] = running
        return out


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", choices=sorted(GAMES), default="cartpole")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=1, help="of torch, and of EnvPool")
    parser.add_argument("--asynchronous", action="store_true", help="in halves, not together")
    for name, value in (("envs", 8), ("steps", 128), ("epochs", 4), ("minibatches", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sizes = ("envs", "steps", "epochs", "minibatches")
    settings = replace(SETTINGS[options.env], **{name: getattr(options, name) for name in sizes})
    loop = Asynchronous if options.asynchronous else Together
    pace = speed(loop(settings, 1, options.threads), options.seconds)
    answer({"steps_per_second": pace}, ("envpool", "torch", "gymnasium"))


if __name__ == "__main__":
    main()
