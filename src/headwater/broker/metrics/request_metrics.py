"""Metrics of requests by API, and of authentications and connections by listener."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from headwater.broker.metrics.prometheus_exposition import (
    Family,
    Sample,
    gauge,
    histogram_samples,
)
from headwater.broker.requests.request_counters import RequestCounters
from headwater.network.socket_server import SocketServer
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS

if TYPE_CHECKING:
    from headwater.broker.authentication.sasl_listener import AuthenticationCounters, SaslListener


def login_families(listeners: "Mapping[str, SaslListener]") -> Iterator[Family]:
    def family(name: str, doc: str, read: "Callable[[AuthenticationCounters], int]") -> Family:
        def samples() -> Iterator[Sample]:
            for listener in listeners.values():
                label = ("listener", listener.name)
                yield Sample(value=read(listener.counters), labels=(label,))

        return Family(
            name=f"kafka_server_socketservermetrics_{name}_total",
            kind="counter",
            doc=doc,
            samples=samples,
        )

    yield family(
        "successful_authentication", "Successful authentications.", lambda each: each.succeeded
    )
    yield family("failed_authentication", "Failed authentications.", lambda each: each.failed)
    yield family(
        "successful_reauthentication", "Successful re-authentications.", lambda each: each.renewed
    )
    yield family(
        "failed_reauthentication",
        "Failed re-authentications.",
        lambda each: each.not_renewed,
    )
    yield family(
        "expired_connections_killed",
        "Connections closed because their SASL session had expired.",
        lambda each: each.expired,
    )


def request_families(requests: Mapping[ApiKey, RequestCounters]) -> Iterator[Family]:
    def counts() -> Iterator[Sample]:
        for key, counters in requests.items():
            for version, count in enumerate(counters.versions):
                if count:
                    label = str(version) if version <= counters.newest else "unknown"
                    yield Sample(value=count, labels=(_request(key), ("version", label)))

    def errors() -> Iterator[Sample]:
        for key, counters in requests.items():
            for code, count in list(counters.errors.items()):
                yield Sample(value=count, labels=(_request(key), ("error", code.name)))

    def times() -> Iterator[Sample]:
        for key, counters in requests.items():
            if counters.count:
                yield from histogram_samples(counters.buckets, counters.total_ns, (_request(key),))

    name = "kafka_network_requestmetrics"
    yield Family(
        name=f"{name}_requests_total",
        kind="counter",
        doc="Answered requests by API and version.",
        samples=counts,
    )
    yield Family(
        name=f"{name}_errors_total",
        kind="counter",
        doc="Error codes in responses by API and code.",
        samples=errors,
    )
    yield Family(
        name=f"{name}_totaltime_seconds",
        kind="histogram",
        doc="Time from receiving a request to its response, including time in a purgatory.",
        samples=times,
    )


def _request(key: ApiKey) -> tuple[str, str]:
    return ("request", APIS[key].name)


def connection_families(server: SocketServer) -> Iterator[Family]:
    def connections() -> Iterator[Sample]:
        counts = {endpoint.name: 0 for endpoint in server.endpoints}
        for connection in server.connections:
            counts[connection.address.listener] += 1
        for listener, count in counts.items():
            yield Sample(value=count, labels=(("listener", listener),))

    yield Family(
        name="kafka_server_socketserver_connections",
        kind="gauge",
        doc="Open connections by listener.",
        samples=connections,
    )

    def failed_handshakes() -> Iterator[Sample]:
        for name in (endpoint.name for endpoint in server.endpoints):
            count = server.failed_handshakes.get(name, 0)
            yield Sample(value=count, labels=(("listener", name),))

    yield Family(
        name="kafka_server_socketserver_failed_handshakes_total",
        kind="counter",
        doc="Failed TLS handshakes by listener.",
        samples=failed_handshakes,
    )
    yield gauge(
        "kafka_server_socketserver_unansweredrequests",
        "Requests received and not yet answered.",
        lambda: sum(connection.unanswered_count for connection in server.connections),
    )
