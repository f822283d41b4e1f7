"""Central inference (SEED RL, Espeholt et al. 2020): one process has the network for all actors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.policies.acting import VALUES, ActInfo, blank
from artos.specs.contracts import Actor
from artos.specs.keys import DataKey
from artos.specs.servers import Server, ServerContext
from artos.system.random_streams import Purpose, seed_of

_PROBED = 2
_NOT_ASKING = (
    "{} acts by itself: let the workload's actor be an AskingActor, or leave out the server"
)
_UNDIVIDED = (
    "inference=central: {} chooses its actions where its network is evaluated: give it answer(obs, "
    "info), by which rows are evaluated without chance, and draw(answer, info), which chooses from "
    "that without weights, or set inference=actor"
)
_NO_VALUES = (
    "inference=central: {} has values among its outputs, by which episodes that go on are "
    "bootstrapped, but its answer(obs, info) has none: return them there, too"
)
_READS = (
    "inference=central: the policy reads {}, which only actors that act by themselves have: leave "
    "it out, or set inference=actor"
)
_PARTS = (
    "splits={} does not divide envs={}: each part steps as many environments; set envs to a "
    "multiple of it, or splits to {}"
)
_GAME = "splits={}: a game of {} agents is in one part, so each part has a multiple of {} rows"


class Inference(Server):
    """Evaluates the policy of an ``AskingActor`` for all actors, with the newest weights."""

    reads_weights = on_devices = True

    def __init__(
        self, batch: int = 1, wait: float = 0.0, *, threads: int = 1, device: str = "cpu"
    ) -> None:
        self.batch, self.wait, self.threads, self.device = batch, wait, threads, device

    def asks(self, actor: Actor) -> Sequence[DataKey]:
        """What the policy sees: observations, and its recurrent state."""
        spec, declared = actor.spec, actor.declared
        assert spec is not None
        assert declared is not None
        parts = [DataKey(part.name, part.value_shape, part.dtype) for part in spec.parts]
        return (*parts, *declared.state)

    def answers(self, actor: Actor) -> Sequence[DataKey]:
        """What ``draw`` of the policy needs."""
        spec, declared = actor.spec, actor.declared
        assert spec is not None
        assert declared is not None
        module = actor.build_module(0)
        state = {k.name: np.zeros((_PROBED, *k.shape), k.dtype) for k in declared.state}
        policy: Any = actor.make_policy(module, 0)
        if module is not None:
            from artos.policies.flat import layout  # noqa: PLC0415  # others do without torch

            count = sum(math.prod(shape) for _, shape in layout(module))
            policy.bind(np.zeros(count, np.float32))
        found = policy.answer(blank(spec, _PROBED), ActInfo(state=state))
        return [DataKey(name, array.shape[1:], str(array.dtype)) for name, array in found.items()]

    def rows(self, actor: Actor) -> int:
        """One part of the actor's environments."""
        return actor.envs // self.seats(actor)

    def seats(self, actor: Actor) -> int:
        """One for each part."""
        return int(getattr(actor, "splits", 1))

    def faults(self, actor: Actor) -> Iterator[str]:
        """Why it cannot evaluate this actor's policy."""
        splits = getattr(actor, "splits", None)
        if splits is None:
            yield _NOT_ASKING.format(type(actor).__name__)
            return
        if splits < 1:
            yield f"splits must be at least 1, not {splits}"
        elif actor.envs % splits:
            fits = max(n for n in range(1, splits + 1) if actor.envs % n == 0)
            yield _PARTS.format(splits, actor.envs, fits)
        elif actor.spec is not None and self.rows(actor) % actor.spec.agents:
            agents = actor.spec.agents
            yield _GAME.format(splits, agents, agents)
        read = [*actor.reads, *["past versions"] * bool(actor.history)]
        if read:
            yield _READS.format(", ".join(read))
        module = actor.build_module(0)
        policy: Any = actor.make_policy(module, 0)
        # What acts with modules of torch has both of these, and asks the module.
        asked = getattr(policy, "module", policy)
        if not _divided(asked):
            yield _UNDIVIDED.format(type(asked).__name__)
        elif (
            not read  # else it cannot be asked here
            and actor.declared is not None
            and actor.declared.bootstraps
            and all(key.name != VALUES for key in self.answers(actor))
        ):
            yield _NO_VALUES.format(type(asked).__name__)

    def setup(self, context: ServerContext) -> None:
        """Build the network."""
        actor = context.actor
        declared = actor.declared
        self._states = [key.name for key in declared.state] if declared else []
        module = actor.build_module(context.seed)
        self._policy: Any = None
        if context.device == "cpu":
            self._policy = actor.make_policy(module, seed_of(context.seed, Purpose.POLICY))
        else:
            from artos.policies.on_device import OnDevice  # noqa: PLC0415  # others need no torch

            self._policy = OnDevice(module, context.device)

    def bind(self, params: NDArray[np.float32], version: int) -> None:
        """Evaluate with these weights from now on."""
        self._policy.bind(params)

    def answer(self, asked: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """What the newest weights say of each row."""
        obs = dict(asked)
        state = {name: obs.pop(name) for name in self._states}
        found: Mapping[str, NDArray[Any]] = self._policy.answer(obs, ActInfo(state=state))
        return found


def _divided(policy: Any) -> bool:
    """Whether it has both halves, and no ``act`` of a subclass that knows nothing of them."""
    if not all(callable(getattr(policy, name, None)) for name in ("answer", "draw")):
        return False
    for kind in type(policy).__mro__:
        if "answer" in vars(kind) or "draw" in vars(kind):
            return True
        if "act" in vars(kind):
            return False
    return True
