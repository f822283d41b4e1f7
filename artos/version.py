"""The version of this ARTOS: head and workers must have the same."""

from __future__ import annotations

from importlib.metadata import version

VERSION = version("artos")
