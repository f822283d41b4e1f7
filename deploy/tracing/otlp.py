"""Sends the spans of a run to a collector of OpenTelemetry, by OTLP.

The SDK's own variables say where to and how: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``..._HEADERS``,
``..._PROTOCOL`` (``http/protobuf`` or ``grpc``), ``..._TIMEOUT``, and ``OTEL_RESOURCE_ATTRIBUTES``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from artos.errors import ArtosError, Refused
from artos.system.closing import Closing
from deploy.client.copied import goes_on
from deploy.tracing.file import require_time
from deploy.tracing.lines import SoundLines, config_of
from deploy.tracing.spans import Id, Span, Spans

_AT_ONCE = 512
"""Spans of one request: as many as the SDK's own processor takes."""
_HTTP = "http/protobuf"
_DEFAULTS = {_HTTP: "http://localhost:4318", "grpc": "http://localhost:4317"}


class CollectorFailed(ArtosError):
    """A collector did not take spans. Names the ``endpoint``."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        super().__init__(
            f"the collector at {endpoint} does not take the spans: see above why; "
            "OTEL_EXPORTER_OTLP_ENDPOINT says where it is (what was sent already may be sent again)"
        )


class Sent(msgspec.Struct, frozen=True):
    """What was sent: the number of spans and of traces, and where to."""

    endpoint: str
    spans: int
    traces: int
    damaged: int = 0
    """Lines of the journal that cannot be understood, and are left out."""


class Collector(Closing):
    """A collector of the spans of a ``run``.

    Raises:
        Refused: a package for it is missing, or it is to be talked to in a way that is not known.
    """

    def __init__(self, run: str) -> None:
        protocol = _asked("PROTOCOL") or _HTTP
        if protocol not in _DEFAULTS:
            known = ", ".join(_DEFAULTS)
            raise Refused([f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol} is not known here: {known}"])
        self.endpoint = _asked("ENDPOINT") or _DEFAULTS[protocol]
        try:
            from opentelemetry import trace  # noqa: PLC0415
            from opentelemetry.sdk import resources  # noqa: PLC0415
            from opentelemetry.sdk import trace as sdk  # noqa: PLC0415
            from opentelemetry.sdk.util import instrumentation  # noqa: PLC0415

            if protocol == _HTTP:
                from opentelemetry.exporter.otlp.proto.http import trace_exporter  # noqa: PLC0415
            else:
                from opentelemetry.exporter.otlp.proto.grpc import trace_exporter  # noqa: PLC0415
        except ImportError as error:
            more = "" if protocol == _HTTP else " opentelemetry-exporter-otlp-proto-grpc"
            raise Refused([f"OTLP needs its package: pip install 'artos[otel]'{more}"]) from error
        self._api, self._sdk, self._resource = trace, sdk, resources.Resource.create
        self._exporter = trace_exporter.OTLPSpanExporter()
        self._scope = instrumentation.InstrumentationScope("artos", version("artos"))
        self._run, self._resources = run, dict[tuple[str, str], Any]()

    def send(self, spans: Sequence[Span]) -> None:
        """Send spans.

        Raises:
            CollectorFailed: they were not taken.
        """
        if spans and self._exporter.export([self._readable(span) for span in spans]).value != 0:
            raise CollectorFailed(self.endpoint)

    def close(self) -> None:
        """Take leave of the collector. May be called twice."""
        self._exporter.shutdown()

    def _readable(self, span: Span) -> Any:
        """A span as the SDK has it; a role is a service, and its members are instances of it."""
        status, code, whose = self._api.Status, self._api.StatusCode, (span.role, span.member)
        if whose not in self._resources:
            about = {"service.namespace": self._run, "service.name": f"artos.{span.role}"}
            self._resources[whose] = self._resource(about | {"service.instance.id": span.member})
        return self._sdk.ReadableSpan(
            name=span.name,
            context=self._context(span.id),
            parent=span.parent and self._context(span.parent),
            resource=self._resources[whose],
            attributes={f"artos.{name}": value for name, value in span.facts.items()},
            links=[self._api.Link(self._context(of)) for of in span.links],
            kind=self._api.SpanKind[span.kind.upper()],
            instrumentation_scope=self._scope,
            status=status(code.ERROR, span.failed) if span.failed else status(),
            start_time=round(span.begin * 1e9),
            end_time=round(span.end * 1e9),
        )

    def _context(self, of: Id) -> Any:
        flags = self._api.TraceFlags(self._api.TraceFlags.SAMPLED)
        return self._api.SpanContext(of.trace, of.span, is_remote=False, trace_flags=flags)


def send(folder: Path, since: float, until: float, wait: Callable[[], None] | None = None) -> Sent:
    """Send what the run in ``folder`` did from ``since`` to ``until``, in seconds.

    With ``wait``, which is called where nothing is new, until the run is over.

    Raises:
        Refused: there is no run, it cannot be read, no time is left, a package is missing.
        CollectorFailed: the spans were not taken.
    """
    require_time(since, until)
    config, name = config_of(folder), folder.resolve().name
    spans = Spans(f"{name}/{config.seed}/{config.origin}", config.begins)
    waiting, traces, count = list[Span](), set[int](), 0
    lines = SoundLines(folder)
    with Collector(name) as collector:

        def flush() -> None:
            collector.send(waiting)
            waiting.clear()

        def idle() -> None:
            flush()
            if wait:
                wait()

        told = spans.of(_following(lines, folder, idle if wait else None))
        for span in chain(told, spans.rest()):
            if since <= span.after and span.after - (span.end - span.begin) <= until:
                waiting.append(span)
                traces.add(span.id.trace)
                count += 1
            if len(waiting) == _AT_ONCE:
                flush()
        flush()
        return Sent(collector.endpoint, count, len(traces), lines.damaged)


def _following(
    lines: SoundLines, folder: Path, idle: Callable[[], None] | None
) -> Iterator[dict[str, Any]]:
    live = True
    while live:
        live = idle is not None and goes_on(folder)
        yield from lines
        if idle and live:
            idle()


def _asked(what: str) -> str:
    """A variable of the SDK, first that for traces, then that for all."""
    return os.environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{what}") or os.environ.get(
        f"OTEL_EXPORTER_OTLP_{what}", ""
    )
