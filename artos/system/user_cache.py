"""Where this user's ARTOS keeps files that can be made or fetched again."""

from __future__ import annotations

import os
from pathlib import Path

_NOWHERE = Path(os.devnull)


def user_cache() -> Path:
    """A folder of the XDG cache, whether or not it exists.

    An account without a home, as in some containers, gets a folder in which nothing exists or can
    be made (``OSError``), unless ``XDG_CACHE_HOME`` names another.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "artos"


def user_state() -> Path:
    """As ``user_cache``, for what must last: a folder of the XDG state (``XDG_STATE_HOME``)."""
    return Path(os.environ.get("XDG_STATE_HOME") or _home() / ".local" / "state") / "artos"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return _NOWHERE
