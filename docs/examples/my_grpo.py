"""GRPO (Shao et al. 2024): a small transformer writes digits backwards, a token a step."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor, nn

from artos import ActInfo, Batch, Invoke, RolloutActor, TorchLearner, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

DIGITS, GROUP = 4, 16
ASK = 11  # ends the prompt; digits are tokens 1 to 10, as a 0 means that nothing is written
LONGEST = 2 * DIGITS + 1
ROW = ("observations", "actions", "rewards", "terminations", "truncations", "log_probs")


class Reverse(VectorEnv):
    """Shows ``7 3 5 2 ASK``, to be told ``2 5 3 7``; neighbours of a group are asked alike."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    single_observation_space = gym.spaces.MultiDiscrete([ASK + 1] * LONGEST)
    single_action_space = gym.spaces.Discrete(ASK + 1)

    def __init__(self, num_envs):
        self.num_envs, self.random = num_envs, np.random.default_rng()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed=None, options=None):
        """Other questions; all texts are of one length, so they begin and end together."""
        if seed is not None:
            self.random = np.random.default_rng(seed)
        asked = self.random.integers(1, 11, (-(-self.num_envs // GROUP), DIGITS))
        self.text, self.said = np.zeros((self.num_envs, LONGEST), np.int64), 0
        self.text[:, :DIGITS] = asked.repeat(GROUP, 0)[: self.num_envs]
        self.text[:, DIGITS] = ASK
        return self.text.copy(), {}

    def step(self, actions):
        """Write a token; a text that is right is paid 1, else half of the share that is."""
        self.said += 1
        self.text[:, DIGITS + self.said] = actions
        right = (self.text[:, DIGITS - 1 :: -1] == self.text[:, DIGITS + 1 :]).mean(1)
        over, infos = self.said == DIGITS, {"final_obs": self.text}
        paid = np.where(right == 1, 1, right / 2) * over
        seen = self.reset()[0] if over else self.text.copy()
        return seen, paid, np.full(self.num_envs, over), np.zeros(self.num_envs, bool), infos


class Writer(nn.Module):
    """A causal transformer."""

    outputs = ("log_probs",)

    def __init__(self, spec, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(ASK + 1, width), nn.Embedding(LONGEST, width)
        block = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0, activation="gelu", batch_first=True, norm_first=True
        )
        norm = nn.LayerNorm(width)
        self.blocks = nn.TransformerEncoder(block, layers, norm, enable_nested_tensor=False)
        self.out = nn.Linear(width, ASK + 1)
        self.register_buffer("later", torch.ones(LONGEST, LONGEST).triu(1).bool())

    def forward(self, text: Tensor) -> Tensor:
        """Logarithms of how likely each token is behind each of (n, LONGEST)."""
        found = self.blocks(self.token(text) + self.place.weight, self.later)
        return self.out(found).log_softmax(2)

    def act(self, obs: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        """The next token of each text."""
        text = obs["observations"]
        last = text.count_nonzero(1) - 1
        logs = self(text)[torch.arange(len(text)), last]
        tokens = logs.argmax(1) if info.greedy else logs.exp().multinomial(1).squeeze(1)
        return {"actions": tokens, "log_probs": logs.gather(1, tokens.unsqueeze(1)).squeeze(1)}


class GRPO(TorchLearner):
    """Each token counts as much as its text was paid beyond the others of the group."""

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """One step with whole texts: arrays are (actors, DIGITS, environments, ...)."""
        rows = {key: self.tensor(batch.gather(key)).transpose(1, 2).flatten(0, 1) for key in ROW}
        paid = rows["rewards"].sum(1).view(-1, GROUP)
        better = (paid - paid.mean(1, keepdim=True)) / (paid.std(1, keepdim=True) + 1e-4)
        text, tokens = rows["observations"][:, -1], rows["actions"]  # but for the last token
        logs = self.module(text)[:, DIGITS : 2 * DIGITS]
        logs = logs.gather(2, tokens.unsqueeze(2)).squeeze(2)
        ratio, weight = (logs - rows["log_probs"]).exp(), better.view(-1, 1)
        self.step(-torch.min(ratio * weight, ratio.clamp(0.8, 1.2) * weight).mean())
        return {"paid": paid.mean().item(), "exact_match": (paid == 1).float().mean().item()}


def workload(
    actors: int = 2, total_steps: int = 200_000, lr: float = 1e-3, groups: int = 16
) -> Workload:
    """What ``artos run my_grpo.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="grpo",
        actor=RolloutActor("my_grpo:Reverse", Writer, envs=groups * GROUP),
        learner=GRPO(lr, max_grad_norm=1.0),
        triggers={
            "learner.update": DataKeyTrigger(ROW, size=DIGITS, max_lag=1),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=DIGITS, total_steps=total_steps,
    )  # fmt: skip
