"""What a run's ``config.json`` says of how the run was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from artos.clock import LONGEST
from artos.errors import CheckpointFault
from artos.specs.configuration import Configuration
from artos.specs.fields import Count, PathText, check_plain
from artos.specs.reference import RecordedFolder
from artos.specs.unreadable import UNREADABLE
from artos.system.regular_file import contents
from artos.system.seal import is_sealed, seal

CONFIG, CONFIGURATION = "config.json", "configuration"
"""The file, and its field with what ``artos set`` has changed."""
_SEAL = "seal"
DEADLINE = 300.0
"""Seconds that actors and learners may take to answer, unless a run is asked for with others."""


class RunConfig(msgspec.Struct, frozen=True):
    """The part that every reader of a run needs; what else a reader needs is a field of its own."""

    workload: PathText
    settings: dict[str, Any]
    folder: RecordedFolder
    seed: Count = 1
    inline: bool = False
    deadline: Annotated[float, Meta(gt=0, le=LONGEST)] = DEADLINE
    algorithm: str = ""
    env: str = ""
    resumed: tuple[dict[str, Any], ...] = ()
    versions: dict[str, str] = {}
    configuration: Configuration = Configuration()

    def __post_init__(self) -> None:
        check_plain(self.settings)


def sealed(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration as JSON has it, with a seal that shows that this account wrote it."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config))
    plain.pop(_SEAL, None)
    return plain | {_SEAL: seal(_text(plain))}


def is_own(config: Mapping[str, Any]) -> bool:
    """Whether this account's ARTOS wrote what was read of a ``config.json``."""
    plain = dict(config)
    found = plain.pop(_SEAL, "")
    return isinstance(found, str) and found.isascii() and is_sealed(_text(plain), found)


def _text(config: dict[str, Any]) -> str:
    return msgspec.json.encode(config).decode()


C = TypeVar("C", bound=RunConfig)


def read(run: Path, kind: type[C]) -> tuple[dict[str, Any], C]:
    """All of a run's ``config.json``, and what is needed of it, checked.

    Raises:
        OSError: there is none that can be read.
        CheckpointFault: it is damaged; names the wrong field.
    """
    try:
        text = contents(run / CONFIG)
        return msgspec.json.decode(text, type=dict[str, Any]), msgspec.json.decode(text, type=kind)
    except UNREADABLE as error:
        raise CheckpointFault(str(run), f"{CONFIG} is damaged: {error}") from error
