"""What a producer counts, under the names of Kafka's own metrics."""

from dataclasses import dataclass, fields


@dataclass(slots=True)
class ProducerMetrics:
    """Totals since the producer was made. Only the client's loop writes them."""

    record_send_total: int = 0
    record_error_total: int = 0
    record_retry_total: int = 0
    batch_split_total: int = 0
    batch_send_total: int = 0
    outgoing_byte_total: int = 0
    request_total: int = 0
    request_latency_total_ms: int = 0
    request_latency_max_ms: int = 0

    def as_dict(self) -> dict[str, float]:
        """With Kafka's dashes, and the averages that follow."""
        counts = {
            each.name.replace("_", "-"): float(getattr(self, each.name)) for each in fields(self)
        }
        requests = max(self.request_total, 1)
        batches = max(self.batch_send_total, 1)
        counts["request-latency-avg"] = self.request_latency_total_ms / requests
        counts["request-latency-max"] = float(self.request_latency_max_ms)
        counts["batch-size-avg"] = self.outgoing_byte_total / batches
        counts["records-per-request-avg"] = self.record_send_total / requests
        return counts
