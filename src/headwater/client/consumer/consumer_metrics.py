"""Consumer metrics under Kafka's names.

Note: fetched is not consumed. Records and bytes count as consumed when the application takes them.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class ConsumerMetrics:
    """Totals since the consumer's creation, written by loop and polling thread."""

    fetch_count: int = 0
    fetch_bytes: int = 0
    fetch_bytes_max: int = 0
    latency_ms: int = 0
    latency_max_ms: int = 0
    throttle_ms: int = 0
    throttle_max_ms: int = 0
    consumed_records: int = 0
    consumed_bytes: int = 0
    commit_count: int = 0
    rebalance_count: int = 0

    def fetched(self, size_bytes: int, *, took_ms: int, throttle_ms: int) -> None:
        """Count a fetch response."""
        self.fetch_count += 1
        self.fetch_bytes += size_bytes
        self.fetch_bytes_max = max(self.fetch_bytes_max, size_bytes)
        self.latency_ms += took_ms
        self.latency_max_ms = max(self.latency_max_ms, took_ms)
        self.throttle_ms += throttle_ms
        self.throttle_max_ms = max(self.throttle_max_ms, throttle_ms)

    def as_dict(self) -> dict[str, float]:
        fetches = max(self.fetch_count, 1)
        return {
            "fetch-total": float(self.fetch_count),
            "fetch-size-avg": self.fetch_bytes / fetches,
            "fetch-size-max": float(self.fetch_bytes_max),
            "fetch-latency-avg": self.latency_ms / fetches,
            "fetch-latency-max": float(self.latency_max_ms),
            "fetch-throttle-time-avg": self.throttle_ms / fetches,
            "fetch-throttle-time-max": float(self.throttle_max_ms),
            "records-consumed-total": float(self.consumed_records),
            "bytes-consumed-total": float(self.consumed_bytes),
            "records-per-request-avg": self.consumed_records / fetches,
            "commit-total": float(self.commit_count),
            "rebalance-total": float(self.rebalance_count),
        }
