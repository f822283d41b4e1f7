"""What a process that was forked, or started anew, knows about itself; printed as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from artos.system import child


def main() -> int:
    """Print it; with the argument ``stay`` wait for a signal."""
    facts = {
        "pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0),
        "forked": child.forked, "arguments": sys.argv[1:], "threads": os.environ["OMP_NUM_THREADS"],
        "marked": "marked_module" in sys.modules, "input": sys.stdin.read(),
        "open": sorted(int(link.name) for link in Path("/proc/self/fd").iterdir())[:-1],
    }  # fmt: skip
    print(json.dumps(facts), flush=True)
    if "stay" in sys.argv:
        signal.pause()
    return 5


if __name__ == "__main__":
    sys.exit(main())
