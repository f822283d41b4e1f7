"""The weights that all contestants publish: the Nature network's, 6.7 MB; and how to load them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from evaluation.baselines.one_file_ppo import Nature
from evaluation.pipelining.rounds import Array

_ACTIONS = 6

Weights = dict[str, Array]


def weights(seed: int = 0) -> Weights:
    """Weights of the network, by name."""
    torch.manual_seed(seed)
    return {name: tensor.numpy() for name, tensor in Nature(_ACTIONS).state_dict().items()}


def loader() -> Callable[[Mapping[str, Any]], None]:
    """A function that has a network act with weights, without copying them."""
    torch.set_num_threads(1)
    network = Nature(_ACTIONS)

    def load(arrays: Mapping[str, Any]) -> None:
        found = {name: torch.as_tensor(value) for name, value in arrays.items()}
        network.load_state_dict(found, assign=True)

    return load
