"""The embedded schema registry, as a fixture and standalone."""

from headwater.client.schema_registry import SchemaRegistry
from headwater.testing import EmbeddedBroker, EmbeddedRegistry


def test_the_fixture_is_a_registry_on_the_session_broker(
    schema_registry: EmbeddedRegistry, kafka_broker: EmbeddedBroker
) -> None:
    with SchemaRegistry(schema_registry.url) as client:
        schema_id = client.register("fixture-value", '"string"')
    with (
        EmbeddedRegistry(kafka_broker.bootstrap_servers) as another,
        SchemaRegistry(another.url) as client,
    ):
        assert client.version("fixture-value").id == schema_id
        another.restart()
        assert client.version("fixture-value").id == schema_id
    assert not another.is_running
