"""Counts the node-seconds of a Ray cluster, without its first machine, until its input ends."""

from __future__ import annotations

import json
import sys
import threading
import time

import ray

_PAUSE = 0.5


def watch(over: threading.Event) -> float:
    """Node-seconds until it is ``over``."""
    held, last = 0.0, time.monotonic()
    while not over.wait(_PAUSE):
        there = sum(bool(node["Alive"]) for node in ray.nodes()) - 1
        now = time.monotonic()
        held += there * (now - last)
        last = now
    return held


if __name__ == "__main__":
    ray.init(log_to_driver=False)
    ended = threading.Event()

    def await_end() -> None:
        """The end of the input."""
        sys.stdin.read()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    print("it counts", flush=True)
    print(json.dumps(watch(ended)))
