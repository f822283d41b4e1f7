"""A Q-network with a memory of the episode: for discrete actions that depend on what was seen."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from artos.envs.spec import EnvSpec
from artos.policies.acting import ActInfo
from artos.policies.distributions import OUT
from artos.policies.recurrent import MEMORY, Memory, Obs, State, episodes
from artos.policies.values import Epsilon, QNetwork
from artos.specs.keys import DataKey

_EPSILON = Epsilon()


class RecurrentQNetwork(QNetwork):
    """Values of all actions after a memory of ``width`` units between encoder and heads.

    The state is (B, width), and zero where an episode begins.
    """

    def __init__(
        self,
        spec: EnvSpec,
        hidden: Sequence[int] = (64,),
        width: int = 64,
        *,
        dueling: bool = True,
        epsilon: Epsilon = _EPSILON,
        normalize: bool = False,
    ) -> None:
        super().__init__(
            spec, (), dueling=dueling, epsilon=epsilon, normalize=normalize, features=width
        )
        self.width, self.memory = width, Memory(self.encoder.width, hidden, width)

    @property
    def state(self) -> tuple[DataKey, ...]:
        """The memory, one key."""
        return (DataKey(MEMORY, (self.width,)),)

    def answer(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """Values (B, choices), masked, and the new state."""
        memory = self.memory(self.encoder(obs).unsqueeze(0), info.state[MEMORY])[0]
        return {OUT: self.values(memory, obs), MEMORY: memory}

    def draw(self, answer: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        """``actions`` (B,) int64: the best one, or any at random; and the new state."""
        return {**super().draw(answer, info), MEMORY: answer[MEMORY]}

    def unroll(self, obs: Obs, state: State, ends: Tensor) -> tuple[Tensor, State]:
        """Values (T, n, choices), masked, of sequences, and the state after them.

        ``obs`` are (T, n, *shape), ``state`` (n, *shape) is that of the first rows, ``ends`` (T, n)
        bool says after which rows an episode ends.
        """
        flat = {name: part.flatten(0, 1) for name, part in obs.items()}
        cut = episodes(ends)
        start = state[MEMORY][cut.first] * (cut.first >= 0).unsqueeze(1)
        memory = self.memory(self.encoder(flat)[cut.where], start).flatten(0, 1)[cut.back]
        after = memory.view(*ends.shape, -1)[-1] * ~ends[-1].unsqueeze(1)
        return self.values(memory, flat).view(*ends.shape, -1), {MEMORY: after}
