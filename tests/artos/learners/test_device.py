"""The choice of a device, and what a learner keeps there."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from far_device import FAR, Mixed, far_device
from torch import nn

from artos.learners.context import LearnerContext
from artos.learners.device import chosen, device_of, faults
from artos.learners.torch_learner import TorchLearner


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch says that there are two."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch says that there is none."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("wanted", ["gpu", "cuda:", "cuda:-1", "cuda:x", "cpu:1", "", "CPU"])
def test_an_unknown_device(wanted: str, two_gpus: None) -> None:
    (said,) = faults(wanted)
    assert said == f"unknown device {wanted!r}: use auto, cpu, cuda, cuda:N or pool"


@pytest.mark.parametrize("wanted", ["cuda", "cuda:0", "cuda:7"])
def test_no_gpu(wanted: str, no_gpu: None) -> None:
    (said,) = faults(wanted)
    assert said.startswith(f"device {wanted!r} needs a GPU that torch can use, and ")
    assert said.endswith(": use cpu")


def test_a_gpu_too_many(two_gpus: None) -> None:
    assert not [*faults("cuda"), *faults("cuda:0"), *faults("cuda:1")]
    assert list(faults("cuda:2")) == ["there is no device 'cuda:2', only cuda:0 to cuda:1"]


def test_auto_takes_a_gpu_for_large_networks(two_gpus: None) -> None:
    assert not list(faults("auto"))
    assert chosen("auto", large=True) == "cuda:0"
    assert chosen("auto", large=False) == "cpu"
    assert chosen("cuda", large=False) == "cuda:0"
    assert chosen("cuda:1", large=False) == "cuda:1"


def test_auto_without_a_gpu(no_gpu: None) -> None:
    assert not [*faults("auto"), *faults("cpu")]
    assert chosen("auto", large=True) == "cpu"


def test_on_a_cpu_a_tensor_is_the_array() -> None:
    array = np.zeros(3, np.float32)
    device_of("cpu").tensor(array)[1] = 2
    assert array.tolist() == [0, 2, 0]


class Averaging(TorchLearner):
    """Holds a tensor that is no network's."""

    def setup(self, context: LearnerContext) -> None:
        super().setup(context)
        self.average = torch.zeros(3, device=self.place.device)


def a_learner(device: str) -> Averaging:
    learner, plan = Averaging(), SimpleNamespace(data_keys=[])
    learner.setup(LearnerContext(plan, nn.Linear(2, 1), 0, device=device))  # type: ignore[arg-type]
    return learner


def test_a_tensor_of_the_learners_is_put_back_on_its_device() -> None:
    with far_device():
        before, after = a_learner(FAR), a_learner(FAR)
        before.average += 3
        after.go_on(pickle.loads(pickle.dumps(before.snapshot())))
        after.average += before.average  # on the same side
        assert after.average.tolist() == [6, 6, 6]
    here = a_learner("cpu")
    here.go_on(before.snapshot())
    assert (here.average + torch.zeros(3)).tolist() == [3, 3, 3]


def test_the_far_device_is_strict() -> None:
    """Or the tests that use it would prove nothing."""
    refused: list[Any] = [
        lambda: there + torch.ones(2), lambda: there[torch.tensor([0])],
        lambda: there.detach().numpy(), lambda: np.asarray(there.detach()),
        lambda: torch.cat((there, torch.ones(2))),
        lambda: nn.Linear(2, 1)(there), lambda: there @ torch.ones(2),
    ]  # fmt: skip
    with far_device():
        there = torch.ones(2, device=FAR).requires_grad_()
        assert there.device.type == torch.zeros_like(there).device.type == FAR
        for do in refused:
            with pytest.raises((Mixed, TypeError)):
                do()
        assert (there * 2).sum().item() == 4
        assert there.detach().cpu().numpy().tolist() == [1, 1]
    with pytest.raises((RuntimeError, ModuleNotFoundError)):
        torch.ones(2, device=FAR)
