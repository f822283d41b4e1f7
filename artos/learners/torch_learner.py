"""The base of learners that step with PyTorch, and what they share.

They share how batches divide into minibatches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.learners import device as devices
from artos.learners.compiler import Compiler, Switch
from artos.learners.compiler import faults as compiler_faults
from artos.learners.context import LearnerContext
from artos.learners.device import Device, chosen, device_of
from artos.learners.network import Network, Value
from artos.learners.optimisers import Adam, Optimiser
from artos.learners.own_state import own_state, plain, set_own_state
from artos.learners.ranges import bounds, positive, within
from artos.learners.residency import Residency
from artos.learners.sequences import Windows, windows
from artos.policies.flat import Layout, layout
from artos.runs.plan import Plan
from artos.specs.configuration import Changeable
from artos.specs.contracts import Learner
from artos.specs.keys import MODEL_PARAM, ObjectKey, is_observation

_MOST_THREADS = 1024
_LARGE = 200_000


def _is_large(module: nn.Module) -> bool:
    return sum(p.numel() for p in module.parameters()) > _LARGE


def indivisible(plan: Plan, minibatches: int, actors: Iterable[int] | None = None) -> list[str]:
    """Numbers of actors with which minibatches would differ in size, and what to change.

    ``actors`` are those that may occur, by default all that the plan may have at work.
    """
    numbers = plan.at_work.numbers() if actors is None else actors
    each = plan.envs * plan.steps
    if minibatches < 1 or each < 1:
        return []
    if plan.state_keys:
        wrong = [n for n in numbers if n * plan.envs % minibatches]
        return [
            f"a recurrent policy learns from whole sequences, and {n} actors x {plan.envs} envs = "
            f"{n * plan.envs} do not divide into {minibatches} minibatches: change minibatches or "
            "envs"
            for n in wrong[:1]
        ]
    wrong = [n for n in numbers if n * each % minibatches]
    return [
        f"{n} actors x {plan.envs} envs x {plan.steps} steps = {n * each} rows do not divide into "
        f"{minibatches} minibatches: change minibatches, steps or envs"
        for n in wrong[:1]
    ]


def few_for_replicas(plan: Plan, minibatches: int, actors: Iterable[int]) -> list[str]:
    """Minibatches of which some replicas would have no row, or sequence, and what to change."""
    each = plan.envs * (1 if plan.state_keys else plan.steps)
    fewest = min(actors, default=0) * each // max(1, minibatches)
    if plan.replicas == 1 or fewest >= plan.replicas or fewest < 1:
        return []
    what = f"{'whole sequence' if plan.state_keys else 'row'}{'s' if fewest > 1 else ''}"
    return [
        f"a minibatch has {fewest} {what}, which {plan.replicas_setting} cannot divide: lower "
        "learners or minibatches, or raise envs or actors"
    ]


class TorchLearner(Learner):
    """Subclass it and write ``update(batch, call)``; call ``self.step(loss)`` to learn.

    ``batch`` holds the rows that the trigger claimed or drew, and is None where it does neither (a
    ``TimeTrigger``): such a learner draws from ``context.blocks`` with a sampler. ``update``
    returns metrics (floats).

    ``module`` is the policy's network, whose weights are published; ``network`` holds it with its
    optimiser. In ``setup``, ``self.own(name, module, lr=…)`` takes further networks and tensors,
    which are the learner's own: saved with the weights in each version and restored with them, so a
    learner that is killed goes on from the newest version.

    ``publishing`` says when a version is made: ``"update"``, at the end of each call in which
    something stepped; ``"step"``, after each of the policy's own steps, in the midst of a call;
    ``"itself"``, only where the learner calls ``publish()``. Whatever was learned since the last
    version is lost with the process.

    Methods named in ``non_publishing`` only prepare an update, with rows that have come already:
    they publish nothing and count as no update, even if they step. Their work is lost with the
    process, so an update that follows must claim the same rows, and do what is missing.

    ``calls`` names the methods that the policy's module must have, ``reads`` the data keys that the
    rows must have; both are checked before the launch.

    ``self.compiler(function, …)`` calls a function of tensors, with ``compile="on"`` compiled: e.g.
    one that returns a minibatch's loss.

    ``replicable = True`` says that several processes can make its updates together: that ``update``
    takes its part of the rows by ``self.replicas.part``, and computes from all of them what is a
    matter of the whole batch (docs/how-to/replicas.md).

    A learner that publishes other objects, e.g. statistics, declares them in ``objects`` and calls
    ``self.publish(name, value)`` in any of its methods. Each version fires
    ``ObjectKeyTrigger(name)``; scaling policies read the newest value.
    """

    publishing: ClassVar[Literal["update", "step", "itself"]] = "update"
    objects: ClassVar[tuple[ObjectKey, ...]] = ()
    changeable: ClassVar[tuple[Changeable, ...]] = (Changeable("lr", gt=0),)
    rounds_losses = False
    """Whether what ``self.compiler`` calls runs in bfloat16 autocast."""

    def __init__(
        self,
        lr: float = 2.5e-4,
        max_grad_norm: float | None = 0.5,
        threads: int = 0,
        compile: Switch = "off",
    ) -> None:
        self.lr, self.max_grad_norm, self._threads = lr, max_grad_norm, threads
        self.threads_follow = not threads  # no number was set
        self.compile: Switch = compile

    def setup(self, context: LearnerContext) -> None:
        """Adopt the policy's network and give it its optimiser."""
        if "made_with" not in vars(self):  # in one process registration sets it up, too
            self.made_with = plain(vars(self))
        self.context, self.module, self.replicas = context, context.module, context.replicas
        self.place: Device = device_of(context.device)
        self.compiler = Compiler(
            self.compile, self.place, context.waits, bfloat16=self.rounds_losses
        )
        self.owned: dict[str, Network] = {}
        self.residency = Residency(self.place, lambda: (self.network, *self.owned.values()))
        self.network = self._placed(
            self.module, self.optimiser(), self.max_grad_norm, self._stepped
        )
        self.network.alone = True

    def optimiser(self) -> Optimiser:
        """The optimiser of the policy's network; override it for another one."""
        return Adam(self.lr)

    def own(
        self,
        name: str,
        module: nn.Module | Tensor,
        lr: float | None = None,
        *,
        optimiser: Optimiser | None = None,
        max_grad_norm: float | None = None,
    ) -> Network:
        """Take a network, or a tensor, that is saved and restored with each version.

        With ``lr`` it is trained by Adam (eps 1e-8), with ``optimiser`` by that one, with neither
        it is not trained: a target network, a counter. Use a name of its own for each.

        Raises:
            ValueError: the name is taken, or both ``lr`` and ``optimiser`` are given.
        """
        if name in self.owned or (lr is not None and optimiser is not None):
            why = "has the name of another one" if name in self.owned else "has two optimisers"
            raise ValueError(f"own({name!r}, ...) {why}")
        if lr is not None:
            optimiser = Adam(lr, eps=1e-8)
        found = Value(module) if isinstance(module, Tensor) else module
        self.network.alone = self.network.alone and optimiser is None
        self.owned[name] = self._placed(found, optimiser, max_grad_norm, self._changed)
        return self.owned[name]

    def _placed(
        self,
        module: nn.Module,
        optimiser: Optimiser | None,
        max_grad_norm: float | None,
        stepped: Callable[[], None],
    ) -> Network:
        place, replicas = self.place.device, self.replicas
        return Network(module, optimiser, max_grad_norm, stepped, place, replicas)

    def threads(self, module: nn.Module, cores: int) -> int:
        """Compute threads: as set, else one for small networks, for large ones at most all cores.

        ``cores`` is 1 if it computes on a GPU.
        """
        return self._threads or (cores if _is_large(module) else 1)

    def device_for(self, wanted: str, module: nn.Module) -> str:
        """The name of the device to compute on: as ``wanted``, or chosen for ``"auto"``."""
        return chosen(wanted, large=_is_large(module))

    def device_faults(self, wanted: str) -> list[str]:
        """Why this machine cannot give the learner that device."""
        lacking = compiler_faults(wanted) if self.compile == "on" else ()
        return [*devices.faults(wanted), *lacking]

    def faults(self, plan: Plan) -> list[str]:
        """Everything wrong with this learner's settings for this plan."""
        found = [*self.out_of_range()]
        if self.compile == "on" and plan.state_keys:
            found.append("compile=on: policies with a memory are not compiled: leave out compile")
        return found

    def out_of_range(self) -> Iterator[str]:
        """What is wrong with settings whatever the plan; a subclass adds its own."""
        yield from positive(lr=self.lr)
        yield from within(0, _MOST_THREADS, threads=self._threads)
        if self.compile not in get_args(Switch):
            yield f"compile must be one of {', '.join(get_args(Switch))}, not {self.compile!r}"
        yield from bounds(optional=True, max_grad_norm=self.max_grad_norm)

    def change(self, name: str, value: float) -> None:
        """Go on with another value; ``lr`` is also that of the policy's optimiser."""
        super().change(name, value)
        if name == "lr":
            self.step_by(value)

    def step_by(self, lr: float) -> None:
        """Step the policy's network by this size from now on."""
        self.network.optimiser.lr = lr

    # -- learning ------------------------------------------------------------------------------

    def step(self, loss: Tensor) -> None:
        """One step of the policy's network on ``loss`` (scalar) alone."""
        self.network.step(loss)

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """A tensor of the same values where the networks are; on a CPU the same memory."""
        return self.place.tensor(array)

    def observations(
        self, batch: Mapping[str, NDArray[Any]], prefix: str = ""
    ) -> dict[str, Tensor]:
        """What the policy's network takes, of a drawn batch; with ``"next."`` of the states after.

        Keys are the data keys of observations, values (n, *shape) in their dtypes.
        """
        keys = [key.name for key in self.context.plan.data_keys if is_observation(key.name)]
        return {key: self.tensor(batch[prefix + key]) for key in keys}

    def windows(self, batch: DrawnBatch) -> Windows:
        """Drawn ``Sequences`` as tensors, time first; the trigger's keys must name the state."""
        return windows(batch, self.context.plan.state_keys, self.tensor)

    # -- publishing ----------------------------------------------------------------------------

    def publish(self, name: str = MODEL_PARAM, value: ArrayLike | None = None) -> None:
        """Publish the weights at the end of this call, or make ``value`` an object's new version.

        Raises:
            BadObject: the object is not declared, or has another shape.
            NotFinite: ``value`` holds NaN or infinity.
        """
        if name == MODEL_PARAM:
            self.fresh = True
        else:
            self.context.publish(name, np.nan if value is None else value)

    def published(self, name: str) -> NDArray[Any] | None:
        """A copy of the last value, even from before a crash or ``--resume``; None if none."""
        return self.context.publish.newest(name)

    def _changed(self) -> None:
        self.context.stepped()
        self.fresh = self.fresh or self.publishing == "update"

    def _stepped(self) -> None:
        self._changed()
        if self.publishing == "step":
            self.context.publish.weights(self.live())

    def live(self) -> Mapping[str, Tensor | NDArray[Any]]:
        """Live tensors or arrays that make up a version: copied out to publish, in to resume.

        ``params`` is what actors bind; names of all others begin with ``learner.``.
        """
        private = self.network.state()
        params = private.pop("params")
        for name, network in self.owned.items():
            private |= {f"{name}.{key}": value for key, value in network.state().items()}
        return {"params": params, **{f"learner.{key}": value for key, value in private.items()}}

    def restored(self) -> None:
        """What ``live`` returns was filled with the newest version, of another process."""
        for network in (self.network, *self.owned.values()):
            network.restored()

    def snapshot(self) -> dict[str, Any]:
        """Everything else that this learner holds, e.g. its random streams; to be pickled."""
        return own_state(self, self.context, {"": self.network, **self.owned})

    def go_on(self, taken: dict[str, Any]) -> None:
        """Learn on from a ``snapshot``, once ``live`` was filled."""
        set_own_state(self, self.context, {"": self.network, **self.owned}, taken)

    def layout(self) -> Layout:
        """Names and shapes inside ``params``."""
        return layout(self.module)
