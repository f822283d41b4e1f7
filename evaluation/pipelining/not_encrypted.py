"""A transfer agent or replay process without encryption on TCP, to measure the cost of encryption.

``python -m evaluation.pipelining.not_encrypted ORDERS CONTROL_PIPE`` runs the transfer agent or the
replay process that the orders are for. Only this benchmark can start one without encryption.
"""

from __future__ import annotations

import json
import runpy
import sys

from artos.system.child_modules import ChildModule
from artos.transport import sockets
from artos.transport.keys import Keys

MODULE = "evaluation.pipelining.not_encrypted"


def main() -> None:
    """Run the process without keys."""
    orders = json.loads(sys.argv[1])
    sys.argv[1] = json.dumps(orders | {"keys": ""})
    _allow_tcp_without_keys()
    # Only the orders of a transfer agent have a node.
    module = ChildModule.AGENT if "node" in orders else ChildModule.REPLAY
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _allow_tcp_without_keys() -> None:
    limits = sockets._limits

    def as_if_here(endpoint: str, keys: Keys | None, largest: int, queue: int) -> sockets.Options:
        return limits(endpoint.replace("tcp:", "ipc:"), keys, largest, queue)

    sockets._limits = as_if_here


if __name__ == "__main__":
    main()
