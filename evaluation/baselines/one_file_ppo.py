"""The reference: PPO in one file and one process, in the style of CleanRL, written by us.

No buffer, no triggers, no other processes: act, estimate advantages, update, repeat. The details
are the usual: GAE 0.95, discount 0.99, normalised advantages, orthogonal initialisation, gradient
norm 0.5, in ``train`` a learning rate annealed to zero (Schulman et al. 2017; Huang et al. 2022,
"The 37 implementation details of PPO"); values are not clipped, as ours are not. Adam is fused, and
on a CPU pictures and convolutions are channels last, as with ours.

The difference to this loop is what an orchestration engine costs or gains, and what our own code
for small networks gains besides: ARTOS acts in them with NumPy and has their gradients written
down, where this loop has PyTorch's modules and autograd throughout. Of convolutions ours scales the
first weights instead of the pixels.

``python -m evaluation.baselines.one_file_ppo --env cartpole --seconds 10`` prints its steps/s.
``--device cuda:0`` keeps network and rollout on a GPU, ``--compile`` compiles the network into
CUDA graphs, as LeanRL does.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from evaluation.baselines.timing import answer

Array = np.ndarray[Any, Any]
GAMMA, LAMBDA, VALUE_WEIGHT, GRADIENT_NORM = 0.99, 0.95, 0.5, 0.5


@dataclass(frozen=True)
class Settings:
    """One run: environment, sizes and hyper-parameters."""

    env: str
    envs: int
    steps: int
    epochs: int
    minibatches: int
    clip: float
    entropy: float
    learning_rate: float = 2.5e-4
    bfloat16: bool = False

    @property
    def batch(self) -> int:
        """Rows of one update."""
        return self.envs * self.steps


SETTINGS = {
    "cartpole": Settings("cartpole", 8, 128, 4, 4, 0.2, 0.01),
    "cartpole-vector": Settings("cartpole-vector", 8, 128, 4, 4, 0.2, 0.01),
    "pong": Settings("pong", 8, 128, 4, 4, 0.1, 0.01),
    "pong-ale": Settings("pong-ale", 8, 128, 4, 4, 0.1, 0.01),
    "breakout-ale": Settings("breakout-ale", 8, 128, 4, 4, 0.1, 0.01),
}


def make_envs(settings: Settings, threads: int) -> Any:
    """The vector environment; a step that ends an episode returns the next one's first frame."""
    mode = gym.vector.AutoresetMode.SAME_STEP
    if settings.env.endswith("-ale"):
        from ale_py.vector_env import AtariVectorEnv  # noqa: PLC0415 (an extra)

        return AtariVectorEnv(
            settings.env.removesuffix("-ale"), num_envs=settings.envs, num_threads=threads,
            noop_max=30, autoreset_mode=mode, reward_clipping=False,
        )  # fmt: skip
    if settings.env == "cartpole-vector":
        in_one_array = gym.VectorizeMode.VECTOR_ENTRY_POINT
        return gym.make_vec("CartPole-v1", settings.envs, in_one_array)
    make = make_pong if settings.env == "pong" else lambda: gym.make("CartPole-v1")
    # Observations are copied where they are stored.
    return gym.vector.SyncVectorEnv([make] * settings.envs, copy=False, autoreset_mode=mode)


def make_pong() -> gym.Env[Any, Any]:
    """Pong as Atari agents see it."""
    return make_atari("pong")


def make_atari(game: str) -> gym.Env[Any, Any]:
    """``pong`` or another as Atari agents see it: 4 frames a step, 84×84 grey, four stacked."""
    import ale_py  # noqa: PLC0415 (an extra)
    from gymnasium.wrappers import (  # noqa: PLC0415
        AtariPreprocessing,
        FrameStackObservation,
    )

    gym.register_envs(ale_py)
    return FrameStackObservation(AtariPreprocessing(gym.make(f"{game.title()}NoFrameskip-v4")), 4)


def layer(module: Any, gain: float = 2**0.5) -> Any:
    """Orthogonal weights, no bias."""
    nn.init.orthogonal_(module.weight, gain)
    nn.init.zeros_(module.bias)
    return module


class Dense(nn.Module):
    """Two layers of 64 units for the policy and two for the value."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.policy, self.value = (
            nn.Sequential(
                layer(nn.Linear(inputs, 64)),
                nn.Tanh(),
                layer(nn.Linear(64, 64)),
                nn.Tanh(),
                layer(nn.Linear(64, outputs), gain),
            )
            for outputs, gain in ((actions, 0.01), (1, 1.0))
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (n, actions) and values (n,)."""
        return self.policy(x), self.value(x)[:, 0]


class Nature(nn.Module):
    """The convolutional network of the Nature paper, shared by policy and value.

    ``layout`` is that of its pictures.
    """

    layout = torch.contiguous_format

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            layer(nn.Conv2d(4, 32, 8, 4)), nn.ReLU(), layer(nn.Conv2d(32, 64, 4, 2)), nn.ReLU(),
            layer(nn.Conv2d(64, 64, 3, 1)), nn.ReLU(), nn.Flatten(),
            layer(nn.Linear(64 * 7 * 7, 512)), nn.ReLU(),
        )  # fmt: skip
        self.policy, self.value = layer(nn.Linear(512, actions), 0.01), layer(nn.Linear(512, 1), 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (n, actions) and values (n,)."""
        hidden = self.body((x.float() / 255.0).contiguous(memory_format=self.layout))
        return self.policy(hidden), self.value(hidden)[:, 0]


def network_for(shape: tuple[int, ...], actions: int, device: torch.device) -> Dense | Nature:
    """The network for observations of this shape; on a CPU convolutions are channels last."""
    if len(shape) != 3:
        return Dense(shape[0], actions).to(device)
    network = Nature(actions).to(device)
    if device.type == "cpu":
        network.layout = torch.channels_last
        network.to(memory_format=network.layout)  # type: ignore[call-overload]
    return network


def optimiser_for(network: nn.Module, settings: Settings) -> torch.optim.Adam:
    """Adam for all of the network, fused."""
    rate = settings.learning_rate
    return torch.optim.Adam(network.parameters(), lr=rate, eps=1e-5, fused=True)


class Rollout:
    """The rows of one round, (steps, envs, ...); every row is one action of the policy."""

    def __init__(
        self, settings: Settings, shape: tuple[int, ...], dtype: torch.dtype, device: str = "cpu"
    ) -> None:
        rows = (settings.steps, settings.envs)
        self.observations = torch.zeros((*rows, *shape), dtype=dtype, device=device)
        self.actions = torch.zeros(rows, dtype=torch.int64, device=device)
        kept = torch.zeros((4, *rows), device=device)
        self.log_probs, self.values, self.rewards, self.dones = kept

    def advantages(self, last_value: torch.Tensor, last_done: torch.Tensor) -> torch.Tensor:
        """Generalised advantage estimates, (steps, envs); ``dones[t]``: an episode begins at t."""
        out = torch.zeros_like(self.rewards)
        running = torch.zeros_like(last_value)
        value, alive = last_value, 1.0 - last_done
        for t in reversed(range(len(out))):
            delta = self.rewards[t] + GAMMA * value * alive - self.values[t]
            running = delta + GAMMA * LAMBDA * alive * running
            out[t], value, alive = running, self.values[t], 1.0 - self.dones[t]
        return out


class Loop:
    """Environments, network, optimiser, and the state of the episodes.

    One that never ``learns`` has no optimiser, whose first import takes longer than all the rest.
    """

    def __init__(
        self, settings: Settings, seed: int, threads: int, device: str = "cpu", *,
        learns: bool = True,
    ) -> None:  # fmt: skip
        torch.manual_seed(seed)
        self.settings, self.random = settings, np.random.default_rng(seed)
        self.device = torch.device(device)
        self.envs = self._make_envs(seed, threads)
        space = self.envs.single_observation_space
        actions = int(self.envs.single_action_space.n)
        self.network = network_for(space.shape, actions, self.device)
        if learns:
            self.optimiser = optimiser_for(self.network, settings)
        dtype = torch.uint8 if space.dtype == np.uint8 else torch.float32
        self.rollout = Rollout(settings, space.shape, dtype, device)
        self.observation = self._tensor(self.envs.reset(seed=seed)[0])
        self.done = torch.zeros(settings.envs, device=self.device)
        self.returns: deque[float] = deque(maxlen=100)
        self._running = np.zeros(settings.envs)

    def _make_envs(self, seed: int, threads: int) -> Any:
        return make_envs(self.settings, threads)

    def _tensor(self, array: Array, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.as_tensor(array, dtype=dtype, device=self.device)

    def act(self) -> None:
        """Fill the rollout with one round."""
        rollout = self.rollout
        with torch.inference_mode():
            for t in range(self.settings.steps):
                rollout.observations[t], rollout.dones[t] = self.observation, self.done
                logits, rollout.values[t] = self.network(self.observation)
                scores = torch.log_softmax(logits, 1)
                action = torch.multinomial(scores.exp(), 1)
                rollout.log_probs[t] = scores.gather(1, action)[:, 0]
                rollout.actions[t] = action[:, 0]
                rollout.rewards[t] = self._tensor(self._step(action[:, 0].cpu().numpy()))

    def _step(self, actions: Array) -> Array:
        seen, rewards, ended, cut, _ = self.envs.step(actions)
        over = ended | cut
        self.observation = self._tensor(seen)
        self.done = self._tensor(over, torch.float32)
        self._running += rewards
        self.returns.extend(self._running[over])
        self._running[over] = 0.0
        clipped: Array = rewards if self.settings.env.startswith("cartpole") else np.sign(rewards)
        return clipped

    def _forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What an update computes; with ``bfloat16`` that alone is in it, as with ours."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.bfloat16):
            logits, values = self.network(x)
        return logits.float(), values.float()

    def learn(self) -> None:
        """Run all epochs over the rollout."""
        with torch.inference_mode():
            advantages = self.rollout.advantages(self.network(self.observation)[1], self.done)
        r = self.rollout
        rows = [r.observations, r.actions, r.log_probs, r.values, advantages]
        flat = [tensor.flatten(0, 1) for tensor in rows]
        for _ in range(self.settings.epochs):
            order = self.random.permutation(self.settings.batch)
            for part in np.array_split(order, self.settings.minibatches):
                chosen = self._tensor(part)
                self._update(*(tensor[chosen] for tensor in flat))

    def _update(
        self,
        observations: torch.Tensor,
        actions: torch.Tensor,
        old: torch.Tensor,
        values: torch.Tensor,
        advantages: torch.Tensor,
    ) -> None:
        clip = self.settings.clip
        logits, predicted = self._forward(observations)
        scores = torch.log_softmax(logits, 1)
        ratio = (scores.gather(1, actions[:, None])[:, 0] - old).exp()
        targets = advantages + values
        scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy = -torch.min(ratio * scaled, ratio.clamp(1 - clip, 1 + clip) * scaled).mean()
        value = ((predicted - targets) ** 2).mean() / 2
        entropy = -(scores.exp() * scores).sum(1).mean()
        loss = policy + VALUE_WEIGHT * value - self.settings.entropy * entropy
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), GRADIENT_NORM)
        self.optimiser.step()

    def anneal(self, left: float) -> None:
        """Set the learning rate when the share ``left`` of the run remains."""
        for group in self.optimiser.param_groups:
            group["lr"] = left * self.settings.learning_rate


def speed(loop: Loop, seconds: float) -> float:
    """Steps per second of whole rounds over at least ``seconds``, after a warm-up round."""
    loop.act()
    loop.learn()
    rounds, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        loop.act()
        loop.learn()
        rounds += 1
    return rounds * loop.settings.batch / elapsed


def acting(loop: Loop, seconds: float) -> float:
    """Steps per second of acting only, without learning."""
    loop.act()
    rounds, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        loop.act()
        rounds += 1
    return rounds * loop.settings.batch / elapsed


def train(loop: Loop, total_steps: int) -> float:
    """Train for ``total_steps``; returns the mean return of the last 100 episodes."""
    rounds = total_steps // loop.settings.batch
    for done in range(rounds):
        loop.anneal(1 - done / rounds)
        loop.act()
        loop.learn()
    return float(np.mean(loop.returns))


def settings_of(options: argparse.Namespace) -> Settings:
    """The named settings, with the changes of the command line."""
    given = {
        name: value
        for name, value in vars(options).items()
        if name in Settings.__dataclass_fields__ and name != "env" and value is not None
    }
    known = SETTINGS[options.env]
    return Settings(**{**vars(known), **given})


def main() -> None:
    """Measure, or train if ``--total-steps`` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", choices=sorted(SETTINGS), default="cartpole")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=1, help="of torch, and of AtariVectorEnv")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-steps", type=int, default=0)
    parser.add_argument("--acting", action="store_true", help="act only")
    parser.add_argument("--bfloat16", action="store_true", default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true", help="the network, into CUDA graphs")
    for name in ("envs", "steps", "epochs", "minibatches"):
        parser.add_argument(f"--{name}", type=int)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    loop = Loop(settings_of(options), options.seed, options.threads, options.device)
    if options.compile:
        loop.network.compile(mode="reduce-overhead")
    if options.total_steps:
        start = time.perf_counter()
        mean = train(loop, options.total_steps)
        pace = options.total_steps / (time.perf_counter() - start)
        rates = {"steps_per_second": pace, "mean_return_100": mean}
    else:
        measured = acting if options.acting else speed
        rates = {"steps_per_second": measured(loop, options.seconds)}
    answer(rates, ("torch", "gymnasium", "numpy"))


if __name__ == "__main__":
    main()
