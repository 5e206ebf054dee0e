"""Producer metrics under Kafka's names."""

from dataclasses import dataclass


@dataclass(slots=True)
class ProducerMetrics:
    """Totals since the producer was created. Written by the loop only."""

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
        """Values by Kafka's metric names, including averages."""
        requests = max(self.request_total, 1)
        batches = max(self.batch_send_total, 1)
        return {
            "record-send-total": float(self.record_send_total),
            "record-error-total": float(self.record_error_total),
            "record-retry-total": float(self.record_retry_total),
            "batch-split-total": float(self.batch_split_total),
            "batch-size-avg": self.outgoing_byte_total / batches,
            "outgoing-byte-total": float(self.outgoing_byte_total),
            "request-total": float(self.request_total),
            "request-latency-avg": self.request_latency_total_ms / requests,
            "request-latency-max": float(self.request_latency_max_ms),
            "records-per-request-avg": self.record_send_total / requests,
        }
