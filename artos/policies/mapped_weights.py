"""Weights of a language model as a file that processes map: all of a machine share its pages.

Transformers maps a file of safetensors if it is in the dtype that is wanted, and copies all others.
So what was read once is kept in that form in the user's cache, by a checksum of the model's files.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from copy import copy
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from xxhash import xxh3_128

from artos.system.kept_weights import draft_of, kept, used
from artos.system.private_folder import keep
from artos.system.regular_file import opened

_log = logging.getLogger(__name__)


def mapped(file: Path, read: Callable[[Path], Any]) -> Any:
    """The model that ``read`` makes of a file, or of a folder of Transformers, in shared memory.

    It is read twice the first time. Where the cache cannot be written to, each process has weights
    of its own, and a warning says so.

    Raises:
        OSError: the file cannot be read.
    """
    folder = kept(_checksum(file))
    model = None if folder.is_dir() else read(file)
    try:
        keep(folder.parent)  # or another user may have put it there
        if model is not None:
            _write(model, folder)
        used(folder)
    except Exception as error:  # whatever a model raises when it is saved; it was read
        _log.warning("each process has all weights of %s in its own memory: %s", file, error)
        return model or read(file)
    return read(folder)


def _write(model: Any, folder: Path) -> None:
    """Make the folder, unless another process is faster."""
    # The same tensors as a model that says nothing of how they were stored: it can be saved.
    config = copy(model.config)
    vars(config).pop("quantization_config", None)
    with torch.device("meta"):
        plain = type(model)(config)
    plain.load_state_dict(model.state_dict(), assign=True)
    with draft_of(folder) as draft:
        if draft is None:
            return
        plain.save_pretrained(draft)
        for path in draft.iterdir():
            with opened(path, "r+b") as file:
                os.fsync(file.fileno())


def _checksum(file: Path) -> str:
    """That of the files, and of who reads them."""
    found = xxh3_128(version("transformers").encode())
    for path in sorted(file.iterdir()) if file.is_dir() else [file]:
        if path.is_file():
            with opened(path) as content:
                size = os.fstat(content.fileno()).st_size
                found.update(f"/{path.name}/{size}/".encode())
                if size:
                    found.update(np.memmap(content, np.uint8, "r").data)
    return found.hexdigest()
