"""What a learner holds besides networks: random streams, averages, whatever its attributes are."""

from __future__ import annotations

import io
import logging
import pickle
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from artos.buffer.actor_block import ActorBlock
from artos.learners.context import LearnerContext
from artos.learners.network import Network
from artos.policies.analytic import Analytic
from artos.policies.analytic_critics import AnalyticClimb
from artos.policies.analytic_values import AnalyticValues
from artos.system.snapshot import NotKept

_DECIDED = (Analytic, AnalyticClimb, AnalyticValues)
_log = logging.getLogger(__name__)


class _OfSetUp(NotKept):
    """A value is made of networks or of shared memory: it is as the learner's set-up made it."""


def own_state(
    learner: Any, context: LearnerContext, networks: Mapping[str, Network]
) -> dict[str, Any]:
    """All attributes of a learner that can be pickled, step sizes, and gradients being added up.

    In it the learner, its networks and its context are only named: to another learner, set up in
    the same way, they are its own. Attributes that hold other modules, views of parameters, or
    shared memory are left as set-up makes them.
    """
    # What settings decide on: another learner has its own, or none.
    attributes = {n: v for n, v in vars(learner).items() if not isinstance(v, _DECIDED)}
    trained = {name: each for name, each in networks.items() if each.trained}
    return {
        "made_with": learner.made_with,
        "first_rates": {name: each.first_lr for name, each in trained.items()},
        "attributes": _pickled(attributes, _named(learner, context, networks), networks),
        "rates": {name: each.optimiser.lr for name, each in trained.items()},
        "gradients": {name: each.added() for name, each in networks.items()},
    }


def set_own_state(
    learner: Any,
    context: LearnerContext,
    networks: Mapping[str, Network],
    state: Mapping[str, Any],
) -> None:
    """Have a learner, set up in the same way, go on from there.

    Settings that its ``__init__`` was given otherwise are meant: these attributes and step sizes
    stay as they are.

    Raises:
        NotKept: the state was taken by other code.
    """
    try:
        found = _Unpickler(state["attributes"], _named(learner, context, networks)).load()
    except Exception as error:  # whatever user code raises when it is unpickled
        raise NotKept(f"{type(error).__name__}: {error}") from error
    now, then = learner.made_with, state["made_with"]
    anew = {name for name in now | then if now.get(name) != then.get(name)}
    vars(learner).update({name: value for name, value in found.items() if name not in anew})
    for name, lr in state["rates"].items():
        if networks[name].first_lr == state["first_rates"][name]:
            networks[name].optimiser.lr = lr
    for name, gradient in state["gradients"].items():
        networks[name].add(gradient)


def plain(attributes: Mapping[str, Any]) -> dict[str, bytes]:
    """Those that are plain data, also in structs and dataclasses, as bytes to compare them by."""
    found = {}
    for name, value in attributes.items():
        with suppress(TypeError, ValueError, OverflowError, RecursionError):
            found[name] = msgspec.msgpack.encode(value, order="deterministic")
    return found


def _named(
    learner: Any, context: LearnerContext, networks: Mapping[str, Network]
) -> dict[str, Any]:
    named = {"learner": learner, "context": context, "plan": context.plan}
    named |= {"publish": context.publish, "blocks": context.blocks}
    named |= {"made_with": learner.made_with, "place": learner.place}
    named |= {"residency": learner.residency, "compiler": learner.compiler}
    named |= {"replicas": context.replicas}
    named |= {f"block {actor}": block for actor, block in context.blocks.items()}
    for name, network in networks.items():
        named[f"network {name}"] = network
        for path, module in network.module.named_modules():
            named[f"module {name} {path}"] = module
    return named


def _pickled(
    attributes: Mapping[str, Any], named: dict[str, Any], networks: Mapping[str, Network]
) -> bytes:
    shared = {network.values.untyped_storage().data_ptr() for network in networks.values()}
    try:
        return _dump(dict(attributes), named, shared)
    except Exception:  # of which attribute is found out one by one
        can = {n: v for n, v in attributes.items() if _can_be(n, v, named, shared)}
        return _dump(can, named, shared)


def _dump(attributes: dict[str, Any], named: dict[str, Any], shared: set[int]) -> bytes:
    out = io.BytesIO()
    _Pickler(out, named, shared).dump(attributes)
    return out.getvalue()


def _can_be(name: str, value: Any, named: dict[str, Any], shared: set[int]) -> bool:
    try:
        _dump({name: value}, named, shared)
    except _OfSetUp:
        return False
    except Exception as error:
        _log.warning(
            "the learner's attribute %s is not saved, its set-up makes it again: %s", name, error
        )
        return False
    return True


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, named: dict[str, Any], shared: set[int]) -> None:
        super().__init__(out)
        self._network = named["network "]
        self._names = {id(value): name for name, value in named.items()}
        self._shared = shared

    def persistent_id(self, value: Any) -> str | None:
        return self._names.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.Generator):
            return _generator, (str(value.device), value.get_state())
        if isinstance(value, nn.Module | Network | ActorBlock | memoryview):
            raise _OfSetUp(f"a {type(value).__name__}")
        if isinstance(value, Tensor) and value.untyped_storage().data_ptr() in self._shared:
            raise _OfSetUp("a view of parameters")
        if isinstance(value, Tensor) and value.device.type != "cpu":
            return _like, (self._network, value.detach().cpu())
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, named: dict[str, Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._named = named

    def persistent_load(self, name: str) -> Any:
        return self._named[name]


def _like(network: Network, value: Tensor) -> Tensor:
    """Where the network is now, which may be elsewhere than it was when the state was taken."""
    return value.to(network.values.device)


def _generator(device: str, state: Tensor) -> torch.Generator:
    made = torch.Generator(device)
    made.set_state(state)
    return made
