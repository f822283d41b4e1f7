"""An executor with its transfer agent, to be killed: says what it holds, then sleeps."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import msgspec
from two_nodes import Side, value

from artos.clock import SystemClock
from artos.runs.plan import Plan
from workers.executor.agent_host import AgentHost

ROWS = 23


def main() -> None:
    """Write rows that no trigger asks for and wait for the end."""
    given = json.loads(sys.argv[1])
    plan = msgspec.json.decode(given["plan"], type=Plan)
    side = Side(plan, "executor", Path(given["logs"]), [0])
    host = AgentHost(
        plan, side.site, side.plan_file, given["endpoint"], Path(given["keys"]), "node", 1,
        SystemClock(), side.folder.lock,
    )  # fmt: skip
    host.start()
    host.terms({0: 1})
    block = side.blocks[0]
    start = block.allocate(ROWS, 0)
    for step in range(start, start + ROWS):
        for name, array in block.arrays.items():
            row = array[block.index(step)]
            array[block.index(step)] = value(0, name, step, row.shape)
    block.commit(start + ROWS)
    print(json.dumps({"folder": side.site.folder, "agent": host.pids()["agent"]}), flush=True)
    time.sleep(600)


main()
