"""A language model of Transformers that learns to write texts, by low-rank adapters alone."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from contextlib import redirect_stderr
from copy import deepcopy
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from artos.envs.spec import EnvSpec
from artos.errors import Refused
from artos.policies.distributions import Categorical
from artos.policies.mapped_weights import mapped
from artos.policies.text import TextModule, at_ends, require_texts
from artos.policies.text_cache import LayerRead

LEARNING = ("q_proj", "k_proj", "v_proj", "o_proj")
"""What learns in each layer: the queries, keys, values and outputs of its attention."""


class LanguageModel(TextModule):
    """Scores each token to come by a causal language model and LoRA (Hu et al. 2021).

    ``file`` is a .gguf file, or a folder with a model of Transformers. Its weights are fixed and
    no parameters of this module: what is learned, published and saved are adapters of ``rank``,
    which begin as if there were none. All modules of all processes of a machine share them, as far
    as they are on the CPU: see ``mapped_weights``.

    Raises:
        Refused: the environment is no text, or not one of the model's tokens; packages are lacking,
            or they cannot read the file.
    """

    def __init__(self, spec: EnvSpec, file: str | Path, rank: int = 8) -> None:
        super().__init__()
        require_texts(spec, type(self).__name__)
        require_model(file, rank)
        from peft import LoraConfig, inject_adapter_in_model  # noqa: PLC0415  # an extra, and slow

        fixed, tokens = _fixed(Path(file)), spec.actions.sizes[0]
        config = fixed.config
        if tokens != config.vocab_size:
            raise Refused([_OTHER_TOKENS.format(file, config.vocab_size, tokens)])
        self.head = Categorical(tokens)
        each = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        heads = config.num_key_value_heads
        self.sizes = (config.num_hidden_layers, heads, heads * each)
        # Parameters of its own, in the memory that all models of this file share.
        shared = {id(each): nn.Parameter(each.detach(), False) for each in fixed.parameters()}
        model = deepcopy(fixed, shared)
        lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=list(LEARNING))
        try:
            inject_adapter_in_model(lora, model)
        except ValueError as error:
            raise Refused([f"model={file} cannot learn by LoRA: {error}"]) from error
        self._model = [model]  # in a list, so that its weights are no parameters of this module
        learned = ((name, p) for name, p in model.named_parameters() if p.requires_grad)
        self.adapters = nn.ParameterDict({name.replace(".", "/"): p for name, p in learned})

    def scores(self, text: Tensor, lengths: Tensor) -> Tensor:
        """As any ``TextModule``."""
        model = self._model[0]
        return _logits(model, at_ends(_seen(model, text), lengths))

    def read(self, tokens: Tensor, places: Tensor, read: Sequence[LayerRead]) -> Tensor:
        """As any ``TextModule``."""
        model = self._model[0]
        return _logits(model, _seen(model, tokens, position_ids=places, read=read)[:, -1])

    def _apply(self, fn: Any, recurse: bool = True) -> LanguageModel:
        """Move the fixed weights, too."""
        self._model[0]._apply(fn)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


def _seen(model: Any, tokens: Tensor, **more: Any) -> Tensor:
    found: Tensor = model.base_model(tokens, use_cache=False, **more).last_hidden_state
    return found


def _logits(model: Any, seen: Tensor) -> Tensor:
    found: Tensor = model.get_output_embeddings()(seen)
    return found


def require_model(file: str | Path, rank: int) -> None:
    """Refuse what no ``LanguageModel`` can be made of, before anything is read.

    Raises:
        Refused: the rank is below 1, there is no such file, or packages are lacking.
    """
    faults = []
    if rank < 1:
        faults.append(f"rank={rank}: adapters are at least of rank 1")
    if not Path(file).is_absolute() or not Path(file).exists():
        faults.append(_NO_FILE.format(file))
    if lacking := [name for name in ("transformers", "gguf", "peft") if find_spec(name) is None]:
        faults.append(_LACKING.format(", ".join(lacking)))
    if faults:
        raise Refused(faults)


@functools.cache
def _fixed(file: Path) -> Any:
    """The model of a file, in float32, with gradients of nothing."""
    from tqdm import tqdm  # noqa: PLC0415  # these are an extra, and slow
    from transformers import AttentionInterface, AutoModelForCausalLM  # noqa: PLC0415

    # Else threads of the loading and its bars outlive it, and this process may be forked.
    os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
    tqdm.monitor_interval = 0
    AttentionInterface.register(_ATTENTION, _attention)

    def read(path: Path) -> Any:
        folder, named = (path, {}) if path.is_dir() else (path.parent, {"gguf_file": path.name})
        return AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation=_ATTENTION, local_files_only=True,
            **named,
        )  # fmt: skip

    try:
        with torch.random.fork_rng(devices=[]), redirect_stderr(StringIO()):  # the bars
            model = mapped(file, read)
            model.eval().requires_grad_(False)
            tokens = torch.randint(model.config.vocab_size, (1, 8))
            alike = torch.allclose(model(tokens).logits, _logits(model, _seen(model, tokens)))
    except Exception as error:  # of any kind, if the file is broken
        raise Refused([f"model={file} cannot be read: {error}"]) from error
    if not alike:
        raise Refused([_OTHER_LOGITS.format(file, model.config.model_type)])
    return model


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, *,
    scaling: float, read: Sequence[LayerRead] | None = None, **more: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attention of a layer in Transformers, by which it ``read`` keys and values before."""
    if unknown := [name for name in ("sliding_window", "softcap", "s_aux") if more.get(name)]:
        raise ValueError(f"its attention has {', '.join(unknown)}, which is not had here")
    seen = None
    if read is not None:
        key, value, seen = read[module.layer_idx].take(key, value)
    met = scaled_dot_product_attention(
        query, key, value, attn_mask=seen, is_causal=seen is None, scale=scaling, enable_gqa=True
    )
    return met.transpose(1, 2), None


_ATTENTION = "artos"
_LACKING = "model= needs packages that are not here ({}): pip install 'artos[llm]'"
_NO_FILE = (
    "model={} is not there: write the path from the root of a .gguf file, or of a folder with a "
    "model of Transformers, that all machines of the run have"
)
_OTHER_LOGITS = (
    "model={} is of the kind {}, which makes more of its logits than its last layer: take another"
)
_OTHER_TOKENS = (
    "model={} writes {} tokens, but the environment has {}: let it show and take those of the model"
)
