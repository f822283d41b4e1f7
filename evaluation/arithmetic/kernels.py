"""What nobody who trains this network with PyTorch can leave out, and nothing else.

``python -m evaluation.arithmetic.kernels --threads 2 --bfloat16`` times the convolutions and matrix
products of one minibatch of PPO on Pong, those of acting on the frames of one round (as many at a
time as in a minibatch, which is quicker than a few), and the emulator. It answers with the
``steps_per_second`` of a loop that would spend its time on these alone, one after another: no
losses, no activations, no optimiser, no copies, no waiting.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from artos.policies.products import affine, product
from evaluation.baselines.one_file_ppo import SETTINGS, Nature, make_envs, network_for
from evaluation.baselines.timing import answer
from evaluation.core.runner import TIMES

SETTING = SETTINGS["pong-ale"]
FRAMES = 4
"""In a stack: what the first convolution reads."""
_CALLS, _ROUNDS = 10, 7


def seconds_of(call: Callable[[], object]) -> float:
    """Of one call, warmed up: the shortest mean of several rounds."""
    call()
    found = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        for _ in range(_CALLS):
            call()
        found.append((time.perf_counter() - began) / _CALLS)
    return min(found)


def kernels(
    network: Nature, rows: int, dtype: torch.dtype, *, gradients: bool = True
) -> Iterator[Callable[[], object]]:
    """Each convolution and product of a pass over so many ``rows``, with ``gradients`` or without.

    Nobody wants the gradient of the pixels.
    """
    x = torch.rand(rows, FRAMES, 84, 84)
    for module in network.body:
        into, x = x, module(x)
        if isinstance(module, nn.Conv2d):
            yield from _convolution(module, into, x, dtype, gradients)
        elif isinstance(module, nn.Linear):
            yield from _products(module, into, x, dtype, gradients)


def _convolution(
    module: nn.Conv2d, into: Tensor, out: Tensor, dtype: torch.dtype, gradients: bool
) -> Iterator[Callable[[], object]]:
    image, gradient = (
        each.detach().to(dtype).contiguous(memory_format=torch.channels_last)
        for each in (into, out)
    )
    weight, bias = module.weight.detach().to(dtype), torch.zeros(len(module.weight), dtype=dtype)
    stride = list(module.stride)

    def backward() -> None:
        torch.ops.aten.convolution_backward(
            gradient, image, weight, [len(bias)], stride, [0, 0], [1, 1], False, [0, 0], 1,
            [image.shape[1] > FRAMES, True, True],
        )  # fmt: skip

    yield lambda: torch.conv2d(image, weight, bias, stride)
    if gradients:
        yield backward


def _products(
    module: nn.Linear, into: Tensor, out: Tensor, dtype: torch.dtype, gradients: bool
) -> Iterator[Callable[[], object]]:
    x, gradient = into.detach().to(dtype), out.detach().to(dtype)
    weight, bias = module.weight.detach().to(dtype), module.bias.detach().to(dtype)
    yield lambda: affine(x, weight, bias)
    if gradients:
        yield lambda: product(gradient, weight)
        yield lambda: product(gradient.t(), x)


def emulation(threads: int) -> float:
    """Seconds that the emulator takes for one round, with so many threads."""
    envs = make_envs(SETTING, threads)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(
        0, envs.single_action_space.n, (SETTING.steps, SETTING.envs)
    )

    def one_round() -> None:
        for chosen in actions:
            envs.step(chosen)

    return seconds_of(one_round)


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bfloat16", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    network = network_for((FRAMES, 84, 84), 6, torch.device("cpu"))
    assert isinstance(network, Nature)
    dtype = torch.bfloat16 if options.bfloat16 else torch.float32
    rows = SETTING.batch // SETTING.minibatches
    with torch.inference_mode():
        learning = sum(map(seconds_of, kernels(network, rows, dtype)))
        acting = sum(map(seconds_of, kernels(network, rows, torch.float32, gradients=False)))
    learning *= SETTING.epochs * SETTING.minibatches
    acting *= SETTING.minibatches
    # Emulators that do not wait for each other at every step need less.
    playing = min(emulation(options.threads), emulation(1) / options.threads)
    whole = learning + acting + playing
    rates = {
        "steps_per_second": SETTING.batch / whole,
        f"{TIMES}learn": learning,
        f"{TIMES}inference": acting,
        f"{TIMES}environment": playing,
    }
    answer(rates, ("torch", "ale_py"))


if __name__ == "__main__":
    main()
