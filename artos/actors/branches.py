"""An actor whose environments continue one mid-state, and go on from the best of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.envs.make import open_vector
from artos.envs.serial import SerialVectorEnv
from artos.envs.spec import EnvSpec
from artos.errors import NotBranched, Refused
from artos.protocol.invocations import Invoke
from artos.specs.keys import DataKey
from artos.system.random_streams import Purpose, seed_of

if TYPE_CHECKING:
    from artos.policies.build import Policy


class BranchingActor(RolloutActor):
    """Steps ``groups`` times ``group`` copies of ``env``; those of a group continue one mid-state.

    The first environment of each group plays whole episodes, and only these are reported. All
    others return to the group's state whenever an episode of theirs ends; it is the beginning at
    first. A round that is fired as ``actors.branch`` begins with a choice. If at least the share
    ``often`` of the group's continuations brought more than its state had, the best of those that
    have not ended is its state from now on, or the beginning if all have. After ``patience`` rounds
    in which none did it is the beginning again.

    To go on from the best of several copies is Aldous and Vazirani 1994 ("Go with the winners"), to
    begin further on as more succeed is Salimans and Chen 2018, there backwards.

    All rows are of the policy, so on-policy learners learn from all of them, round by round. No row
    says where a continuation begins, so there are no frame stacks, no recurrent policies and no
    claims across rounds. The environment can be cloned, see ``artos.envs.cloned``.
    """

    jumps = ("branch",)
    kept: ClassVar[tuple[str, ...]] = (*RolloutActor.kept, "_random", "_groups", "_beginnings")

    def __init__(
        self, env: str, policy: Policy | Callable[[EnvSpec], Any] | None = None, groups: int = 1,
        group: int = 8, *, often: float = 0.5, patience: int = 50, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(env, policy, groups * group, **more)
        self.group, self.often, self.patience = group, often, patience

    def data_keys(self) -> Sequence[DataKey]:
        """Everything this actor can write.

        Raises:
            Refused: the environment cannot be cloned, a setting is out of range, or rows are to be
                read with those before or after: by replay, frame stacks, or a recurrent policy.
        """
        faults = []
        if self.group < 2 or self.envs % self.group or not self.envs:
            faults.append(
                f"{self.envs} environments in groups of {self.group}: use groups of 2 or more"
            )
        if not 0 < self.often <= 1:
            faults.append(f"often={self.often}: use a share above 0, up to 1")
        if self.patience < 1:
            faults.append(f"patience={self.patience}: use 1 round or more")
        if self.final_observations:
            faults.append(_NO_REPLAY)
        try:
            _try_to_clone(self.env)
        except NotBranched as error:
            faults.append(error.why)
        faults += [
            _NO_STACK.format(part.name, part.stack) for part in self.spec.parts if part.stack > 1
        ]
        if self.declared.state:
            faults.append(_NO_STATE)
        if faults:
            raise Refused(faults)
        return super().data_keys()

    def setup(self, context: ActorContext) -> None:
        """Become the actor of ``context``."""
        super().setup(context)
        self._random = np.random.default_rng(seed_of(context.seed, Purpose.CHOICES))
        self._groups = [_Group() for _ in range(self.envs // self.group)]
        self._beginnings = [self.state_of(env) for env in range(self.envs)]

    def branch(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Choose where each group goes on from; then write ``rows`` rows from step ``start``."""
        for number, group in enumerate(self._groups):
            others = range(number * self.group + 1, (number + 1) * self.group)
            totals = {env: self._stepper.so_far(env)[0] for env in others}
            further = [env for env in others if totals[env] > group.total]
            won, group.vain = group.won + len(further), group.vain + 1
            if won:
                group.vain = 0
            if won and won >= self.often * (group.ended + len(further)):
                best = max(further, key=totals.__getitem__, default=None)
                group.total = 0.0 if best is None else totals[best]
                group.state = None if best is None else self.state_of(best)
                self._go_on(others, group)
            elif group.vain == self.patience:
                group.total, group.state, group.vain = 0.0, None, 0
                self._go_on(others, group)
            group.ended = group.won = 0
        return self.sample(start, rows, call)

    def episodes(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Returns and lengths of the whole episodes that ended since the last call."""
        returns, lengths = super().episodes()
        whole = [n for n, env in enumerate(self._stepper.rows) if env % self.group == 0]
        self.begun = [self.begun[n] for n in whole] if self.begun else ()
        return tuple(returns[n] for n in whole), tuple(lengths[n] for n in whole)

    def _advance(self, row: int, actions: NDArray[Any]) -> None:
        super()._advance(row, actions)
        if self._over is None:
            return
        for env, total in zip(self._over.tolist(), self._stepper.totals, strict=True):
            if env % self.group:
                group = self._groups[env // self.group]
                group.ended += 1
                group.won += total > group.total
                if group.state is not None:
                    self._put(env, group.state)

    def _go_on(self, envs: range, group: _Group) -> None:
        for env in envs:
            self._put(env, group.state or self._beginnings[env])

    def _put(self, env: int, state: Mapping[str, Any]) -> None:
        self.put_state(env, state, int(self._random.integers(2**31)))


class _Group:
    """The state that a group continues, and what came of that since the last choice."""

    kept: ClassVar[tuple[str, ...]] = ("total", "state", "ended", "won", "vain")

    def __init__(self) -> None:
        self.total = 0.0
        self.state: dict[str, Any] | None = None
        """None: the beginning."""
        self.ended = self.won = self.vain = 0


def _try_to_clone(env: str) -> None:
    made = open_vector(env, 1)
    try:
        if not isinstance(made, SerialVectorEnv):
            raise NotBranched(_NOT_SINGLE.format(env, type(made).__name__))
        made.reset(seed=0)
        made.put_state(0, made.state_of(0))
    finally:
        made.close()


_NO_REPLAY = (
    "BranchingActor: rows are drawn from replay, but of its episodes some begin in the middle of "
    'others: let the table claim them, "learner.update": DataKeyTrigger(KEYS, size=N)'
)
_NO_STACK = (
    "BranchingActor: {} are stacks of {} frames, read from the rows before, which are of another "
    "episode where a continuation begins: store whole stacks, let the factory say "
    'env.metadata = {{**env.metadata, "frame_stack": 1}}'
)
_NO_STATE = (
    "BranchingActor: the policy is recurrent, and learners begin its state anew after each end, "
    "where a continuation does not: give it a policy without a state"
)
_NOT_SINGLE = (
    "environment {} is a vector environment ({}), whose parts have no state of their own: let a "
    "factory return a single one"
)
