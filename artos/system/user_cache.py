"""Where this user's ARTOS keeps what can be had again."""

from __future__ import annotations

import os
from pathlib import Path

_NOWHERE = Path(os.devnull)


def user_cache() -> Path:
    """A folder of the XDG cache, there or not.

    An account without a home, as containers have them, gets one in which nothing is found and
    nothing can be made (``OSError``) unless ``XDG_CACHE_HOME`` names a better one.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "artos"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return _NOWHERE
