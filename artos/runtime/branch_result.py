"""What came of an order to branch, as it is written into the run's folder."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from artos.protocol.invocations import Branch, Branched
from artos.system.durable import write_durably

if TYPE_CHECKING:
    from artos.runtime.branching import Found

_log = logging.getLogger(__name__)
_NOTHING = Branched()


def result(
    actor: int,
    order: Branch,
    fault: str = "",
    said: Branched = _NOTHING,
    children: Iterable[Found] = (),
) -> bytes:
    """What is written of an order, as JSON: what the actor ``said``, and its continuations."""
    return msgspec.json.encode(
        {
            "actor": actor,
            "env": order.env,
            "by": said.way,
            "row": said.row,
            "version": said.version,
            "digest": said.digest,
            "so_far": {"return": said.total, "steps": said.steps},
            "children": [
                {
                    "return": None if child.fault else child.total,
                    "steps": child.steps,
                    "ended": child.ended,
                    "seed": child.seed,
                    "digest": child.digest,
                    "version": child.version,
                    "weights": order.weights,
                    "made": child.made,
                    "fault": child.fault,
                }
                for child in children
            ],
            "fault": fault,
        }
    )


def keep(file: Path, data: bytes) -> None:
    """Write it down where whoever asked waits for it."""
    try:
        write_durably(file, data)
    except OSError as error:
        _log.warning("%s cannot be written: %s", file, error.strerror)
