"""Socket settings of a broker, under Kafka's names and with Kafka's defaults.

Except for the socket buffers, whose sizes are left to the system: Kafka's 100 KiB cost a third of
the throughput of large requests on a fast network.

Settings that begin with `headwater_` have no counterpart in Kafka, whose brokers process one
request of a connection at a time; Headwater overlaps Produce and Fetch, which needs bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """Limits and socket options; -1 is the system's default or no limit."""

    socket_request_max_bytes: int = 104_857_600
    socket_send_buffer_bytes: int = -1
    socket_receive_buffer_bytes: int = -1
    socket_listen_backlog_size: int = 50
    queued_max_requests: int = 500
    queued_max_request_bytes: int = -1
    connections_max_idle_ms: int = 600_000
    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate: int = UNLIMITED
    max_connections_of_listeners: Mapping[str, int] = field(default_factory=dict)
    headwater_tls_handshake_timeout_ms: int = 10_000
    headwater_connection_unsent_bytes_max: int = 1_048_576
    headwater_connection_requests_max: int = 100
