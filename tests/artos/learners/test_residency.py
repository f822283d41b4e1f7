"""A network's memory goes and comes back, and nobody who refers to it notices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from artos.errors import CannotReturn
from artos.learners.device import Device
from artos.learners.network import Network
from artos.learners.optimisers import Adam, Optimiser, RMSprop, TorchOptimiser
from artos.learners.residency import Residency
from artos.specs.levels import Level


class Ticking:
    """A clock that is a second later each time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 1
        return self.seconds


def a_network(optimiser: Optimiser | None = None) -> Network:
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    network = Network(module, optimiser or Adam(0.1))
    stepped(network)
    return network


def stepped(network: Network) -> None:
    network.step(loss(network))


def loss(network: Network) -> Tensor:
    found: Tensor = network(torch.arange(12.0).reshape(4, 3)).square().mean()
    return found


def residency_of(*networks: Network) -> Residency:
    return Residency(Device(), lambda: networks, Ticking())


OPTIMISERS: dict[str, Any] = {
    "adam": lambda: Adam(0.1),
    "rmsprop": lambda: RMSprop(0.1),
    "sgd": lambda: TorchOptimiser(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
}


@pytest.mark.parametrize("optimiser", OPTIMISERS.values(), ids=OPTIMISERS)
def test_everything_leaves_and_comes_back(optimiser: Any) -> None:
    network, other = a_network(optimiser()), a_network(optimiser())
    residency = residency_of(network)
    views = [*network.module.parameters(), *network.module.buffers()]
    size = residency.resident_bytes
    assert size >= 4 * 3 * network.count
    residency.leave(Level.PARK)
    assert residency.resident_bytes == 0
    assert all(view.untyped_storage().nbytes() == 0 for view in views)
    residency.enter()
    assert residency.resident_bytes == size
    for each in (network, other):
        stepped(each)
        each.follow(each)
    assert torch.equal(network.values, other.values)
    for view, same in zip(
        views, [*other.module.parameters(), *other.module.buffers()], strict=True
    ):
        assert torch.equal(view, same)


def test_a_gradient_that_is_being_added_up_comes_back() -> None:
    network, other = a_network(), a_network()
    residency = residency_of(network)
    for each in (network, other):
        each.backward(loss(each))
    residency.leave(Level.PARK)
    residency.enter()
    for each in (network, other):
        each.backward(loss(each))
        each.apply()
    assert torch.equal(network.values, other.values)


def test_what_two_networks_share_is_parked_once() -> None:
    network, target = a_network(), Network(nn.Linear(2, 2))
    residency = residency_of(network, target, network)
    size, before = residency.resident_bytes, target.values.clone()
    assert size == residency_of(network).resident_bytes + target.values.nbytes
    residency.leave(Level.PARK)
    residency.leave(Level.PARK)
    residency.enter()
    residency.enter()
    assert torch.equal(target.values, before)


def test_to_trim_empties_used_gradients_and_moves_nothing() -> None:
    network, other = a_network(), a_network()
    residency = residency_of(network)
    size = residency.resident_bytes
    residency.leave(Level.TRIM)
    assert residency.level is Level.TRIM
    assert residency.resident_bytes == size - 4 * network.count
    residency.enter()
    assert residency.resident_bytes == size
    residency.leave(Level.TRIM)
    residency.leave(Level.PARK)  # further
    residency.leave(Level.TRIM)  # not back
    assert (residency.level, residency.resident_bytes) == (Level.PARK, 0)
    residency.enter()
    assert residency.resident_bytes == size
    for each in (network, other):
        stepped(each)
    assert torch.equal(network.values, other.values)


def test_a_gradient_that_is_being_added_up_is_not_trimmed() -> None:
    network = a_network()
    network.backward(loss(network))
    residency = residency_of(network)
    size = residency.resident_bytes
    residency.leave(Level.TRIM)
    assert residency.resident_bytes == size


def test_costs_are_measured() -> None:
    residency = residency_of(a_network())
    size = residency.resident_bytes
    guessed = residency.costs
    gradient = size - residency._needed_bytes
    assert gradient > 0
    assert (guessed[Level.TRIM].freed, guessed[Level.PARK].freed) == (gradient, size)
    assert guessed[Level.PARK].seconds < 1e-3
    for level in (Level.TRIM, Level.PARK, Level.PARK):
        residency.leave(level)
        residency.enter()
    assert residency.costs == {Level.TRIM: (gradient, 2.0), Level.PARK: (size, 2.0)}


def test_no_room_to_return(monkeypatch: pytest.MonkeyPatch) -> None:
    network, other = a_network(), a_network()
    residency = residency_of(network)
    size = residency.resident_bytes
    residency.leave(Level.PARK)
    parked, resize, left = residency._parked, torch.UntypedStorage.resize_, [2]

    def short(storage: torch.UntypedStorage, bytes_: int) -> Any:
        left[0] -= bytes_ > 0
        if bytes_ and left[0] < 0:
            raise RuntimeError("out of memory")
        return resize(storage, bytes_)

    with monkeypatch.context() as patched:
        patched.setattr(torch.UntypedStorage, "resize_", short)
        with pytest.raises(CannotReturn, match=f"{size:,} bytes .* return to cpu .out of memory"):
            residency.enter()
        assert residency.resident_bytes == 0
        assert residency.level is Level.PARK
    assert residency._parked is parked
    residency.enter()
    for each in (network, other):
        stepped(each)
    assert torch.equal(network.values, other.values)


def test_a_process_does_not_end_itself() -> None:
    with pytest.raises(ValueError, match="its supervisor"):
        residency_of(a_network()).leave(Level.END)
