"""Registration as a process: ``python -m artos.runtime.register_process REFERENCE_JSON SEED``.

The answer goes to standard output as JSON; whatever user code prints goes to standard error.
"""

from __future__ import annotations

import os
import sys

from artos.system.child import end_with_parent


def main() -> int:
    """Register what the command line names."""
    end_with_parent()
    answer = os.dup(1)
    os.dup2(2, 1)  # C code prints too, and must not mix with the answer
    # Only now what takes long to import: a parent that dies meanwhile takes this process along.
    from artos.runtime.register import register_text  # noqa: PLC0415

    with os.fdopen(answer, "wb") as out:
        out.write(register_text(sys.argv[1], int(sys.argv[2])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
