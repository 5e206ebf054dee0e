"""The schema registry that tests of others get: by a fixture, and with its own start and end."""

from headwater.client.schema_registry import SchemaRegistry
from headwater.testing import EmbeddedBroker, EmbeddedRegistry


def test_the_fixture_is_a_registry_beside_the_broker_of_the_session(
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
