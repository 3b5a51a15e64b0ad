"""Figures of a server in the text format that Prometheus reads. Counters begin anew with the process, as Prometheus expects."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

BUCKETS = (0.5, 1, 2, 5, 10, 20, 60, 120, 300, 900)
HELP = {
    "bottega_requests_total": ("counter", "HTTP requests by route and status."),
    "bottega_ended_total": ("counter", "Requests for judging that ended, by outcome, or failed and cancelled."),
    "bottega_judging_seconds": ("histogram", "From the start of judging to its end."),
    "bottega_waiting_seconds": ("histogram", "From being accepted to the start of judging."),
    "bottega_queue_length": ("gauge", "Requests that wait for a device."),
    "bottega_running": ("gauge", "Requests that a device works on."),
    "bottega_lanes": ("gauge", "Requests that a device works on at most."),
    "bottega_store_bytes": ("gauge", "Size of the results that are kept."),
}
Labels = tuple[tuple[str, str], ...]


class ServerMetrics:
    """Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[Labels]] = {}
        self._histograms: dict[str, tuple[list[int], list[float]]] = {}

    def count(self, name: str, **labels: str) -> None:
        with self._lock:
            self._counts.setdefault(name, Counter())[tuple(sorted(labels.items()))] += 1

    def observe(self, name: str, seconds: float) -> None:
        with self._lock:
            buckets, total = self._histograms.setdefault(name, ([0] * (len(BUCKETS) + 1), [0.0]))
            buckets[next((place for place, edge in enumerate(BUCKETS) if seconds <= edge), len(BUCKETS))] += 1
            total[0] += seconds

    def text(self, gauges: Mapping[str, Iterable[tuple[Mapping[str, str], float]]]) -> str:
        """All of it, with gauges as they are now."""
        with self._lock:
            lines: list[str] = []
            for name, rows in self._counts.items():
                lines += [*_head(name), *(f"{name}{_labels(labels)} {count}" for labels, count in sorted(rows.items()))]
            for name, (buckets, total) in self._histograms.items():
                lines += _head(name)
                sums = [sum(buckets[: place + 1]) for place in range(len(buckets))]
                edges = [*map(str, BUCKETS), "+Inf"]
                lines += [f'{name}_bucket{{le="{edge}"}} {count}' for edge, count in zip(edges, sums)]
                lines += [f"{name}_sum {total[0]:.6f}", f"{name}_count {sums[-1]}"]
        for name, values in gauges.items():
            lines += [*_head(name), *(f"{name}{_labels(tuple(labels.items()))} {value:g}" for labels, value in values)]
        return "\n".join([*lines, ""])


def _head(name: str) -> list[str]:
    kind, told = HELP[name]
    return [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    escaped = ((key, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for key, value in labels)
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped) + "}"
