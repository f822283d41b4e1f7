"""``artos metrics``: what runs and nodes do, as numbers for Prometheus; printed, or served."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from artos.errors import ArtosError, Refused
from artos.runs.exit_status import ExitStatus
from artos.system.logging_setup import to_stderr
from artos.system.loopback import is_loopback
from deploy.cli.cluster import add_sources, runs_of
from deploy.cli.common import print_json
from deploy.cli.parser import Parser

if TYPE_CHECKING:
    from deploy.client.head_client import HeadClient
    from deploy.local.local_runs import LocalRuns
    from deploy.metrics.families import Family

_LEAST = 16
"""Characters of a token."""


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos metrics``."""
    parser.add_argument(
        "run", nargs="?", default="", metavar="RUN", help="this run alone, also one that is over"
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="answer GET /metrics there until Ctrl-C; port 0: any free one. default: print once",
    )
    parser.add_argument(
        "--token",
        type=Path,
        metavar="FILE",
        help="a file with the bearer token that scrapers must give; needed where HOST is not this "
        "machine's loopback",
    )
    parser.add_argument(
        "--board", action="store_true", help="print the dashboard for Grafana, as JSON"
    )
    add_sources(parser)
    parser.set_defaults(command=metrics)


def metrics(options: argparse.Namespace) -> int:
    """``artos metrics``: print what is known, or serve it."""
    from deploy.metrics.exposition import exposition  # noqa: PLC0415

    if options.board:
        from deploy.metrics.grafana import board  # noqa: PLC0415

        print_json(board())
        return ExitStatus.DONE
    exposition([])  # or refused now, not at each scrape
    if options.listen:
        return _serve(options)
    with runs_of(options, options.run) as client:
        found = _known(client, options.run)
    if options.json:
        print_json({"families": [family.plain for family in found]})
    else:
        print(exposition(found)[0].decode(), end="")
    return ExitStatus.DONE


def _known(client: HeadClient | LocalRuns, run: str) -> list[Family]:
    from deploy.metrics.families import families, families_of  # noqa: PLC0415

    return families_of(client.status(run)) if run else families(client.cluster())


def _serve(options: argparse.Namespace) -> int:
    from artos.clock import SystemClock  # noqa: PLC0415
    from deploy.metrics.server import Metrics, MetricsServer  # noqa: PLC0415

    host, port = _address(options.listen)
    token = _token(options.token)
    if not token and not is_loopback(host):
        raise Refused([f"--listen {options.listen}: others can read it there; give --token FILE"])
    source = _Source(options)
    try:
        source.look()
    except ArtosError as error:  # what is not there yet may come
        to_stderr(f"artos: nothing to tell yet: {error}")
    with MetricsServer(Metrics(source.look, SystemClock(), token), host, port) as server:
        if options.json:
            print_json({"address": server.address}, indent=-1)
        else:
            to_stderr(f"artos: metrics at {server.address} until Ctrl-C")
        try:
            server.serve()
        except KeyboardInterrupt:
            return ExitStatus.DONE
        finally:
            source.close()
    return ExitStatus.DONE


class _Source:
    """A connection that is made anew after an error: a head may come back."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._client: HeadClient | LocalRuns | None = None

    def look(self) -> list[Family]:
        """What is known now; raises what the client raises."""
        if self._client is None:
            self._client = runs_of(self._options, self._options.run, patient=False)
        try:
            return _known(self._client, self._options.run)
        except ArtosError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection. May be called twice."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise Refused([f"--listen {text}: write HOST:PORT, such as 127.0.0.1:9464"])
    return host, int(port)


def _token(path: Path | None) -> str:
    from artos.system.regular_file import contents  # noqa: PLC0415

    if path is None:
        return ""
    try:
        token = contents(path).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused([f"--token {path}: it cannot be read as text: {error}"]) from error
    if len(token) < _LEAST:
        raise Refused([f"--token {path}: a token has {_LEAST} characters or more"])
    return token
