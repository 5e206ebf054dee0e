"""Metrics of quotas: throttled clients, throttle times and usage.

Usage is only measured for clients that have a quota and were active within the last hour.
"""

from collections.abc import Iterator
from typing import Final

from headwater.broker.metrics.prometheus_exposition import Family, Number, Sample, counter
from headwater.broker.requests.quota_managers import QuotaKind, QuotaManagers
from headwater.network.limits.connection_creation_rate import ThrottledConnections
from headwater.security.quotas.rate_quota import RateQuota

_MS_PER_S: Final = 1_000


def quota_families(
    throttling: QuotaManagers, throttled_connections: ThrottledConnections
) -> list[Family]:
    return [*_of_waits(throttling), *_of_uses(throttling), _of_connections(throttled_connections)]


def _of_uses(throttling: QuotaManagers) -> Iterator[Family]:
    clients = throttling.clients
    uses = {
        "produce_byte_rate": (clients.produce, "Produced bytes per second."),
        "fetch_byte_rate": (clients.fetch, "Fetched bytes per second."),
        "request_request_time": (clients.request, "Request time in percent of one thread."),
    }
    for name, (quota, doc) in uses.items():
        yield _of_use(f"kafka_server_{name}", doc, quota, throttling)


def _of_connections(throttled_connections: ThrottledConnections) -> Family:
    return counter(
        "kafka_server_socketserver_throttledconnections_total",
        "Connections throttled by the connection creation rate of their IP address.",
        lambda: throttled_connections.count,
    )


def _of_waits(throttling: QuotaManagers) -> Iterator[Family]:
    waits = throttling.waits

    def samples(values: dict[QuotaKind, Number]) -> list[Sample]:
        return [Sample(value=each, labels=(("quota", kind),)) for kind, each in values.items()]

    yield Family(
        name="kafka_server_throttled_total",
        kind="counter",
        doc="Responses with a throttle time.",
        samples=lambda: samples({kind: each.count for kind, each in waits.items()}),
    )
    yield Family(
        name="kafka_server_throttled_seconds_total",
        kind="counter",
        doc="Sum of throttle times in seconds.",
        samples=lambda: samples({kind: each.total_ms / _MS_PER_S for kind, each in waits.items()}),
    )
    yield Family(
        name="kafka_server_queue_size",
        kind="gauge",
        doc="Connections muted because of a quota.",
        samples=lambda: samples({kind: each.now for kind, each in waits.items()}),
    )


def _of_use(name: str, doc: str, quota: RateQuota, throttling: QuotaManagers) -> Family:
    def samples() -> list[Sample]:
        return [
            Sample(
                value=use.per_second,
                labels=(("user", use.sharing.user), ("client_id", use.sharing.client_id)),
            )
            for use in quota.uses(throttling.now_ms())
        ]

    return Family(name=name, kind="gauge", doc=doc, samples=samples)
