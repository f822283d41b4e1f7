"""Why a head cannot be reached, as errors: there is none, or the keys do not fit."""

from __future__ import annotations

from pathlib import Path

from artos.errors import NoHead, WrongKeys
from artos.transport.handshakes import LinkFault


def unreachable(fault: LinkFault, head: str, keys: Path, me: str) -> NoHead | WrongKeys:
    """Why ``me`` (such as "user ann") cannot reach the head with the keys in ``keys``."""
    match fault:
        case LinkFault.NOBODY:
            return NoHead(head, "nothing listens there")
        case LinkFault.NO_HEAD:
            return NoHead(head, "something else listens there")
        case LinkFault.OTHER_HEAD:
            why = "it hangs up, so head.key is not its key: copy its own key (if it is a head)"
            return WrongKeys(head, str(keys), why)
        case LinkFault.UNKNOWN_KEY:
            why = f"it does not accept the key of {me}, which was revoked or is another cluster's"
            return WrongKeys(head, str(keys), f"{why}: have a key made on the head (`artos keys`)")
