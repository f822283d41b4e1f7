"""Tests that only a GPU can fail: ``python -m pytest tests -k gpu -s`` runs all of them."""

from __future__ import annotations

import pytest
import torch

GPU = "cuda:0"

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU that torch can use (torch.cuda)"
)
