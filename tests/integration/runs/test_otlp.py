"""Spans of runs in a collector that talks OTLP by the protocol's own messages."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE, ROOT
from real_runs import Artos, Outcome
from tracker_packages import interpreter

from triggers.journal import read

RECEIVER = ROOT / "tests" / "support" / "otlp_receiver.py"
LEARNED = ("run", "ppo", "--env", "CartPole-v1", "--total-steps", "4096", "--run-dir", "runs/first")


@contextmanager
def collector(home: Path, *words: str) -> Iterator[tuple[str, Callable[[], list[Any]]]]:
    """A collector's address, and what it has received so far."""
    file = home / "spans.jsonl"
    receiver = subprocess.Popen(
        [interpreter(), "-P", RECEIVER, words[0], file, *words[1:]],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert receiver.stdout
        port = int(receiver.stdout.readline())
        yield (
            f"http://127.0.0.1:{port}",
            lambda: [json.loads(line) for line in file.read_text().splitlines()],
        )
    finally:
        receiver.kill()
        receiver.communicate()


def traced(home: Path, address: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OTEL_EXPORTER_OTLP_ENDPOINT": address}
    return subprocess.run(
        [interpreter(), "-P", "-m", "deploy.cli", "trace", "first", "--otlp", *words],
        cwd=home, env=environment | more, capture_output=True, text=True, timeout=PATIENCE,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_collector_has_what_the_journal_has(
    protocol: str, artos: Callable[..., Outcome], home: Path
) -> None:
    assert artos(*LEARNED, "--inline", "--json").status == 0
    with collector(home, protocol.partition("/")[0]) as (address, received):
        told = traced(home, address, "--json", OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
        assert told.returncode == 0, told.stderr
        found = received()
    sent = json.loads(told.stdout)
    lines = [*read(home / "runs/first/journal.jsonl")]
    fired, done = ([x for x in lines if kind in x] for kind in ("firing", "done"))
    by_id = {each["span"]: each for each in found}
    assert len(by_id) == len(found) == sent["spans"]
    assert (
        len({each["trace"] for each in found})
        == sent["traces"]
        == 1 + len({each["version"] for each in fired})
    )
    assert sum(each["name"].startswith("trigger ") for each in found) == len(fired)
    invoked = [each for each in found if each["kind"] == 5]  # consumers
    assert len(invoked) == len(done)
    for each in invoked:
        trigger = by_id[each["parent"]]
        assert trigger["name"] == f"trigger {each['name']}"
        assert by_id[trigger["parent"]]["name"] == "version"
        assert {e["trace"] for e in (each, trigger)} == {by_id[trigger["parent"]]["trace"]}
    for each in found:
        assert all(by_id[span]["trace"] == trace for trace, span in each["links"])
    updates = [each for each in found if each["name"] == "trigger learner.update"]
    assert all(
        {by_id[span]["name"] for _, span in each["links"]} == {"actors.sample"} for each in updates
    )
    wall = lines[0]["began"]
    assert all(wall - 60 < each["begin"] <= each["end"] for each in found)
    services = {each["resource"]["service.name"] for each in found}
    assert services >= {"artos.versions", "artos.triggers", "artos.learner", "artos.actors"}
    assert {each["resource"]["service.namespace"] for each in found} == {"first"}


@pytest.mark.long
@pytest.mark.processes
def test_a_run_is_followed_to_its_end(start: Callable[..., Artos], home: Path) -> None:
    words = ("run", "ppo", "--env", "CartPole-v1", "--actors", "1", "--total-steps", "20000000")
    training = start(*words, "--run-dir", "runs/first", "--json")
    training.until((home / "runs/first/journal.jsonl").exists)
    with collector(home, "http") as (address, received):
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "OTEL_EXPORTER_OTLP_ENDPOINT": address,
        }  # fmt: skip
        command = ["-P", "-m", "deploy.cli", "trace", "first", "--otlp", "--follow", "--json"]
        following = subprocess.Popen(
            [interpreter(), *command], cwd=home, env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            training.until((home / "spans.jsonl").exists)
            training.process.terminate()
            training.wait()
            told = json.loads(following.communicate(timeout=PATIENCE)[0])
        finally:
            following.kill()
            following.wait()
        found = received()
    lines = [*read(home / "runs/first/journal.jsonl")]
    assert len(found) == told["spans"]
    assert sum(each["kind"] == 5 for each in found) == sum("done" in line for line in lines)


@pytest.mark.long
def test_a_collector_that_does_not_take_them_is_named(
    artos: Callable[..., Outcome], home: Path
) -> None:
    assert artos(*LEARNED, "--inline", "--json").status == 0
    with collector(home, "http", "refuse") as (address, _):
        told = traced(home, address)
    assert told.returncode == 1
    assert f"the collector at {address} does not take the spans" in told.stderr
    nobody = traced(home, address, OTEL_EXPORTER_OTLP_TIMEOUT="1")
    assert nobody.returncode == 1
    assert f"the collector at {address} does not take the spans" in nobody.stderr
    assert "Traceback" not in told.stderr + nobody.stderr
    unknown = traced(home, address, OTEL_EXPORTER_OTLP_PROTOCOL="http/json")
    assert unknown.returncode == 2
    assert "http/protobuf, grpc" in unknown.stderr


def test_without_its_package_nothing_is_sent(artos: Callable[..., Outcome], home: Path) -> None:
    assert artos("run", "counting.py:workload", "--total-steps", "64", "--inline", "--run-dir",
                 "runs/first").status == 0  # fmt: skip
    refused = artos("trace", "first", "--otlp")
    assert refused.status == 2
    assert "pip install 'artos[otel]'" in refused.err
    assert artos("trace", "first", "--follow").status == 2
    assert artos("trace", "first", "--otlp", "-o", "x.json").status == 2
