"""Trigger primitives bound to the buffer, and the engine that checks them (paper §4.2, Table 3)."""

from triggers.base import And, Firing, Or, Trigger
from triggers.primitives import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger, TransferTrigger
from triggers.replay import ReplayTrigger, RoundTrigger
from triggers.updates import UpdateTrigger

__all__ = [
    "And",
    "DataKeyTrigger",
    "Firing",
    "ObjectKeyTrigger",
    "Or",
    "ReplayTrigger",
    "RoundTrigger",
    "TimeTrigger",
    "TransferTrigger",
    "Trigger",
    "UpdateTrigger",
]
