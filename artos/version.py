"""Which ARTOS this is: head and workers must be the same."""

from __future__ import annotations

from importlib.metadata import version

VERSION = version("artos")
