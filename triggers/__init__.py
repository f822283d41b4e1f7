"""Trigger primitives bound to the buffer, and the engine that checks them (paper §4.2, Table 3).

Each name is imported when it is first used, so a module of this folder loads what it needs only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triggers.base import Trigger
    from triggers.data_key import DataKeyTrigger
    from triggers.events import Firing
    from triggers.pairs import And, Or
    from triggers.prewarm import PrewarmTrigger
    from triggers.primitives import ObjectKeyTrigger, TimeTrigger, TransferTrigger
    from triggers.replay import ReplayTrigger, RoundTrigger
    from triggers.updates import UpdateTrigger

__all__ = [
    "And",
    "DataKeyTrigger",
    "Firing",
    "ObjectKeyTrigger",
    "Or",
    "PrewarmTrigger",
    "ReplayTrigger",
    "RoundTrigger",
    "TimeTrigger",
    "TransferTrigger",
    "Trigger",
    "UpdateTrigger",
]

_MODULES = {
    "And": "triggers.pairs",
    "DataKeyTrigger": "triggers.data_key",
    "Firing": "triggers.events",
    "ObjectKeyTrigger": "triggers.primitives",
    "Or": "triggers.pairs",
    "PrewarmTrigger": "triggers.prewarm",
    "ReplayTrigger": "triggers.replay",
    "RoundTrigger": "triggers.replay",
    "TimeTrigger": "triggers.primitives",
    "TransferTrigger": "triggers.primitives",
    "Trigger": "triggers.base",
    "UpdateTrigger": "triggers.updates",
}


if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import a public name from the module it lives in, once."""
        if name not in _MODULES:
            raise AttributeError(f"module 'triggers' has no attribute {name!r}")
        found = getattr(import_module(_MODULES[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
