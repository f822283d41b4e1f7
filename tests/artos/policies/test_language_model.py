"""A language model acts by what the learner finds later, and learns by its adapters alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from language_models import needs_llm, small

from artos.envs.make import describe
from artos.errors import Refused
from artos.policies import language_model
from artos.policies.acting import ActInfo, Declared
from artos.policies.build import check_policy
from artos.policies.fast import TextActor, make_actor
from artos.policies.language_model import LanguageModel
from artos.policies.text import lengths_of
from artos.specs.keys import OBSERVATIONS

SPEC = describe("ReverseText-v0(digits=3)")
TEXTS = torch.tensor([[3, 1, 2, 11, 0, 0, 0], [9, 9, 1, 11, 4, 5, 0], [1, 2, 3, 11, 7, 0, 0]])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where weights are kept to be mapped: not in that of whoever runs the tests."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "artos" / "weights"


def made(file: Path, seed: int = 0) -> LanguageModel:
    torch.manual_seed(seed)
    return LanguageModel(SPEC, file, rank=2)


def learned(file: Path, seed: int = 0) -> LanguageModel:
    """One whose adapters are those of no beginning."""
    policy = made(file, seed)
    with torch.no_grad():
        for each in policy.parameters():
            each.normal_()
    return policy


def flat(policy: LanguageModel) -> Any:
    return np.concatenate([each.detach().numpy().ravel() for each in policy.parameters()])


@needs_llm
def test_it_begins_as_the_model_of_the_file(file: Path) -> None:
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    theirs, lengths = AutoModelForCausalLM.from_pretrained(file), lengths_of(TEXTS)
    found = made(file).scores(TEXTS, lengths[:, None])[:, 0]
    wanted = theirs(TEXTS).logits[torch.arange(3), lengths - 1]
    torch.testing.assert_close(found, wanted)


@needs_llm
def test_what_was_read_once_has_the_probabilities_that_the_learner_finds(file: Path) -> None:
    """Also where texts have been written on by different numbers of tokens."""
    learner, lengths = learned(file, 1), lengths_of(TEXTS)
    actor = make_actor(made(file), SPEC, seed=4)
    assert type(actor) is TextActor
    actor.bind(flat(learner))
    texts, rows = TEXTS.clone(), torch.arange(3)
    assert not torch.allclose(made(file).scores(texts, lengths[:, None]),
                              learner.scores(texts, lengths[:, None]), atol=0.1)  # fmt: skip
    while (lengths < SPEC.parts[0].shape[0]).all():
        acted = actor.act({OBSERVATIONS: texts.numpy()}, ActInfo())
        logs = learner.scores(texts, lengths[:, None])[:, 0].log_softmax(-1)
        found = logs[rows, torch.from_numpy(acted["actions"])]
        np.testing.assert_allclose(acted["log_probs"], found.detach().numpy(), atol=1e-5)
        texts[rows, lengths] = torch.from_numpy(acted["actions"]).clamp(min=1)
        texts[1, lengths[1] + 1 :][:1] = 11  # its environment answers
        lengths = lengths_of(texts)


@needs_llm
def test_versions_hold_the_adapters_and_the_rest_is_in_memory_once(file: Path) -> None:
    one, other = made(file), made(file)
    width, rank, layers, narrow = 24, 2, 2, 12
    each = (width, width), (width, narrow), (width, narrow), (width, width)  # q, k, v, o
    assert len(flat(one)) == layers * rank * sum(map(sum, each))
    assert not list(one.buffers())
    np.testing.assert_array_equal(flat(one), flat(other))
    assert (flat(one) != flat(made(file, 1))).any()
    fixed = [
        {n: p for n, p in policy._model[0].named_parameters() if not p.requires_grad}
        for policy in (one, other)
    ]
    assert all(fixed[1][name].data_ptr() == p.data_ptr() for name, p in fixed[0].items())
    one.scores(TEXTS, lengths_of(TEXTS)[:, None]).sum().backward()
    assert all(p.grad is not None for p in one.parameters())
    assert all(p.grad is None for p in fixed[0].values())
    one.double()  # wherever it is moved, others stay
    assert one.scores(TEXTS, lengths_of(TEXTS)[:, None]).dtype == torch.float64
    assert other.scores(TEXTS, lengths_of(TEXTS)[:, None]).dtype == torch.float32


def mapping_of(address: int) -> str:
    """The file that lies at an address of this process, or ""."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, _, _, _, *path = line.split(maxsplit=5)
        begin, end = (int(each, 16) for each in span.split("-"))
        if begin <= address < end:
            return path[0] if path else ""
    return ""


@needs_llm
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_processes_map_one_file(dtype: torch.dtype, tmp_path: Path, cache: Path) -> None:
    """Whatever the model's own dtype is, which is kept in another one here."""
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    AutoModelForCausalLM.from_pretrained(small(tmp_path / "m"), dtype=dtype).save_pretrained(
        tmp_path / "other"
    )
    theirs = dict(AutoModelForCausalLM.from_pretrained(tmp_path / "other").named_parameters())
    for _ in range(2):
        language_model._fixed.cache_clear()
        model = language_model._fixed(tmp_path / "other")
        for name, each in model.named_parameters():
            assert Path(mapping_of(each.data_ptr())).is_relative_to(cache)
            torch.testing.assert_close(each.detach(), theirs[name].detach().float(), atol=0, rtol=0)


@needs_llm
def test_without_a_cache_there_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    policy = made(small(tmp_path))
    (said,) = caplog.messages
    assert said.startswith(f"each process has all weights of {tmp_path} in its own memory: ")
    assert policy.scores(TEXTS, lengths_of(TEXTS)[:, None]).isfinite().all()


@needs_llm
def test_it_is_a_policy_of_texts_of_its_own_tokens(file: Path) -> None:
    assert not check_policy(made(file), SPEC, Declared.by(LanguageModel, lambda: made(file)))
    other = msgspec.structs.replace(
        SPEC,
        parts=(msgspec.structs.replace(SPEC.parts[0], sizes=(5,) * 7),),
        actions=msgspec.structs.replace(SPEC.actions, sizes=(5,)),
    )
    with pytest.raises(Refused, match="writes 12 tokens, but the environment has 5"):
        LanguageModel(other, file)


@needs_llm
@pytest.mark.parametrize(
    ("kind", "sizes", "why"),
    [
        ("mistral", {"sliding_window": 3}, "cannot be read: its attention has sliding_window"),
        ("granite", {"logits_scaling": 2.0}, "which makes more of its logits than its last layer"),
        ("gpt2", {}, "cannot learn by LoRA: "),
    ],
)
def test_models_of_other_kinds(kind: str, sizes: dict[str, Any], why: str, tmp_path: Path) -> None:
    """Rather than act by something that is not what the file holds."""
    with pytest.raises(Refused, match=why):
        LanguageModel(SPEC, small(tmp_path, kind, **sizes))


@needs_llm
def test_files_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read: "):
        LanguageModel(SPEC, tmp_path)
    (tmp_path / "model.gguf").write_bytes(b"GGUF and nothing else")
    with pytest.raises(Refused, match="cannot be read: "):
        LanguageModel(SPEC, tmp_path / "model.gguf")


def test_what_lacks_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_model, "find_spec", lambda name: None)
    with pytest.raises(Refused) as refused:
        LanguageModel(SPEC, "model.gguf", rank=0)
    rank, there, packages = refused.value.faults
    assert rank == "rank=0: adapters are at least of rank 1"
    assert there.startswith("model=model.gguf is not there: write the path from the root of a .gg")
    assert packages.endswith("(transformers, gguf, peft): pip install 'artos[llm]'")
