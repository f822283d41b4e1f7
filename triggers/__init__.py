"""Trigger primitives bound to the buffer, and the engine that checks them (paper §4.2, Table 3)."""

from triggers.base import And, Firing, Or, Trigger
from triggers.data_key import DataKeyTrigger
from triggers.object_key import ObjectKeyTrigger
from triggers.time import TimeTrigger
from triggers.transfer import TransferTrigger

__all__ = [
    "And",
    "DataKeyTrigger",
    "Firing",
    "ObjectKeyTrigger",
    "Or",
    "TimeTrigger",
    "TransferTrigger",
    "Trigger",
]
