"""The limits that a shell or a service has set for this process (``ulimit``)."""

from __future__ import annotations

import resource

from artos.errors import Refused

_LEAST_FILES = 64
"""A run process opens some 20, and a few more for each actor."""
_LEAST_BYTES = 1 << 16


def check() -> None:
    """Make sure that a run can be begun at all.

    Raises:
        Refused: a limit is so low that a run could not even report its failure.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    size, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    faults = []
    if 0 <= files < _LEAST_FILES:
        faults.append(
            f"{files} files may be open at once here (ulimit -n): a run needs {_LEAST_FILES}"
        )
    if 0 <= size < _LEAST_BYTES:
        faults.append(
            f"files may have {size:,} bytes at most here (ulimit -f): a run writes larger ones"
        )
    if faults:
        raise Refused(faults)
