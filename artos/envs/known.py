"""Facts about environments that a process was given, so that it does not need to make one."""

from __future__ import annotations

from typing import Any

KNOWN: dict[str, Any] = {}
"""``EnvSpec`` as plain data, by the name of the environment."""
