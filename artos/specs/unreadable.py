"""The exceptions that msgspec raises for bytes it cannot decode, also for bad UTF-8 and depth."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
