"""A collector of OpenTelemetry, for a test: ``python otlp_receiver.py http|grpc FILE [refuse]``.

Takes requests by the protocol's own messages, and writes each span to the file as a line of JSON.
Prints its port. It needs `opentelemetry-proto`, and `grpcio` for gRPC.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from gzip import decompress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

FILE, REFUSES = Path(sys.argv[2]), "refuse" in sys.argv


def plain(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


def take(request: ExportTraceServiceRequest) -> None:
    """Write down all spans, with the resource that each is of."""
    with FILE.open("a") as file:
        for of in request.resource_spans:
            resource = {each.key: plain(each.value) for each in of.resource.attributes}
            for scoped in of.scope_spans:
                for span in scoped.spans:
                    about = {
                        "trace": span.trace_id.hex(), "span": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(), "name": span.name,
                        "kind": span.kind, "begin": span.start_time_unix_nano / 1e9,
                        "end": span.end_time_unix_nano / 1e9,
                        "links": [[link.trace_id.hex(), link.span_id.hex()] for link in span.links],
                        "status": span.status.code, "why": span.status.message,
                        "facts": {each.key: plain(each.value) for each in span.attributes},
                        "resource": resource, "scope": scoped.scope.name,
                    }  # fmt: skip
                    file.write(json.dumps(about) + "\n")


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        known = self.path == "/v1/traces" and not REFUSES
        if known:
            take(ExportTraceServiceRequest.FromString(body))
        self.send_response(200 if known else 400)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(ExportTraceServiceResponse().SerializeToString())

    def log_message(self, *_: object) -> None:
        pass


def over_grpc() -> None:
    import grpc  # noqa: PLC0415
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (  # noqa: PLC0415
        TraceServiceServicer,
        add_TraceServiceServicer_to_server,
    )

    class Service(TraceServiceServicer):
        def Export(  # noqa: N802
            self, request: Any, context: Any
        ) -> ExportTraceServiceResponse:
            take(request)
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(Service(), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


if sys.argv[1] == "grpc":
    over_grpc()
else:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        print(http.server_port, flush=True)
        http.serve_forever()
