"""Group settings of the broker and of single groups."""

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.broker_properties import known_settings, parse_broker_settings
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.group_settings import GROUP_SETTINGS, GroupSettings


def test_group_without_overrides_uses_the_broker_settings() -> None:
    broker = parse_broker_settings({"group.consumer.session.timeout.ms": "50000"})
    own = {"consumer.heartbeat.interval.ms": " 7000 "}
    assert GroupSettings.of(broker).with_overrides(own) == GroupSettings(
        consumer_heartbeat_interval_ms=7_000, consumer_session_timeout_ms=50_000
    )


def test_each_group_setting_overrides_a_broker_setting() -> None:
    for setting in GROUP_SETTINGS.values():
        assert setting.synonym in known_settings()


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"consumer.session.timeout.ms": "44999"}, "between 45000 and 60000"),
        ({"consumer.session.timeout.ms": "60001"}, "between 45000 and 60000"),
        ({"consumer.heartbeat.interval.ms": "4999"}, "between 5000 and 15000"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "between 5000 and 15000"),
        ({"consumer.heartbeat.interval.ms": "soon"}, "whole number"),
        ({"consumer.sesion.timeout.ms": "1"}, "did you mean consumer.session.timeout.ms"),
        ({"share.session.timeout.ms": "45000"}, "unknown group setting"),
    ],
)
def test_invalid_group_setting_is_rejected_with_the_reason(
    own: dict[str, str], reason: str
) -> None:
    broker = BrokerSettings()
    with pytest.raises(InvalidSetting, match=reason):
        GroupSettings.of(broker).with_overrides(own).check(broker)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"group.coordinator.rebalance.protocols": "consumer"}, "must contain classic"),
        ({"group.coordinator.rebalance.protocols": "classic,raft"}, "must be a list of"),
        ({"group.consumer.session.timeout.ms": "70000"}, "between 45000 and 60000"),
        ({"group.consumer.min.session.timeout.ms": "61000"}, "between 61000 and 60000"),
        ({"group.consumer.heartbeat.interval.ms": "1"}, "between 5000 and 15000"),
        (
            {
                "group.consumer.heartbeat.interval.ms": "45000",
                "group.consumer.max.heartbeat.interval.ms": "45000",
            },
            "must be longer",
        ),
        ({"group.consumer.assignors": ""}, "at least one"),
        ({"group.consumer.assignors": "range,range"}, "no duplicates"),
        ({"group.consumer.assignors": "com.example.Mine"}, "must be a list of"),
        ({"group.consumer.migration.policy": "sideways"}, "must be one of"),
    ],
)
def test_inconsistent_group_settings_prevent_the_start(texts: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        parse_broker_settings(texts)


def test_policy_may_be_upper_case_as_in_kafka() -> None:
    settings = parse_broker_settings({"group.consumer.migration.policy": "UPGRADE"})
    assert settings.group_consumer_migration_policy == "upgrade"
