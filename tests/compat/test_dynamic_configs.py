"""A connection limit that is altered at run time, and survives a restart."""

import socket
from pathlib import Path

from headwater.protocol.messages.describe_cluster import DescribeClusterRequest
from headwater.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.testing import EmbeddedBroker
from tests.peers.raw_client import RawClient

BROKER = 4
TIMEOUT_S = 30


def limit_connections(client: RawClient, value: str | None) -> None:
    config = AlterableConfig(
        name="max.connections", config_operation=1 if value is None else 0, value=value
    )
    asked = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(config,))
    response = client.ask(IncrementalAlterConfigsRequest(resources=(asked,)), 1)
    assert isinstance(response, IncrementalAlterConfigsResponse)
    (result,) = response.responses
    assert not result.error_code, result


def is_refused(bootstrap_servers: str) -> bool:
    """Whether the broker closes a new connection without a response."""
    host, _, port = bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as fresh:
        fresh.sendall(API_VERSIONS)
        try:
            return fresh.recv(1) == b""
        except ConnectionResetError:
            return True


# ApiVersions v0: size, key 18, version, correlation id, null client id.
API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


def test_connection_limit_applies_at_once_and_after_a_restart(tmp_path: Path) -> None:
    with (
        EmbeddedBroker(data_directory=tmp_path) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        assert not is_refused(broker.bootstrap_servers)
        limit_connections(client, "1")
        assert is_refused(broker.bootstrap_servers)
    with (
        EmbeddedBroker(data_directory=tmp_path) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.ask(DescribeClusterRequest(), 0)
        assert is_refused(broker.bootstrap_servers)
        limit_connections(client, None)
        assert not is_refused(broker.bootstrap_servers)
