"""What msgspec raises for bytes that are not what they should be: texts and depths count, too."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
