"""What is compiled, what the learner says meanwhile, and when it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from inline_runs import registered
from torch import Tensor

from artos import PPO
from artos.errors import Refused
from artos.learners import compiler
from artos.learners.compiler import WAITS_FOR, Compiler
from artos.learners.device import Device


def squares(x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    return x.square().sum(), {"x": x.detach()}


class Graphs(Device):
    """Not a CPU, as far as one can see, so that functions become graphs."""

    @property
    def is_cpu(self) -> bool:
        return False


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """How torch was asked to compile; it does not, but it says that it does."""
    from torch._dynamo.callback import callback_handler  # noqa: PLC0415  # takes a second

    said: Any = None
    asked: list[dict[str, Any]] = []

    def fake(function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
        asked.append(settings)

        def run(*given: Any) -> Any:
            callback_handler.run_start_callbacks(said)
            callback_handler.run_end_callbacks(said)
            return function(*given)

        return run

    monkeypatch.setattr(torch, "compile", fake)
    yield asked
    callback_handler.clear()


def test_off_it_only_calls(compiled: list[dict[str, Any]]) -> None:
    x = torch.ones(3, requires_grad=True)
    loss, found = Compiler("off", Graphs())(squares, x)
    assert loss == 3
    assert found["x"].data_ptr() == x.data_ptr()
    assert not compiled


def test_a_function_is_compiled_once_and_the_learner_says_so(
    compiled: list[dict[str, Any]],
) -> None:
    told: list[str] = []
    call = Compiler("on", Device(), told.append)
    for value in (1.0, 2.0):
        assert call(squares, torch.full((3,), value))[0] == 3 * value**2
    assert len(compiled) == 1
    assert compiled[0]["dynamic"] is False
    assert compiled[0]["options"] == {**compiler._OPTIONS, "triton.cudagraphs": False}
    assert told == [WAITS_FOR, ""] * 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # its own code's
def test_what_a_graph_gives_is_copied_and_can_be_differentiated(
    compiled: list[dict[str, Any]],
) -> None:
    x = torch.ones(3, requires_grad=True)
    loss, found = Compiler("on", Graphs())(squares, x)
    assert compiled[0]["options"]["triton.cudagraphs"] is True
    assert found["x"].data_ptr() != x.data_ptr()
    loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2, 2]


def refusal(**settings: Any) -> str:
    with pytest.raises(Refused) as refused:
        registered("ppo", Path.cwd(), compile="on", **settings)
    return str(refused.value)


def test_without_a_compiler_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    said = refusal()
    assert "needs the compiler no-such-compiler" in said
    assert "install" in said
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    assert "needs the compiler g++" in refusal()
    registered("ppo", Path.cwd(), compile="off")


def test_a_gpu_needs_triton_and_a_compiler_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("CXX", "not-needed")
    said = " ".join(compiler.faults("cuda:0"))
    assert "no-such-compiler" in said
    assert "pip install triton" in said
    assert "not-needed" not in said
    assert "not-needed" in " ".join(compiler.faults("cpu"))


def test_what_is_not_compiled_is_refused() -> None:
    assert "policies with a memory are not compiled" in refusal(recurrent=True)
    assert "learner.accumulate" in refusal(pipeline="full", minibatches=1)


def test_the_setting_is_on_or_off() -> None:
    assert "compile must be one of off, on" in " ".join(PPO(compile="yes").out_of_range())  # type: ignore[arg-type]
