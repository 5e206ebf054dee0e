"""Dynamic configs: changes, precedence and descriptions."""

import pytest

from headwater.common.config_types import ConfigOperation, ConfigSource, ConfigType, ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.controller.configuration_control import alter_configs, incremental_alter_configs
from headwater.controller.topic_creation import create_topics
from headwater.metadata.changes import ConfigsReplaced
from headwater.metadata.cluster_image import ClusterImage, ConfigResource
from headwater.metadata.config_description import describe_config
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import (
    StaticConfig,
    broker_settings_for,
    settings_for,
    topic_defaults_for,
)
from headwater.protocol.messages import alter_configs as whole
from headwater.protocol.messages import incremental_alter_configs as incremental
from headwater.protocol.messages.create_topics import CreateTopicsRequest
from headwater.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tests.simulation.labs.cluster_lab import STATIC, after, lone_broker, rng, topic

ORDERS = ConfigResource(ResourceType.TOPIC, "orders")
READERS = ConfigResource(ResourceType.GROUP, "readers")
BROKER_0 = ConfigResource(ResourceType.BROKER, "0")
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
APPEND, SUBTRACT = ConfigOperation.APPEND, ConfigOperation.SUBTRACT

Changes = dict[str, tuple[int, str | None]]


@pytest.fixture
def image() -> ClusterImage:
    """One broker, and the topic `orders` with its own retention."""
    image = lone_broker()
    request = CreateTopicsRequest(topics=(topic("orders", configs={"retention.ms": "5"}),))
    return after(image, *create_topics(image, request, STATIC, rng()).changes)


def change(
    image: ClusterImage,
    resource: tuple[int, str],
    changes: Changes,
    *,
    static: StaticConfig = STATIC,
    validate_only: bool = False,
) -> ControllerResult[tuple[incremental.AlterConfigsResourceResponse, ...]]:
    asked = incremental.AlterConfigsResource(
        resource_type=resource[0],
        resource_name=resource[1],
        configs=tuple(
            incremental.AlterableConfig(name=name, config_operation=operation, value=value)
            for name, (operation, value) in changes.items()
        ),
    )
    request = incremental.IncrementalAlterConfigsRequest(
        resources=(asked,), validate_only=validate_only
    )
    return incremental_alter_configs(image, request, static)


def changed(image: ClusterImage, resource: tuple[int, str], changes: Changes) -> ClusterImage:
    decision = change(image, resource, changes)
    assert [result.error_code for result in decision.answer] == [ErrorCode.NONE]
    return after(image, *decision.changes)


def test_incremental_changes_keep_other_configs(image: ClusterImage) -> None:
    """CF-1."""
    decision = change(image, ORDERS, {"segment.ms": (SET, "7"), "flush.ms": (DELETE, None)})
    assert decision == ControllerResult(
        [ConfigsReplaced(ORDERS, {"retention.ms": "5", "segment.ms": "7"})],
        (incremental.AlterConfigsResourceResponse(resource_type=2, resource_name="orders"),),
    )
    assert change(image, ORDERS, {"segment.ms": (SET, "7")}, validate_only=True).changes == ()
    image = changed(image, ORDERS, {"retention.ms": (DELETE, None)})
    assert ORDERS not in image.configs


def test_append_and_subtract_start_from_the_effective_value(image: ClusterImage) -> None:
    """CF-1: APPEND and SUBTRACT."""
    image = changed(image, ORDERS, {"cleanup.policy": (APPEND, "compact")})
    assert image.configs[ORDERS]["cleanup.policy"] == "delete,compact"
    image = changed(image, ORDERS, {"cleanup.policy": (APPEND, "compact")})
    assert image.configs[ORDERS]["cleanup.policy"] == "delete,compact"
    image = changed(image, ORDERS, {"cleanup.policy": (SUBTRACT, "delete")})
    assert image.configs[ORDERS]["cleanup.policy"] == "compact"
    image = changed(image, ORDERS, {"cleanup.policy": (SUBTRACT, "compact")})
    assert image.configs[ORDERS]["cleanup.policy"] == ""


@pytest.mark.parametrize(
    ("resource", "changes", "code", "reason"),
    [
        (READERS, {"retention.ms": (SET, "1")}, "INVALID_CONFIG", "unknown group setting"),
        (READERS, {"consumer.session.timeout.ms": (SET, "1")}, "INVALID_CONFIG", "between 45000"),
        ((32, ""), {"consumer.session.timeout.ms": (SET, "1")}, "INVALID_REQUEST", "is required"),
        (ORDERS, {"retention.ms": (SET, "-2")}, "INVALID_CONFIG", "must be between -1"),
        (ORDERS, {"retention.sm": (SET, "1")}, "INVALID_CONFIG", "did you mean retention.ms"),
        (ORDERS, {"retention.ms": (APPEND, "1")}, "INVALID_CONFIG", "not a list"),
        (ORDERS, {"retention.ms": (SET, None)}, "INVALID_REQUEST", "no value"),
        (ORDERS, {"retention.ms": (9, "1")}, "INVALID_REQUEST", "unknown config operation 9"),
        (ORDERS, {"cleanup.policy": (APPEND, "shred")}, "INVALID_CONFIG", "must be a list"),
        (ORDERS, {"max.compaction.lag.ms": (SET, "1"), "min.compaction.lag.ms": (SET, "2")},
         "INVALID_CONFIG", "must not exceed"),
        ((2, "gone"), {"retention.ms": (SET, "1")}, "UNKNOWN_TOPIC_OR_PARTITION", "gone does"),
        ((2, ""), {"retention.ms": (SET, "1")}, "INVALID_REQUEST", "no default entity"),
        ((4, "1"), {"log.retention.ms": (SET, "1")}, "INVALID_REQUEST", "broker 1 does"),
        ((4, "x"), {"log.retention.ms": (SET, "1")}, "INVALID_REQUEST", "must be a number"),
        ((8, "0"), {"kafka": (SET, "DEBUG")}, "INVALID_REQUEST", "has no configs"),
        (BROKER_0, {"num.partitions": (SET, "2")}, "INVALID_REQUEST", "is read-only"),
        (BROKER_0, {"log.retention.ms": (SET, "x")}, "INVALID_REQUEST", "whole number"),
        (BROKER_0, {"log.retentoin.ms": (SET, "1")}, "INVALID_CONFIG", "did you mean"),
        (ALL_BROKERS, {"log.cleaner.min.compaction.lag.ms": (SET, "2"),
                       "log.cleaner.max.compaction.lag.ms": (SET, "1")},
         "INVALID_REQUEST", "must not exceed"),
    ],
)  # fmt: skip
def test_an_invalid_change_is_rejected_with_a_reason(
    image: ClusterImage, resource: tuple[int, str], changes: Changes, code: str, reason: str
) -> None:
    """CF-1."""
    decision = change(image, resource, changes)
    (result,) = decision.answer
    assert decision.changes == []
    assert result.error_code is ErrorCode[code]
    assert reason in (result.error_message or "")


def test_a_duplicate_name_or_resource_is_rejected(image: ClusterImage) -> None:
    """CF-1."""
    config = incremental.AlterableConfig(name="retention.ms", config_operation=SET, value="1")
    once = incremental.AlterConfigsResource(
        resource_type=2, resource_name="orders", configs=(config,)
    )
    twice = incremental.AlterConfigsResource(
        resource_type=2, resource_name="orders", configs=(config, config)
    )
    for resources in [(twice,), (once, once)]:
        request = incremental.IncrementalAlterConfigsRequest(resources=resources)
        decision = incremental_alter_configs(image, request, STATIC)
        assert decision.changes == []
        assert {each.error_code for each in decision.answer} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("resource", [BROKER_0, ConfigResource(ResourceType.BROKER, "")])
def test_a_broker_config_that_would_prevent_a_start_is_rejected(
    image: ClusterImage, resource: ConfigResource
) -> None:
    """Each value may be valid and the combination invalid."""
    setting = "listener.name.foreign.ssl.keystore.location"
    decision = change(image, resource, {setting: (SET, "own.pem")})
    assert [each.error_code for each in decision.answer] == [ErrorCode.INVALID_REQUEST]
    assert not decision.changes
    endless = f"192.0.2.1:{'9' * 5_000}"
    decision = change(image, resource, {"max.connections.per.ip.overrides": (SET, endless)})
    assert [each.error_code for each in decision.answer] == [ErrorCode.INVALID_REQUEST]


def test_alter_configs_replaces_the_whole_set(image: ClusterImage) -> None:
    """CF-1."""
    asked = whole.AlterConfigsResource(
        resource_type=2,
        resource_name="orders",
        configs=(whole.AlterableConfig(name="segment.ms", value="9"),),
    )
    request = whole.AlterConfigsRequest(resources=(asked,))
    assert alter_configs(image, request, STATIC) == ControllerResult(
        [ConfigsReplaced(ORDERS, {"segment.ms": "9"})],
        (whole.AlterConfigsResourceResponse(resource_type=2, resource_name="orders"),),
    )


def test_the_source_with_the_highest_precedence_wins(image: ClusterImage) -> None:
    """Topic, broker, all brokers, file, default."""
    static = StaticConfig.parse({"log.segment.bytes": "2000000", "log.retention.hours": "1"})

    def segment_bytes() -> int:
        return settings_for(image, "orders", topic_defaults_for(image, static)).segment_bytes

    assert settings_for(image, "orders", topic_defaults_for(image, STATIC)).segment_bytes == 1 << 30
    assert segment_bytes() == 2_000_000
    image = changed(image, ALL_BROKERS, {"log.segment.bytes": (SET, "3000000")})
    assert segment_bytes() == 3_000_000
    image = changed(image, BROKER_0, {"log.segment.bytes": (SET, "4000000")})
    assert segment_bytes() == 4_000_000
    image = changed(image, ORDERS, {"segment.bytes": (SET, "5000000")})
    assert segment_bytes() == 5_000_000
    assert topic_defaults_for(image, static).retention_ms == 3_600_000


def test_brokers_use_their_dynamic_settings(image: ClusterImage) -> None:
    image = changed(image, ALL_BROKERS, {"log.cleaner.backoff.ms": (SET, "1")})
    assert broker_settings_for(image, STATIC).log_cleaner_backoff_ms == 1


@pytest.mark.parametrize(
    ("resource", "known"), [(ALL_BROKERS, "log.cleaner.backoff.ms"), (ORDERS, "segment.ms")]
)
def test_unknown_configs_of_kafka_are_kept_and_do_not_block_changes(
    image: ClusterImage, resource: tuple[int, str], known: str
) -> None:
    place = ConfigResource(ResourceType(resource[0]), resource[1])
    left = {"no.such.config": "x", "no.other.config": "y"}
    image = after(image, ConfigsReplaced(place, left))
    image = changed(image, resource, {known: (SET, "10"), "no.other.config": (DELETE, None)})
    assert image.configs[place] == {"no.such.config": "x", known: "10"}
    assert broker_settings_for(image, STATIC).log_cleaner_backoff_ms in (10, 15_000)
    settings = settings_for(image, "orders", topic_defaults_for(image, STATIC))
    assert settings.segment_ms in (10, 604_800_000)
    (result,) = change(image, resource, {"no.such.config": (SET, "z")}).answer
    assert result.error_code is not ErrorCode.NONE


def test_contradicting_broker_defaults_leave_a_topic_its_own_values(
    image: ClusterImage,
) -> None:
    image = changed(image, ORDERS, {"max.compaction.lag.ms": (SET, "10")})
    image = changed(image, ALL_BROKERS, {"log.cleaner.min.compaction.lag.ms": (SET, "11")})
    settings = settings_for(image, "orders", topic_defaults_for(image, STATIC))
    assert (settings.retention_ms, settings.max_compaction_lag_ms) == (5, 10)


def described(
    image: ClusterImage, resource: tuple[int, str], *keys: str, static: StaticConfig = STATIC
) -> DescribeConfigsResult:
    asked = DescribeConfigsResource(
        resource_type=resource[0], resource_name=resource[1], configuration_keys=keys or None
    )
    request = DescribeConfigsRequest(resources=(asked,), include_synonyms=True)
    return describe_config(image, asked, request, static)


def test_a_topic_config_is_described_with_all_its_sources(image: ClusterImage) -> None:
    static = StaticConfig.parse({"log.segment.bytes": "2000000"})
    image = changed(image, ALL_BROKERS, {"log.segment.bytes": (SET, "3000000")})
    image = changed(image, ORDERS, {"segment.bytes": (SET, "5000000")})
    name = "log.segment.bytes"
    assert described(image, ORDERS, "segment.bytes", static=static) == DescribeConfigsResult(
        error_message="",
        resource_type=2,
        resource_name="orders",
        configs=(
            DescribeConfigsResourceResult(
                name="segment.bytes",
                value="5000000",
                config_source=ConfigSource.TOPIC_CONFIG,
                synonyms=(
                    DescribeConfigsSynonym(name="segment.bytes", value="5000000", source=1),
                    DescribeConfigsSynonym(name=name, value="3000000", source=3),
                    DescribeConfigsSynonym(name=name, value="2000000", source=4),
                    DescribeConfigsSynonym(name=name, value="1073741824", source=5),
                ),
                config_type=ConfigType.INT,
                documentation=None,
            ),
        ),
    )


def test_a_retention_in_hours_is_described_as_a_default_without_synonyms(
    image: ClusterImage,
) -> None:
    """Kafka does the same: a topic names only its first synonym, log.retention.ms."""
    static = StaticConfig.parse({"log.retention.hours": "1"})
    image = changed(image, ORDERS, {"retention.ms": (DELETE, None)})
    (entry,) = described(image, ORDERS, "retention.ms", static=static).configs
    assert (entry.value, entry.config_source, entry.synonyms) == ("3600000", 5, ())


def test_a_broker_describes_itself_and_the_cluster_defaults(image: ClusterImage) -> None:
    image = changed(image, ALL_BROKERS, {"log.cleaner.backoff.ms": (SET, "2")})
    own = {entry.name: entry for entry in described(image, BROKER_0).configs}
    assert (own["log.cleaner.backoff.ms"].value, own["log.cleaner.backoff.ms"].config_source) == (
        "2",
        3,
    )
    assert own["num.partitions"].read_only
    assert not own["log.cleaner.backoff.ms"].read_only
    assert [entry.name for entry in described(image, ALL_BROKERS).configs] == [
        "log.cleaner.backoff.ms"
    ]
    assert described(image, (4, "7")).error_code is ErrorCode.INVALID_REQUEST
    assert described(image, (2, "gone")).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(image, (2, "a b")).error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert described(image, (16, "m")).error_code is ErrorCode.INVALID_REQUEST


def test_no_secret_is_described_as_a_value_or_synonym(image: ClusterImage) -> None:
    """Kafka returns null and marks the config as sensitive."""
    own = "listener.name.plaintext.ssl.key.password"
    static = StaticConfig.parse({"ssl.key.password": "tops3cret", own: "tops3cret"})
    found = {each.name: each for each in described(image, BROKER_0, static=static).configs}
    assert "tops3cret" not in repr((found, static))
    for name in (own, "ssl.key.password"):
        assert (found[name].value, found[name].is_sensitive) == (None, True)
        assert found[name].config_type == ConfigType.PASSWORD
    assert [each.name for each in found[own].synonyms] == [own, "ssl.key.password"]
    assert not found["ssl.client.auth"].is_sensitive


def test_a_secret_that_a_tool_set_for_all_brokers_is_not_described_either(
    image: ClusterImage,
) -> None:
    values = {"ssl.key.password": "tops3cret", "zookeeper.sync.time.ms": "1"}
    image = after(image, ConfigsReplaced(ALL_BROKERS, values))
    (only,) = described(image, ALL_BROKERS).configs
    assert (only.name, only.value, only.is_sensitive) == ("ssl.key.password", None, True)
    assert "tops3cret" not in repr(only)


def test_a_group_that_does_not_exist_may_have_configs_within_the_brokers_bounds(
    image: ClusterImage,
) -> None:
    """CF-1. The broker's values are described as defaults, under the group's names."""
    name = "consumer.session.timeout.ms"
    image = changed(image, READERS, {name: (SET, "50000")})
    entries = {entry.name: entry for entry in described(image, READERS).configs}
    assert entries[name].value == "50000"
    assert entries[name].config_source is ConfigSource.GROUP_CONFIG
    interval = entries["consumer.heartbeat.interval.ms"]
    assert (interval.value, interval.config_source) == ("5000", ConfigSource.DEFAULT_CONFIG)
    image = changed(image, READERS, {name: (DELETE, None)})
    assert READERS not in image.configs
    assert described(image, (32, "")).error_code is ErrorCode.INVALID_REQUEST
