"""The rights that CRIU needs, of a user who has none: those over a user namespace of its own."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from artos.errors import CriuUnavailable
from artos.system import user_namespace
from workers.checkpoint.criu.find import find_criu
from workers.checkpoint.tiers import NAMESPACE_MADE, OF_A_USER, complaint, rights_missing


def with_own_rights() -> Sequence[str]:
    """What runs a command so that CRIU works in it; () if it does without that, or cannot.

    The command sees the files that it would see, and all of them as far as it could before; what
    belongs to others seems to belong to nobody. Programs in it cannot raise their rights (sudo).
    """
    return () if own_rights_missing() else _entry()


@functools.cache
def own_rights_missing() -> str:
    """Why a command gets no rights of its own: it needs none, there is no CRIU, or no namespace."""
    if os.geteuid() == 0 or not rights_missing():
        return "none are needed"
    try:
        find_criu()
    except CriuUnavailable as error:
        return error.reason
    return complaint(*_entry(), *NAMESPACE_MADE)


def _entry() -> Sequence[str]:
    rights = ",".join(map(str, OF_A_USER.values()))
    return (sys.executable, "-I", "-S", str(Path(user_namespace.__file__)), "own", rights)
