"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages import alter_configs as whole
from headwater.protocol.messages import incremental_alter_configs as incremental
from headwater.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headwater.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from headwater.replication.partition import Partition
from tests.simulation.labs.broker_lab import BrokerLab

SET, DELETE = 0, 1


def change(
    lab: BrokerLab, name: str, value: str | None, *, resource: tuple[int, str] = (2, "t")
) -> ErrorCode:
    config = incremental.AlterableConfig(
        name=name, config_operation=DELETE if value is None else SET, value=value
    )
    asked = incremental.AlterConfigsResource(
        resource_type=resource[0], resource_name=resource[1], configs=(config,)
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=(asked,))
    (result,) = lab.ask(request, incremental.IncrementalAlterConfigsResponse).responses
    assert bool(result.error_code) == bool(result.error_message)
    return result.error_code


def shown(
    lab: BrokerLab, name: str, resource: tuple[int, str] = (2, "t")
) -> tuple[str | None, int]:
    asked = DescribeConfigsResource(
        resource_type=resource[0], resource_name=resource[1], configuration_keys=(name,)
    )
    (result,) = lab.ask(DescribeConfigsRequest(resources=(asked,)), DescribeConfigsResponse).results
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, "")
    (config,) = result.configs
    return config.value, config.config_source


def hosted(lab: BrokerLab, topic: str) -> Partition:
    found = lab.broker.partitions.find(topic, 0)
    assert found is not None
    return found


def test_topic_config_takes_effect_at_once_and_is_described() -> None:
    """CF-1: on open logs."""
    lab = BrokerLab()
    lab.create("t")
    log = hosted(lab, "t").open_log()
    assert change(lab, "max.message.bytes", "100") is ErrorCode.NONE
    assert log.settings.max_message_bytes == 100
    assert shown(lab, "max.message.bytes") == ("100", 1)
    assert change(lab, "max.message.bytes", None) is ErrorCode.NONE
    assert log.settings.max_message_bytes == 1_048_588
    assert shown(lab, "max.message.bytes") == ("1048588", 5)


def test_broker_default_applies_to_open_logs_without_their_own() -> None:
    """CF-1."""
    lab = BrokerLab()
    lab.create("t")
    lab.create("own", configs={"max.message.bytes": "50"})
    logs = [hosted(lab, name).open_log() for name in ("t", "own")]
    for resource, value, source in [((4, ""), "100", 3), ((4, "0"), "200", 2)]:
        assert change(lab, "message.max.bytes", value, resource=resource) is ErrorCode.NONE
        assert [log.settings.max_message_bytes for log in logs] == [int(value), 50]
        assert shown(lab, "max.message.bytes") == (value, source)
        assert shown(lab, "message.max.bytes", (4, "0")) == (value, source)


def test_alter_configs_replaces_all_configs() -> None:
    """CF-1."""
    lab = BrokerLab()
    lab.create("t", configs={"retention.ms": "1", "segment.ms": "5"})
    asked = whole.AlterConfigsResource(
        resource_type=2,
        resource_name="t",
        configs=(whole.AlterableConfig(name="retention.ms", value="2"),),
    )
    for validate_only, kept in [(True, {"retention.ms": "1", "segment.ms": "5"}),
                                (False, {"retention.ms": "2"})]:  # fmt: skip
        request = whole.AlterConfigsRequest(resources=(asked,), validate_only=validate_only)
        (result,) = lab.ask(request, whole.AlterConfigsResponse).responses
        assert not result.error_code
        assert lab.broker.image.configs_of(ResourceType.TOPIC, "t") == kept


def test_invalid_topic_config_is_invalid_config_and_invalid_broker_config_is_invalid_request() -> (
    None
):
    """As in Kafka 4.1."""
    lab = BrokerLab()
    lab.create("t")
    assert change(lab, "retention.ms", "x") is ErrorCode.INVALID_CONFIG
    assert change(lab, "no.such", "x") is ErrorCode.INVALID_CONFIG
    assert change(lab, "log.retention.ms", "x", resource=(4, "0")) is ErrorCode.INVALID_REQUEST
    assert change(lab, "num.partitions", "2", resource=(4, "0")) is ErrorCode.INVALID_REQUEST
    assert change(lab, "max.connections.per.ip.overrides", "a", resource=(4, "")) is (
        ErrorCode.INVALID_REQUEST
    )
    # Kafka accepts an unknown broker config, which has no effect.
    assert change(lab, "no.such", "x", resource=(4, "0")) is ErrorCode.INVALID_CONFIG
    assert change(lab, "a", "b", resource=(2, "a b")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert change(lab, "a", "b", resource=(32, "group")) is ErrorCode.INVALID_CONFIG
    assert change(lab, "a", "b", resource=(16, "mine")) is ErrorCode.INVALID_REQUEST


def test_static_broker_configs_are_read_only() -> None:
    lab = BrokerLab()
    asked = DescribeConfigsResource(
        resource_type=4, resource_name="0", configuration_keys=("num.io.threads", "max.connections")
    )
    request = DescribeConfigsRequest(resources=(asked,))
    (result,) = lab.ask(request, DescribeConfigsResponse).results
    assert [(each.name, each.read_only) for each in result.configs] == [
        ("max.connections", False),
        ("num.io.threads", True),
    ]


def listed(lab: BrokerLab, *types: int, version: int = 1) -> list[tuple[str, int]]:
    request = ListConfigResourcesRequest(resource_types=types)
    response = lab.ask(request, ListConfigResourcesResponse, version)
    assert not response.error_code
    return [(each.resource_name, each.resource_type) for each in response.config_resources]


def test_all_topics_and_brokers_have_configs() -> None:
    lab = BrokerLab()
    lab.create("b")
    lab.create("a")
    assert listed(lab, 2) == [("a", 2), ("b", 2)]
    assert listed(lab, 4, 4) == [("0", 4)]
    assert listed(lab) == [("0", 8), ("0", 4), ("a", 2), ("b", 2)]
    assert listed(lab, 2, 4) == [("0", 4), ("a", 2), ("b", 2)]
    assert listed(lab, 32) == []
    assert listed(lab, 16, version=0) == []


def test_unknown_resource_type_is_unsupported() -> None:
    request = ListConfigResourcesRequest(resource_types=(2, 3))
    assert BrokerLab().ask(request, ListConfigResourcesResponse) == ListConfigResourcesResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION
    )


def test_kerberos_settings_are_stored_per_broker_though_they_have_no_effect() -> None:
    lab = BrokerLab()
    one, all_ = (ResourceType.BROKER, "0"), (ResourceType.BROKER, "")
    name = "sasl.kerberos.service.name"
    assert change(lab, name, "kafka", resource=one) is ErrorCode.NONE
    assert shown(lab, name, one) == ("kafka", 2)
    assert change(lab, name, "kafka", resource=all_) is ErrorCode.INVALID_REQUEST
    jitter = "sasl.kerberos.ticket.renew.jitter"
    assert change(lab, jitter, "soon", resource=one) is ErrorCode.INVALID_REQUEST
    assert change(lab, name, None, resource=one) is ErrorCode.NONE
    assert shown(lab, name, one) == (None, 5)
