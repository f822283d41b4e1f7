"""The experiment trackers that there are; each is one file, most of them beside this one."""

from __future__ import annotations

import importlib.util
import os
import secrets
from pathlib import Path

from artos.errors import Refused
from deploy.tracking import mlflow
from head.records.tensorboard import TensorBoard
from head.records.tracker import Tracked, Tracker

_TENSORBOARD = "tensorboard"
NAMES = (_TENSORBOARD, "wandb", "mlflow", "trackio")
"""But for the first one, which needs none, the names of their packages, and of their extras."""
UNNAMED = "artos"
"""The project of runs for which nobody names one."""
_NAMES_PROJECT = {"wandb": "WANDB_PROJECT", "mlflow": "MLFLOW_EXPERIMENT_NAME"}
"""The trackers' own variables."""


def require(name: str) -> None:
    """Check that a tracker of that name can be used.

    Raises:
        Refused: it is not known, or its package is missing.
    """
    if name not in NAMES:
        raise Refused([f"there is no tracker {name!r}: choose {', '.join(NAMES)}"])
    if name != _TENSORBOARD and importlib.util.find_spec(name) is None:
        raise Refused([f"{name} needs its package: pip install 'artos[{name}]'"])


def place(name: str) -> str:
    """Where the tracker of that name keeps runs, by its variables and the working directory."""
    told = os.environ.get
    match name:
        case "tensorboard":
            return _tensorboard().as_uri()
        case "mlflow":
            return mlflow.place()
        case "trackio":
            return Path(told("TRACKIO_DIR") or "~").expanduser().absolute().as_uri()
        case _:  # what is kept offline is sent there in the end
            return (
                f"{told('WANDB_BASE_URL') or 'https://api.wandb.ai'}/{told('WANDB_ENTITY') or ''}"
            )


def project(name: str) -> str:
    """The project in the tracker of that name if the user names none."""
    return os.environ.get(_NAMES_PROJECT.get(name, "")) or UNNAMED


def _tensorboard() -> Path:
    return Path(os.environ.get("TENSORBOARD_LOGGING_DIR") or _TENSORBOARD).absolute()


def opened(name: str, tracked: Tracked) -> Tracker:
    """The run in the tracker of that name; raises what ``require`` raises."""
    require(name)
    if name == _TENSORBOARD:
        folder = _tensorboard() / tracked.project
        taken = not tracked.id and (folder / tracked.name).exists()
        name = f"{tracked.name}-{secrets.token_hex(2)}" if taken else tracked.name
        return TensorBoard(folder / (tracked.id or name), tracked)
    if name == "wandb":
        from deploy.tracking.wandb import WeightsAndBiases  # noqa: PLC0415

        return WeightsAndBiases(tracked)
    if name == "mlflow":
        return mlflow.MLflow(tracked)
    from deploy.tracking.trackio import Trackio  # noqa: PLC0415

    return Trackio(tracked)
