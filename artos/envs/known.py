"""Facts about environments that a process was told, so that it need not make one to find them."""

from __future__ import annotations

from typing import Any

KNOWN: dict[str, Any] = {}
"""``EnvSpec`` as plain data, by the name of the environment."""
