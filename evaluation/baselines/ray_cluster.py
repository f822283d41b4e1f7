"""Starts Ray on this machine for scripts that use its core, and always shuts it down."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import ray

_SETTLE_SECONDS, _AT_REST = 180.0, 0.05
STANDING = "STANDING_RAY"
"""Environment variable: the address of a cluster that stands already, for ``cluster`` to join."""


def usual_priority() -> dict[str, str]:
    """The environment of a node whose workers have the usual priority.

    Ray makes them nice, 15: other work on the machine would slow them and not us.
    """
    return {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}


@contextmanager
def cluster(cpus: int, store_bytes: int = 1 << 30, preload: Sequence[str] = ()) -> Iterator[None]:
    """A Ray cluster with ``cpus`` logical CPUs; its files are in the temporary folder.

    It is the one that stands already, if there is one. Its workers import the modules ``preload``
    before they are given anything to do, and as many workers as CPUs are started ahead.
    """
    if standing := os.environ.get(STANDING):
        ray.init(address=standing, log_to_driver=False)
        try:
            yield
        finally:
            ray.shutdown()
        return
    os.environ.update(usual_priority())
    if preload:  # by default Ray starts as many ahead as there are cores
        os.environ["RAY_worker_maximum_startup_concurrency"] = str(cpus)  # noqa: SIM112
        os.environ["RAY_preload_python_modules"] = ",".join(preload)  # noqa: SIM112  # as Ray does
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=cpus,
            object_store_memory=store_bytes,
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=folder,
        )
        try:
            yield
        finally:
            ray.shutdown()


def settle(workers: int) -> None:
    """Wait until so many of Ray's processes wait for work and use no CPU; three minutes at most."""
    deadline, used = time.monotonic() + _SETTLE_SECONDS, 0.0
    while time.monotonic() < deadline:
        time.sleep(1.0)
        idle = _idle()
        before, used = used, sum(idle)
        if len(idle) >= workers and used - before < _AT_REST * len(idle):
            return


def _idle() -> list[float]:
    """CPU-seconds of each of Ray's processes that waits for work."""
    import psutil  # noqa: PLC0415  # Ray's own copy

    found = []
    for child in process(os.getpid()).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "ray::IDLE" in " ".join(child.cmdline()):
                found.append(sum(child.cpu_times()[:2]))
    return found


def results(calls: Sequence[Any], what: str, seconds: float) -> list[Any]:
    """The results of the calls, in order.

    Raises:
        SystemExit: some calls had not ended after ``seconds``; the message has ``what``.
        ray.exceptions.RayError: a call failed, or its actor died.
    """
    try:
        found: list[Any] = ray.get(list(calls), timeout=seconds)
    except ray.exceptions.GetTimeoutError:
        raise SystemExit(f"Ray: {what}: not done within {seconds:g} s") from None
    return found


def wait_for(calls: Sequence[Any], what: str, seconds: float) -> None:
    """Wait until all calls have ended, well or not, without fetching their results.

    Raises:
        SystemExit: some calls had not ended after ``seconds``.
    """
    _, late = ray.wait(list(calls), num_returns=len(calls), timeout=seconds, fetch_local=False)
    if late:
        raise SystemExit(f"Ray: {what}: {len(late)} of {len(calls)} not done within {seconds:g} s")


def first_of(calls: Sequence[Any], what: str, seconds: float) -> Any:
    """The first call to have ended, well or not.

    Raises:
        SystemExit: none had ended after ``seconds``.
    """
    ended, _ = ray.wait(list(calls), num_returns=1, timeout=seconds)
    if not ended:
        raise SystemExit(f"Ray: {what}: not done within {seconds:g} s")
    return ended[0]


def process(pid: int) -> Any:
    """The process in psutil; this is Ray's own copy of psutil, available once Ray is imported."""
    import psutil  # noqa: PLC0415

    return psutil.Process(pid)


def descendants() -> set[int]:
    """All descendants of this process, including Ray's workers."""
    return {child.pid for child in process(os.getpid()).children(recursive=True)}
