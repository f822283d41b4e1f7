"""The rollout actor: steps a vector environment with its policy, straight into its block."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from artos.actors.context import ActorContext
from artos.actors.continuing import Continuing
from artos.actors.recurrent_state import RecurrentState
from artos.buffer.actor_block import ActorBlock
from artos.envs.ahead import make_ahead
from artos.envs.known import KNOWN
from artos.envs.make import AnyVectorEnv, describe, full_address, make_vector, open_vector
from artos.envs.notes import address_notes
from artos.envs.spec import AGES, ATARI, EnvSpec, component_key
from artos.envs.stepper import Parts, Stepper
from artos.errors import Refused
from artos.policies.acting import BOOTSTRAPS, ActInfo, BoundPolicy, Declared, Seen
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.specs.address import address
from artos.specs.keys import CONFIGURATION_KEY, VERSION_KEY, DataKey
from artos.system.random_streams import Purpose, seed_of

if TYPE_CHECKING:
    from artos.policies.build import Policy


class RolloutActor(Continuing):
    """Runs ``envs`` copies of ``env`` side by side with one batched inference per step.

    ``env`` is any Gymnasium id or ``module:factory``, ``env_args`` the arguments it is made with
    (plain data by name); from then on ``env`` is both, see ``artos.specs.address``, and once the
    environment is known its version, too; ``asked`` stays as it was given. ``policy`` is a
    ``Policy``, or a class or function that makes a ``PolicyModule`` of an ``EnvSpec``.
    ``clip_rewards`` stores rewards clipped to -1 … 1 (None: on Atari only); ``terminal_lives`` lets
    a lost life terminate. Reported returns are always those of whole games with raw rewards.
    ``reads`` names objects that the learner publishes; the policy finds them in
    ``info.bound.objects``. With ``history`` the ``every``-th versions of the past are kept, as
    ``info.bound.past(k)``.

    With ``final_observations`` the last observation of an episode, from which a truncated one is
    bootstrapped, is in a row of its own, whose key ``valid`` is False. Not so by default; a
    trigger that draws from replay sets it. The key ``ages`` is stored then, too, and where whole
    episodes are handed over: where it is 0 an episode begins.

    To act without PyTorch, override ``build_module``, ``make_policy`` and ``faults``; PyTorch is
    not loaded then.
    """

    kept: ClassVar[tuple[str, ...]] = (
        "_observations",
        "_state",
        "_stepper",
        "_policy",
        "_configured",
        "_seed",
        "_branched",
    )

    def __init__(
        self,
        env: str,
        policy: Policy | Callable[[EnvSpec], Any] | None = None,
        envs: int = 4,
        *,
        clip_rewards: bool | None = None,
        terminal_lives: bool = False,
        final_observations: bool = False,
        env_args: Mapping[str, Any] | None = None,
        reads: Sequence[str] = (),
        history: int = 0,
        every: int = 1,
    ) -> None:
        self.env, self.envs = address(env, env_args or {}), envs
        self.asked = self.env
        self.clip_rewards, self.terminal_lives = clip_rewards, terminal_lives
        self.policy = policy
        self.final_observations = final_observations
        self.reads = reads or self.reads  # a subclass may name them, too
        self.history, self.every = history or self.history, every if every != 1 else self.every
        self._spec: EnvSpec | None = None
        self._module: Any = None
        self._vector: AnyVectorEnv | None = None
        self._declared: Declared | None = None

    # -- registration --------------------------------------------------------------------------

    @property
    def spec(self) -> EnvSpec:  # type: ignore[override]  # found out when it is asked for
        """Facts about the environment, from a plan or else found by building one."""
        if self._spec is None and self.env not in KNOWN:
            self.env = full_address(self.env)
        if self._spec is None and self.env in KNOWN:
            self.adopt(KNOWN[self.env])
        if self._spec is None:
            self._spec = describe(self.env)
        return self._spec.resetting(self._autoreset)

    @property
    def _autoreset(self) -> AutoresetMode:
        return AutoresetMode.NEXT_STEP if self.final_observations else AutoresetMode.SAME_STEP

    def adopt(self, facts: Any) -> None:
        """Take the environment's facts from a plan instead of building an environment."""
        self._spec = msgspec.convert(facts, EnvSpec, strict=False)

    @property
    def declared(self) -> Declared:  # type: ignore[override]  # as above
        """What the policy adds to a row."""
        if self._declared is None:
            ours = type(self).build_module is RolloutActor.build_module
            policy = self.policy if ours else self.build_module(0)
            self._declared = Declared.by(policy, lambda: self.build_module(0))
        return self._declared

    def data_keys(self) -> Sequence[DataKey]:
        """Everything this actor can write.

        Raises:
            Refused: final observations are wanted, and the environment hides them.
        """
        outputs, state = self.declared.outputs, self.declared.state
        keys = self.spec.data_keys()
        if self.final_observations and not self.spec.skips_rows:
            raise Refused([_HIDDEN.format(self.env)])
        if self.envs % self.spec.agents:
            raise Refused([WHOLE_GAMES.format(self.env, self.spec.agents, self.envs)])
        if (self.final_observations or self.stores_ages or state) and AGES not in keys:
            keys = (*keys, AGES)
        return (*keys, *outputs, *self.declared.bootstraps, *state)

    def build_module(self, seed: int) -> Any:
        """The network, a ``torch.nn.Module`` initialised from ``seed``."""
        import artos.policies.fast  # noqa: F401, PLC0415  # for clones and forks: ahead of time
        from artos.policies.build import Policy, build_policy  # noqa: PLC0415

        return build_policy(self.policy or Policy(), self.spec, seed)

    def make_policy(self, module: Any, seed: int) -> BoundPolicy:
        """The policy that acts with ``build_module``'s network; ``seed`` is for its sampling."""
        from artos.policies.fast import make_actor  # noqa: PLC0415

        return make_actor(module, self.spec, seed)

    def faults(self, module: Any) -> list[str]:
        """Everything that is wrong with ``build_module``'s network for this environment."""
        from artos.policies.build import Policy, check_policy  # noqa: PLC0415

        ours = type(self).build_module is RolloutActor.build_module
        if ours and (self.policy is None or type(self.policy) is Policy):
            return []
        return check_policy(module, self.spec, self.declared, self.bound)

    def seen(self, module: Any) -> Seen:
        """How ``build_module``'s network takes observations, and what is odd about it."""
        notes = (*address_notes(self.asked, self.env),)
        if type(self).build_module is not RolloutActor.build_module:
            return Seen(doubts=notes)
        from artos.policies.build import seen  # noqa: PLC0415

        found = seen(module, self.spec)
        return found._replace(doubts=(*notes, *found.doubts))

    # -- running -------------------------------------------------------------------------------

    def prepare(self, plan: Plan, *, environments: bool = True) -> None:
        """Do early what is the same for every actor: imports, the network, the environments.

        Environments that take their seed when they are made, or of which two are not alike, are
        left to ``setup``. Without ``environments`` one is made and closed again, for its imports.
        """
        self._module = self.build_module(plan.seed)
        if environments and not self.spec.unlike:
            self._vector = make_ahead(self.env, self.envs, self._autoreset)
        else:
            open_vector(self.env, 1, plan.seed, self._autoreset).close()

    def setup(self, context: ActorContext) -> None:
        """Become the actor of ``context``: its random streams, its block, its first observation.

        What ``prepare`` has not made is made here.
        """
        self._block: ActorBlock = context.block
        self._state = RecurrentState(self.declared.state, self.envs)
        who = ActInfo(
            context.actor, context.plan.actors, greedy=context.greedy, state=self._state.arrays,
            branch=self.continued if context.learned_from else None,
            learned_from=context.learned_from,
        )  # fmt: skip
        self._seed, self._branched = seed_of(context.seed, Purpose.CONTINUATIONS), 0
        self.version, self._info = -1, who
        module, self._module = self._module, None
        if module is None:
            module = self.build_module(context.plan.seed)
        self._policy = self.make_policy(module, seed_of(context.seed, Purpose.POLICY))
        vector, self._vector = self._vector, None
        if vector is None:
            vector = make_vector(self.env, self.envs, context.seed, self._autoreset)
        clip = ATARI in vector.metadata if self.clip_rewards is None else self.clip_rewards
        self._stepper = Stepper(
            vector,
            self.env,
            clip_rewards=clip,
            terminal_lives=self.terminal_lives,
            autoreset=self._autoreset,
            masked=self.spec.masked == "info",
        )
        self._stepper.actor = context.actor
        self._observations = _own(self._stepper.reset(context.seed))
        arrays = self._arrays(context.block)
        stacks = {key.name: key.stack for key in context.block.spec.keys}
        parts = [part.name for part in self.spec.parts if part.name in arrays]
        self._whole = [(name, arrays[name]) for name in parts if stacks[name] == 1]
        self._newest = [(name, arrays[name]) for name in parts if stacks[name] > 1]
        self._given = _present(arrays, "actions", *(key.name for key in self.declared.outputs))
        self._states = _present(arrays, *self._state.arrays)
        self._results = _present(arrays, "rewards", "terminations", "truncations", "valid")
        self._components = [
            (number, arrays[key])
            for number, key in enumerate(map(component_key, self.spec.components))
            if key in arrays
        ]
        self._ages = arrays.get("ages")
        self._bootstraps = arrays.get(BOOTSTRAPS)
        self._versions = arrays[VERSION_KEY]
        numbers = arrays.get(CONFIGURATION_KEY)
        self._configurations, self._configured = numbers if self.spec.settable else None, 0

    def _arrays(self, block: ActorBlock) -> Mapping[str, NDArray[Any]]:
        """Where its environments' values are written, (capacity, envs, *shape) by data key."""
        return block.arrays

    def bind(self, params: NDArray[np.float32], version: int) -> None:
        """Use these parameters from now on; they may be a view into the model block."""
        self._policy.bind(params)
        self.version, self._info.bound = version, self.bound

    @property
    def step_number(self) -> int:  # type: ignore[override]  # environments that raise tell it, too
        """The step being sampled, for reports of what went wrong in it."""
        return self._stepper.step_number

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Write ``rows`` rows from step ``start`` in place; returns seconds spent by kind.

        The rows are not visible until the caller commits them.
        """
        self._info.progress, self._info.steps = call.progress, call.steps
        if call.configuration != self._configured:
            self._configure(call)
        clock, capacity = time.perf_counter, self._block.spec.capacity
        inference = environment = 0.0
        for step in range(start, start + rows):
            row = step % capacity
            begun = clock()
            self._show(row)
            self._versions[row] = self.version
            output = self._policy.act(self._observations, self._info)
            self._choose(row, output)
            decided = clock()
            self._stepper.step_number = step
            self._advance(row, output["actions"])
            environment += clock() - decided
            inference += decided - begun
        self._end_round(row)
        return {"environment": environment, "inference": inference}

    def episodes(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Returns and lengths of the episodes that ended since the last call."""
        found, stepper, spec = self._stepper.drain_episodes(), self._stepper, self.spec
        self.begun = stepper.begun
        self.agents_ended = [row % spec.agents for row in stepper.rows if spec.agent_names]
        return found

    def close(self) -> None:
        """Close the environments."""
        self._stepper.close()

    def _show(self, row: int) -> None:
        """Write what the policy acts on."""
        self._state.begin(self._stepper.ages)
        for name, array in self._whole:
            array[row] = self._observations[name]
        for name, array in self._newest:
            array[row] = self._observations[name][:, -1]
        for name, array in self._states:
            array[row] = self._state.arrays[name]
        if self._ages is not None:
            self._ages[row] = self._stepper.ages
        if self._configurations is not None:
            self._configurations[row] = self._stepper.configurations

    def _choose(self, row: int, output: Mapping[str, NDArray[Any]]) -> None:
        """Write what the policy returned."""
        for name, array in self._given:
            array[row] = output[name]
        self._state.take(output)

    def _configure(self, call: Invoke) -> None:
        """Have the environments be as the run is configured now, from their next episodes on."""
        self._configured, known = call.configuration, call.settings
        values = {s.name: s.value(known[s.name]) for s in self.spec.settable if s.name in known}
        if self.spec.settable and (seen := self._stepper.configure(values, call.configuration)):
            self._observations = _own(seen)

    def _advance(self, row: int, actions: NDArray[Any]) -> None:
        result = self._stepper.step(actions)
        self._observations = result.obs
        for name, array in self._results:
            array[row] = getattr(result, name)
        for number, array in self._components:
            array[row] = result.components[:, number]  # type: ignore[index]  # there are some
        self._over = result.ended
        if self._bootstraps is not None:
            self._bootstraps[row] = 0.0
            if result.ended is not None and result.final is not None:
                cut = result.truncations[result.ended]
                if cut.any():
                    info = replace(self._info, state=self._state.of(result.ended))
                    values = self._policy.values(result.final, info)
                    self._bootstraps[row, result.ended[cut]] = values[cut]

    def _end_round(self, row: int) -> None:
        if self._bootstraps is not None:
            self._state.begin(self._stepper.ages)
            values = self._policy.values(self._observations, self._info)
            going_on = np.ones(self.envs, bool)
            if self._over is not None:  # its value is there: 0, or after a truncation another one
                going_on[self._over] = False
            self._bootstraps[row, going_on] = values[going_on]
        self._observations = _own(self._observations)


WHOLE_GAMES = (
    "environment {0}: each of its games has {1} agents, a row for each: set envs to a multiple of "
    "{1}, not {2}"
)
_HIDDEN = (
    "environment {} begins the next episode in the step that ends one, so the observation from "
    "which a truncated episode is bootstrapped is in no row: let it make its vector environment "
    "with autoreset_mode=AutoresetMode.NEXT_STEP or DISABLED, or return a single environment"
)


def _own(observations: Parts) -> Parts:
    """Copies, until the next round: another environment may write into the same arrays."""
    return {name: part.copy() for name, part in observations.items()}


def _present(arrays: Mapping[str, NDArray[Any]], *names: str) -> list[tuple[str, NDArray[Any]]]:
    return [(name, arrays[name]) for name in names if name in arrays]
