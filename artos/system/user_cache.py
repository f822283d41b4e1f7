"""Where this user's ARTOS keeps files that can be made or fetched again."""

from __future__ import annotations

import os
from pathlib import Path

_NOWHERE = Path(os.devnull)


def user_cache() -> Path:
    """A folder of the XDG cache, whether or not it exists.

    An account without a home, as in some containers, has a folder in which nothing exists or can
    be made (``OSError``), unless ``XDG_CACHE_HOME`` names another one.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "artos"


def user_state() -> Path:
    """A folder for what must last, in the XDG state (``XDG_STATE_HOME``), as ``user_cache``."""
    return Path(os.environ.get("XDG_STATE_HOME") or _home() / ".local" / "state") / "artos"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return _NOWHERE
