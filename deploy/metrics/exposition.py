"""Families of metrics as the text that Prometheus reads, written by its own library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import TYPE_CHECKING

from artos.errors import Refused
from deploy.metrics.families import Family, Histogram

if TYPE_CHECKING:
    from prometheus_client import Metric

LACKING = "metrics need the package prometheus-client: pip install 'artos[metrics]'"


def exposition(families: Iterable[Family], accept: str = "") -> tuple[bytes, str]:
    """The text, and its media type: OpenMetrics where the header ``accept`` asks for it.

    Raises:
        Refused: the package prometheus-client is missing.
    """
    try:
        from prometheus_client import CollectorRegistry, Metric  # noqa: PLC0415
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415
        from prometheus_client.registry import Collector  # noqa: PLC0415
    except ImportError as error:
        raise Refused([LACKING]) from error

    class Told(Collector):
        def collect(self) -> Iterator[Metric]:
            for family in families:
                metric = Metric(family.name, family.help, family.kind)
                for labels, value in family.samples.items():
                    _add(metric, family, dict(zip(family.labels, labels, strict=True)), value)
                yield metric

    registry = CollectorRegistry()
    registry.register(Told())
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


def _add(
    metric: Metric, family: Family, labels: dict[str, str], value: float | Histogram
) -> None:  # fmt: skip
    if isinstance(value, Histogram):
        for bound, count in value.counts.items():
            most = "+Inf" if bound == inf else str(float(bound))
            metric.add_sample(f"{family.name}_bucket", labels | {"le": most}, count)
        metric.add_sample(f"{family.name}_count", labels, [*value.counts.values()][-1])
        metric.add_sample(f"{family.name}_sum", labels, value.sum)
    else:
        suffix = "_total" if family.kind == "counter" else ""
        metric.add_sample(family.name + suffix, labels, value)
