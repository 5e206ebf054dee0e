"""Settings of groups, the broker's and their own, and what they must be to fit together."""

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.broker_properties import known_settings, parse_broker_settings
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.group_settings import GROUP_SETTINGS, GroupSettings


def test_a_group_obeys_the_broker_where_it_has_nothing_of_its_own() -> None:
    broker = parse_broker_settings({"group.consumer.session.timeout.ms": "50000"})
    own = {"consumer.heartbeat.interval.ms": " 7000 "}
    assert GroupSettings.of(broker).with_overrides(own) == GroupSettings(
        consumer_heartbeat_interval_ms=7_000, consumer_session_timeout_ms=50_000
    )


def test_each_setting_of_a_group_overrules_one_of_the_broker() -> None:
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
def test_what_a_group_may_not_have_is_refused_with_the_reason(
    own: dict[str, str], reason: str
) -> None:
    broker = BrokerSettings()
    with pytest.raises(InvalidSetting, match=reason):
        GroupSettings.of(broker).with_overrides(own).check(broker)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"group.coordinator.rebalance.protocols": "consumer"}, "without classic"),
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
        ({"group.consumer.assignors": "range,range"}, "none twice"),
        ({"group.consumer.assignors": "com.example.Mine"}, "must be a list of"),
        ({"group.consumer.migration.policy": "sideways"}, "must be one of"),
    ],
)
def test_a_broker_refuses_to_start_with_settings_of_groups_that_make_no_sense(
    texts: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        parse_broker_settings(texts)


def test_a_policy_may_be_written_in_capitals_as_kafka_allows() -> None:
    settings = parse_broker_settings({"group.consumer.migration.policy": "UPGRADE"})
    assert settings.group_consumer_migration_policy == "upgrade"
