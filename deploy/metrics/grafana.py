"""A dashboard for Grafana over these metrics, as the JSON that its import page takes.

Schema: Grafana's dashboard JSON model, version 39 (Grafana 10 and later).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_WIDTH, _HEIGHT, _ACROSS = 8, 8, 3
_OF = '{run=~"$run"}'
_SOURCE = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True)
class Panel:
    """A chart: the question that it answers, the unit in Grafana's words, and legend → PromQL."""

    title: str
    unit: str
    queries: dict[str, str]


def _quantiles(histogram: str, by: str = "run") -> dict[str, str]:
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    rate = f"sum by ({by}, le) (rate({histogram}_bucket{_OF}[$__rate_interval]))"
    return {f"{q:.0%} {legend}": f"histogram_quantile({q}, {rate})" for q in (0.5, 0.95)}


PANELS = (
    Panel("Does it learn?", "none", {
        "{{run}}": f"artos_run_mean_return{_OF}",
        "{{run}} evaluated": f"artos_run_evaluation_mean_return{_OF}",
    }),
    Panel("How fast does it sample?", "ops", {
        "{{run}}": f"rate(artos_run_steps_total{_OF}[$__rate_interval])",
    }),
    Panel("How fast does it learn?", "ops", {
        "{{run}}": f"rate(artos_run_updates_total{_OF}[$__rate_interval])",
    }),
    Panel("How old are the rows learned from? (versions)", "none",
          _quantiles("artos_run_lag_versions")),
    Panel("How long do members wait at a time?", "s",
          _quantiles("artos_run_wait_seconds", "run, kind")),
    Panel("Where do members' seconds go?", "percentunit", {
        "{{run}} {{kind}}": f"rate(artos_run_time_seconds_total{_OF}[$__rate_interval])"
        f" / ignoring(kind) group_left "
        f"sum by (run, job, instance) (rate(artos_run_time_seconds_total{_OF}[$__rate_interval]))",
    }),
    Panel("How full is the buffer?", "percentunit", {
        "{{run}}": f"max by (run) (artos_run_buffer_fill_ratio{_OF})",
    }),
    Panel("How many actors take part?", "none", {
        "{{run}}": f"artos_run_actors{_OF}",
        "{{run}} wants": f"artos_run_slots_wanted{_OF}",
    }),
    Panel("What do updates return?", "none", {
        "{{run}} {{metric}}": f"artos_run_learner_metric{_OF}",
    }),
    Panel("What was lost?", "none", {
        "{{run}} rows lost": f"increase(artos_run_rows_lost_total{_OF}[$__rate_interval])",
        "{{run}} rows stale": f"increase(artos_run_rows_stale_total{_OF}[$__rate_interval])",
        "{{run}} restarts": f"increase(artos_run_member_restarts_total{_OF}[$__rate_interval])",
    }),
    Panel("What does it hold, and use?", "none", {
        "{{run}} slots held": f"rate(artos_run_cpu_held_seconds_total{_OF}[$__rate_interval])",
        "{{run}} CPUs used": f"rate(artos_run_cpu_used_seconds_total{_OF}[$__rate_interval])",
        "{{run}} devices held":
            f"rate(artos_run_device_held_seconds_total{_OF}[$__rate_interval])",
    }),
    Panel("How much goes between nodes?", "Bps", {
        "{{run}}": f"rate(artos_run_moved_bytes_total{_OF}[$__rate_interval])",
    }),
    Panel("Which nodes are there?", "none", {
        "{{node}} heard": "artos_node_up",
        "{{node}} actors": "artos_node_actors",
        "{{node}} slots": "artos_node_slots",
    }),
    Panel("How busy are they?", "percentunit", {
        "{{node}} CPU": "artos_node_cpu_ratio",
        "{{node}} memory": "artos_node_memory_ratio",
    }),
    Panel("How many runs are there?", "none", {
        "{{state}}": "sum by (state) (artos_run_state)",
    }),
)  # fmt: skip


def board() -> dict[str, Any]:
    """The dashboard. It asks for a Prometheus, and for the runs to show."""
    return {
        "title": "ARTOS",
        "uid": "artos-runs",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "tags": ["artos", "reinforcement learning"],
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Prometheus", "type": "datasource",
                 "query": "prometheus"},
                {"name": "run", "label": "Runs", "type": "query", "datasource": _SOURCE,
                 "query": {"query": "label_values(artos_run_state, run)", "refId": "runs"},
                 "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
                 "current": {"text": "All", "value": "$__all"}},
            ]
        },
        "panels": [_plain(number, panel) for number, panel in enumerate(PANELS)],
    }  # fmt: skip


def _plain(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _ACROSS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": _WIDTH * column, "y": _HEIGHT * row, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend,
             "datasource": _SOURCE}
            for index, (legend, query) in enumerate(panel.queries.items())
        ],
    }  # fmt: skip
