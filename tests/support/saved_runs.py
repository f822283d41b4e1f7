"""Folders of runs that were never run: a configuration, and weights of one's choice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from artos.runs import checkpoint
from artos.runs.checkpoint import BEST, SAVED, Manifest
from artos.runs.plan import Plan


def saved_run(
    folder: Path, plan: Plan, more: Mapping[str, Any] | None = None, *, best: bool = False,
    version: int = 9, about: Mapping[str, Any] | None = None, **parameters: Any,
) -> Path:  # fmt: skip
    """A run of this plan whose weights are 0 but for these ``parameters``, by name.

    ``more`` are other arrays of its checkpoint, ``about`` other fields of the manifest.
    """
    arrays = {f"model.{name}": np.zeros(shape, np.float32) for name, shape in plan.layout}
    for name, value in parameters.items():
        arrays[f"model.{name}"][...] = value
    facts = {"workload": plan.name, "env": plan.env, "seed": 1, "steps": 64, "updates": version}
    manifest = Manifest(**{**facts, "version": version, **(about or {})})
    checkpoint.save(folder / (BEST if best else SAVED), {**arrays, **(more or {})}, manifest)
    config = {"workload": plan.name, "settings": {}, "folder": "", "env_spec": plan.env_spec}
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    return folder
