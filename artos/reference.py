"""Where a workload comes from."""

from __future__ import annotations

from typing import Any

import msgspec


class Reference(msgspec.Struct, frozen=True):
    """``module:object`` or ``/path/file.py:object``, and its settings.

    ``folder`` is the user's folder; it comes first on the import path of user processes.
    """

    source: str
    settings: dict[str, Any] = {}
    folder: str = ""
