"""``GET /metrics``: who is answered, with what, and how often the source is asked."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from artos.clock import ManualClock, SystemClock
from artos.errors import NoSuchRun, Refused
from artos.protocol.views import ClusterView, NodeView
from deploy.metrics.families import Family, families
from deploy.metrics.server import Metrics, MetricsServer

TOLD = families(ClusterView(nodes=(NodeView(name="here", alive=True, slots=2),)))


@contextmanager
def serving(metrics: Metrics, host: str = "127.0.0.1") -> Iterator[MetricsServer]:
    with MetricsServer(metrics, host, 0) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()


def got(address: str, **headers: str) -> tuple[int, str, str]:
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_a_scraper_is_answered_in_the_format_that_it_asks_for() -> None:
    with serving(Metrics(lambda: TOLD, SystemClock())) as server:
        status, kind, text = got(server.address)
        assert (status, kind.split(";")[0]) == (200, "text/plain")
        assert 'artos_node_slots{node="here"} 2.0' in text
        _, kind, text = got(server.address, Accept="application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        assert text.endswith("# EOF\n")


def test_over_ipv6_too() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        with serving(Metrics(lambda: TOLD, SystemClock()), "::1") as server:
            assert got(server.address)[0] == 200
    except Refused as error:
        pytest.skip(f"no IPv6 loopback here: {error}")


def test_a_port_that_is_taken_is_refused() -> None:
    with (
        serving(Metrics(lambda: TOLD, SystemClock())) as server,
        pytest.raises(Refused, match="something listens there already"),
    ):
        MetricsServer(
            Metrics(lambda: TOLD, SystemClock()), "127.0.0.1", urlsplit(server.address).port or 0
        )


def test_there_is_nothing_else() -> None:
    with serving(Metrics(lambda: TOLD, SystemClock())) as server:
        assert got(server.address.replace("/metrics", "/etc/passwd"))[0] == 404
        request = urllib.request.Request(server.address, data=b"x", method="POST")
        with pytest.raises(urllib.error.HTTPError, match="405") as refused:
            urllib.request.urlopen(request, timeout=30)
        refused.value.close()


def test_the_token_is_needed_and_told_to_nobody() -> None:
    with serving(Metrics(lambda: TOLD, SystemClock(), "s" * 20)) as server:
        for wrong in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s" * 20}):
            status, _, text = got(server.address, **wrong)
            assert (status, "artos_" in text, "sss" in text) == (401, False, False)
        assert got(server.address, Authorization=f"Bearer {'s' * 20}")[0] == 200


def test_a_source_that_goes_away_is_said_and_comes_back() -> None:
    there = [True]

    def look() -> list[Family]:
        if not there[0]:
            raise NoSuchRun("first", "here")
        return TOLD

    clock = ManualClock()
    metrics = Metrics(look, clock)
    assert metrics.answer("/metrics")[0] == "200 OK"
    there[0] = False
    clock.advance(2.0)
    status, _, body = metrics.answer("/metrics")
    assert status.startswith("503")
    assert b"NoSuchRun" in body
    there[0] = True
    assert metrics.answer("/metrics")[0] == "200 OK"


def test_many_scrapers_ask_the_source_once_a_second() -> None:
    asked = []

    def look() -> list[Family]:
        asked.append(1)
        return TOLD

    clock = ManualClock()
    metrics = Metrics(look, clock)
    for _ in range(20):
        metrics.answer("/metrics")
    assert len(asked) == 1
    clock.advance(1.0)
    metrics.answer("/metrics")
    assert len(asked) == 2


def test_a_scraper_that_says_nothing_keeps_nobody_waiting() -> None:
    with (
        serving(Metrics(lambda: TOLD, SystemClock())) as server,
        socket.create_connection(("127.0.0.1", int(server.address.split(":")[2].split("/")[0]))),
    ):
        assert got(server.address)[0] == 200


def test_the_board_is_valid_json_with_a_query_for_each_line() -> None:
    from deploy.metrics.grafana import PANELS, board  # noqa: PLC0415

    plain = json.loads(json.dumps(board()))
    assert [panel["title"] for panel in plain["panels"]] == [panel.title for panel in PANELS]
    assert len({panel["id"] for panel in plain["panels"]}) == len(PANELS)
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in plain["panels"]}
    assert len(places) == len(PANELS)
