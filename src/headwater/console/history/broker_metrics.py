"""Parse the counters and request times in the metrics of a broker. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

LATENCY_REQUESTS: Final = ("Produce", "FindCoordinator", "Metadata", "OffsetCommit", "OffsetFetch")
"""Requests of the latency chart. Fetch is none of them: it waits for new records on purpose."""

_QUANTILE: Final = 0.99
_TOPIC_COUNTER: Final = re.compile(
    r"^kafka_server_brokertopicmetrics_(bytesin|bytesout)_total(?:\{([^}]*)\})? ([0-9.eE+-]+)",
    re.MULTILINE,
)
_BUCKET: Final = re.compile(
    r'^kafka_network_requestmetrics_totaltime_seconds_bucket\{request="([A-Za-z]+)",'
    r'le="([0-9.eE+-]+|\+Inf)"\} ([0-9.eE+-]+)',
    re.MULTILINE,
)

Buckets = Mapping[float, float]
"""Requests of at most so many seconds, by upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReading:
    """A broker's counters since its start."""

    bytes_in: float
    bytes_out: float
    request_times: Mapping[str, Buckets]


def broker_reading(text: str) -> BrokerReading:
    """Parse what `/metrics` returned. Raises `ValueError` if it is not that.

    Note: totals, if present, replace the sum of the topics' counters, which would count them twice.
    """
    topics = {"bytesin": 0.0, "bytesout": 0.0}
    totals: dict[str, float] = {}
    for name, labels, value in _TOPIC_COUNTER.findall(text):
        if "topic=" in labels and 'topic=""' not in labels:
            topics[name] += float(value)
        else:
            totals[name] = totals.get(name, 0.0) + float(value)
    times: dict[str, dict[float, float]] = {}
    for request, bound, count in _BUCKET.findall(text):
        if request in LATENCY_REQUESTS:
            times.setdefault(request, {})[float(bound)] = float(count)
    counters = {**topics, **totals}
    return BrokerReading(
        bytes_in=counters["bytesin"], bytes_out=counters["bytesout"], request_times=times
    )


def request_latency_ms(pairs: Iterable[tuple[BrokerReading, BrokerReading]]) -> dict[str, float]:
    """The 99th percentile of each request between two readings of each broker."""
    sums: dict[str, dict[float, float]] = {}
    for old, new in pairs:
        for request, buckets in new.request_times.items():
            known = old.request_times.get(request, {})
            if known.get(inf, 0.0) > buckets.get(inf, 0.0):
                # The broker restarted, so its histogram began again.
                known = {}
            total = sums.setdefault(request, {})
            for bound, count in buckets.items():
                total[bound] = total.get(bound, 0.0) + count - known.get(bound, 0.0)
    found = {}
    for request, buckets in sums.items():
        bound_s = _quantile(buckets)
        if bound_s is not None:
            found[request] = bound_s * 1000
    return found


def _quantile(buckets: Buckets) -> float | None:
    """Interpolate within the bucket, as Prometheus does; None without a request."""
    count = buckets.get(inf, 0.0)
    if count <= 0:
        return None
    wanted, below, lower = count * _QUANTILE, 0.0, 0.0
    for bound in sorted(buckets):
        if buckets[bound] >= wanted:
            if bound == inf:
                return lower
            inside = buckets[bound] - below
            return lower + (bound - lower) * ((wanted - below) / inside if inside else 1.0)
        below, lower = buckets[bound], bound
    return lower
