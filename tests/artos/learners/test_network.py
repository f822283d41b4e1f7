"""Networks of a learner: gradients add up, targets follow, and all state can be saved."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from artos.learners.network import Network, Value
from artos.learners.optimisers import Adam, ByPart, Optimiser, RMSprop, TorchOptimiser
from artos.policies.flat import layout, views

SGD = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
RMSPROP = partial(torch.optim.RMSprop, lr=0.01, eps=1e-5)
OPTIMISERS: dict[str, Callable[[], Optimiser]] = {
    "adam": lambda: Adam(0.1),
    "adamw": lambda: Adam(0.1, weight_decay=0.1),
    "sgd": lambda: TorchOptimiser(SGD),
    "rmsprop": lambda: RMSprop(0.01),
    "torch's rmsprop": lambda: TorchOptimiser(RMSPROP),
    "by part": lambda: ByPart(RMSprop(0.01), bias=Adam(0.1)),
}


def one(optimiser: Optimiser | None = None, most: float | None = None, seed: int = 3) -> Network:
    torch.manual_seed(seed)
    return Network(nn.Linear(4, 1), optimiser or Adam(0.1), most)


def losses(network: Network) -> list[Tensor]:
    rows = torch.arange(12.0).reshape(3, 4)
    return [network(row).square().sum() for row in rows]


def test_parts_step_like_their_sum() -> None:
    network = one(most=0.5)
    network.step(torch.stack(losses(network)).sum())
    wanted = network.values.clone()
    network = one(most=0.5)
    for loss in losses(network):
        network.backward(loss)
    network.apply()
    np.testing.assert_allclose(network.values, wanted, rtol=1e-6)
    assert network.steps == 1


def test_a_step_on_one_loss_knows_nothing_of_what_was_added_before() -> None:
    network = one()
    first, second, _ = losses(network)
    network.backward(first)
    network.step(second)
    kept = network.values.clone()
    network = one()
    network.step(losses(network)[1])
    assert torch.equal(network.values, kept)


@pytest.mark.parametrize("discarded", [False, True])
def test_what_was_discarded_does_not_count(discarded: bool) -> None:
    network = one()
    first, second, _ = losses(network)
    network.backward(first)
    if discarded:
        network.discard()
    network.backward(second)
    found = network.weights.grad.clone()  # type: ignore[union-attr]
    network = one()
    again = losses(network)
    network.backward(again[1] if discarded else again[0] + again[1])
    torch.testing.assert_close(found, network.weights.grad)


def test_no_step_without_a_gradient() -> None:
    network = one()
    with pytest.raises(RuntimeError, match="call backward"):
        network.apply()
    network.step(losses(network)[0])
    with pytest.raises(RuntimeError, match="call backward"):
        network.apply()


def test_a_network_without_an_optimiser_says_so() -> None:
    network = Network(nn.Linear(4, 1))
    assert not network(torch.ones(4)).requires_grad
    with pytest.raises(TypeError, match="give own"):
        network.apply()


@pytest.mark.parametrize("name", ["adam", "sgd", "rmsprop", "torch's rmsprop"])
def test_it_steps_as_torch_does(name: str) -> None:
    torch.manual_seed(3)
    theirs = nn.Linear(4, 1)
    makes = {"adam": partial(torch.optim.Adam, lr=0.1, eps=1e-5), "sgd": SGD}
    optimizer = makes.get(name, RMSPROP)(list(theirs.parameters()))
    ours = one(OPTIMISERS[name]())
    for _ in range(3):
        loss = torch.stack([theirs(row).square().sum() for row in torch.eye(4)]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ours.step(torch.stack([ours(row).square().sum() for row in torch.eye(4)]).sum())
    theirs_flat = torch.cat([p.detach().reshape(-1) for p in theirs.parameters()])
    torch.testing.assert_close(ours.values, theirs_flat)


@pytest.mark.parametrize("taken", [0, 2])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_what_is_restored_goes_on_bit_for_bit(name: str, taken: int) -> None:
    network = one(OPTIMISERS[name]())
    for _ in range(taken):
        network.step(torch.stack(losses(network)).sum())
    saved = {key: value.clone() for key, value in network.state().items()}
    other = one(OPTIMISERS[name](), seed=4)
    assert {key: t.shape for key, t in other.state().items()} == {
        key: t.shape for key, t in saved.items()
    }
    for key, value in other.state().items():
        value.copy_(saved[key])
    other.restored()
    assert other.steps == taken
    for each in (network, other, network, other):
        each.step(torch.stack(losses(each)).sum())
    for key, value in network.state().items():
        assert torch.equal(value, other.state()[key]), key


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_step_size_can_be_changed(name: str) -> None:
    network = one(OPTIMISERS[name]())
    before = network.values.clone()
    network.optimiser.lr = 0.0
    network.step(losses(network)[0])
    torch.testing.assert_close(network.values, before)
    network.optimiser.lr = 0.1
    network.step(losses(network)[0])
    assert not torch.equal(network.values, before)


def test_a_loss_through_two_networks_changes_only_the_one_that_steps() -> None:
    actor, critic = Network(nn.Linear(2, 2), Adam(0.1)), Network(nn.Linear(2, 1), Adam(0.1))
    before, gradient = critic.values.clone(), critic.weights.grad
    assert gradient is not None
    actor.step(critic(actor(torch.ones(2))).sum())
    assert torch.equal(critic.values, before)
    assert not gradient.any()
    critic.step(critic(torch.ones(2)).sum())
    assert not torch.equal(critic.values, before)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_frozen_weights_stay_whatever_steps_the_others(name: str) -> None:
    """Decay would shrink them, and momentum move them on."""
    network = one(OPTIMISERS[name]())
    for loss in losses(network):
        network.step(loss)
    weight, bias = network.module.parameters()
    weight.requires_grad_(False)
    kept, moves = weight.clone(), bias.clone()
    for loss in losses(network):
        network.step(loss)
    assert torch.equal(weight, kept)
    assert not torch.equal(bias, moves)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_counted_beyond_what_single_precision_holds(name: str) -> None:
    """Who copies a target network every so many steps would do it always, or never again."""
    network = one(OPTIMISERS[name]())
    network.step(losses(network)[0])
    for key, tensor in network.state().items():
        if key.rpartition(".")[2] in ("count", "step"):
            tensor.fill_(2**24)
    network.restored()
    for number, loss in enumerate(losses(network), 1):
        network.step(loss)
        assert network.steps == 2**24 + number


def test_targets_follow_with_buffers_and_know_nothing_of_gradients() -> None:
    source = Network(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), Adam(0.1))
    target = Network(copy.deepcopy(source.module))
    source.step(source(torch.rand(8, 2)).square().sum())
    start = target.values.clone()
    assert not torch.equal(start, source.values)
    target.follow(source, 0.25)
    torch.testing.assert_close(target.values, 0.25 * source.values + 0.75 * start)
    target.follow(source)
    assert torch.equal(target.values, source.values)
    rows = torch.rand(4, 2)
    torch.testing.assert_close(target.module.eval()(rows), source.module.eval()(rows))
    with pytest.raises(ValueError, match="only follow one like itself"):
        target.follow(one())


def test_a_tensor_is_a_network_that_returns_it() -> None:
    temperature = Network(Value(torch.zeros(())), Adam(0.1))
    temperature.step(temperature() * 2)
    assert temperature().item() == pytest.approx(-0.1, rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float32])
def test_what_a_version_holds_is_counted_in_one_way(dtype: torch.dtype) -> None:
    """Buffers of any precision are in the vector, as the layout says, and in the module."""
    module = nn.Linear(2, 3)
    module.register_buffer("scale", torch.full((4,), 0.5, dtype=dtype))
    module.register_buffer("count", torch.zeros(5, dtype=torch.int64))
    network = Network(module)
    found = views(network.values.numpy(), layout(module))
    assert found.keys() == {"weight", "bias", "scale"}
    network.values[-4:] = 0.25
    assert module.get_buffer("scale").tolist() == found["scale"].tolist() == [0.25] * 4


class Joined(nn.Module):
    """Two parts, of which one is in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.head = nn.Linear(3, 2), nn.Linear(2, 1)
        self.inside_norm = nn.LayerNorm(2)
        self.more = nn.ModuleDict({"inside": nn.Linear(2, 1)})

    def forward(self, x: Tensor) -> Tensor:
        """Numbers of rows."""
        hidden = self.inside_norm(self.inside(x))
        found: Tensor = self.head(hidden) + self.more["inside"](hidden)
        return found


def test_a_part_may_learn_while_all_others_stand_still() -> None:
    network = Network(Joined(), ByPart(Adam(0.0), head=Adam(1e-3)), None)
    optimiser = network.optimiser
    assert isinstance(optimiser, ByPart)
    optimiser.lr = optimiser.lr  # as a resumed run does
    assert [each.lr for _, each in optimiser._each if each.lr] == [1e-3]
    with pytest.raises(ValueError, match="proportion"):
        optimiser.lr = 1e-4
    assert optimiser.lr == 0


def test_a_resumed_run_has_exactly_the_rates_that_it_had() -> None:
    """In floating point 0.1 * 0.7 / 0.1 is not 0.7."""
    network = Network(Joined(), ByPart(Adam(0.1), head=Adam(0.7)), None)
    optimiser = network.optimiser
    assert isinstance(optimiser, ByPart)
    optimiser.lr = 0.1
    assert {each.lr for _, each in optimiser._each} == {0.1, 0.7}


def test_each_part_has_an_optimiser_of_its_own() -> None:
    """As torch steps groups of parameters; a part's name is no beginning of a longer word."""
    torch.manual_seed(1)
    module = Joined()
    theirs = copy.deepcopy(module)
    network = Network(
        module, ByPart(Adam(0.1), inside=Adam(0.01), **{"more.inside": RMSprop(0.02)}), None
    )
    adam = torch.optim.Adam(
        [
            {"params": theirs.inside.parameters(), "lr": 0.01},
            {"params": [*theirs.head.parameters(), *theirs.inside_norm.parameters()]},
        ],
        lr=0.1,
        eps=1e-5,
    )
    x = torch.randn(8, 3)
    for step in range(3):
        if step == 2:
            network.optimiser.lr = 0.05
            for group in adam.param_groups:
                group["lr"] /= 2
        network.step(network(x).square().mean())
        adam.zero_grad()
        loss: Any = theirs(x).square().mean()
        loss.backward()
        adam.step()
        theirs.more.load_state_dict(module.more.state_dict())
    for name, found in module.named_parameters():
        torch.testing.assert_close(found, theirs.get_parameter(name), rtol=1e-4, atol=1e-6)
    assert network.steps == 3


def test_a_part_that_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match="no part is named 'insde': this network has inside, head"):
        Network(Joined(), ByPart(Adam(0.1), insde=Adam(0.01)), None)


def test_what_is_frozen_stays_and_the_rest_is_learned() -> None:
    """Also where a loss depends on several networks, and once the network was ``fixed``."""
    network = one()
    network.module.weight.requires_grad_(False)
    frozen, bias = network.module.weight.clone(), network.module.bias.clone()
    with network.fixed():
        pass
    network.step(losses(network)[1])
    assert torch.equal(network.module.weight, frozen)
    assert not torch.equal(network.module.bias, bias)


@pytest.mark.parametrize("change", ["step", "follow"])
def test_a_loss_of_weights_that_have_changed_since_is_refused(change: str) -> None:
    """Its gradient would be that of neither: PyTorch refuses it, if it can tell."""
    policy, critic = one(), Network(nn.Linear(1, 1), Adam(0.1))
    loss = critic(policy(torch.ones(4))).sum()
    if change == "step":
        critic.step(critic(torch.ones(1)).sum())
    else:
        critic.follow(Network(nn.Linear(1, 1)), 0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        policy.step(loss)
