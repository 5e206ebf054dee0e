"""Configs of single groups."""

from headwater.protocol.messages.describe_configs import DescribeConfigsResponse
from headwater.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headwater.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.peers.lab import Lab
from tests.peers.scenarios.configs import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    SET,
    alter,
    by_name,
    describe,
    replacing,
)

_SESSION = "consumer.session.timeout.ms"
_INTERVAL = "consumer.heartbeat.interval.ms"


def _await(lab: Lab, group: str, key: str, value: str) -> None:
    lab.until(
        describe(GROUP, group, [key]),
        DescribeConfigsResponse,
        lambda answer: [each.value for each in answer.results[0].configs] == [value],
    )


def of_one_group(lab: Lab) -> None:
    group = lab.named()
    for version in (1, 4):
        lab.note(f"version {version}", by_name(lab, describe(GROUP, group), version))
    full = describe(GROUP, group, synonyms=True, documentation=True)
    lab.note("with synonyms and documentation", by_name(lab, full))
    lab.show("set", alter(GROUP, group, (SET, _SESSION, "50000"), (SET, _INTERVAL, "7000")))
    _await(lab, group, _SESSION, "50000")
    lab.note("what was set", by_name(lab, full))
    some = describe(GROUP, group, [_INTERVAL, "no.such.config"], synonyms=True)
    lab.note("some", by_name(lab, some))
    listed = lab.get(
        ListConfigResourcesRequest(resource_types=(GROUP,)), ListConfigResourcesResponse
    )
    mine = [each for each in listed.config_resources if each.resource_name == group]
    lab.note("listed", [lab.plain(each, 1) for each in mine])
    lab.show("delete", alter(GROUP, group, (DELETE, _SESSION, None)))
    _await(lab, group, _SESSION, "45000")
    lab.note("what is left", by_name(lab, full))
    lab.show("replace", replacing(GROUP, group, consumer_session_timeout_ms="46000"))
    _await(lab, group, _SESSION, "46000")
    lab.note("what was not named is gone", by_name(lab, full))


def refusals(lab: Lab) -> None:
    group = lab.named()
    for label, name, changes in (
        ("no name", "", [(SET, _SESSION, "50000")]),
        ("unknown config", group, [(SET, "no.such.config", "1")]),
        ("a config of a topic", group, [(SET, "retention.ms", "1")]),
        ("a config of the broker", group, [(SET, "group.consumer.session.timeout.ms", "1")]),
        ("no number", group, [(SET, _SESSION, "soon")]),
        ("zero", group, [(SET, _SESSION, "0")]),
        ("null", group, [(SET, _SESSION, None)]),
        ("too short a session", group, [(SET, _SESSION, "44999")]),
        ("too long a session", group, [(SET, _SESSION, "60001")]),
        ("too short an interval", group, [(SET, _INTERVAL, "4999")]),
        ("too long an interval", group, [(SET, _INTERVAL, "15001")]),
        ("append", group, [(APPEND, _SESSION, "1")]),
        ("delete what is not there", group, [(DELETE, _SESSION, None)]),
        ("delete an unknown one", group, [(DELETE, "no.such.config", None)]),
        ("nothing", group, []),
    ):
        lab.show(label, alter(GROUP, name, *changes))
    checked = alter(GROUP, group, (SET, _SESSION, "50000"))
    lab.show(
        "validate only",
        IncrementalAlterConfigsRequest(resources=checked.resources, validate_only=True),
    )
    lab.note("not changed", by_name(lab, describe(GROUP, group, [_SESSION])))
    lab.show("replace by an unknown one", replacing(GROUP, group, no_such_config="1"))


def of_the_broker(lab: Lab) -> None:
    names = (
        "group.consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.size",
        "group.consumer.assignors",
        "group.consumer.migration.policy",
        "group.coordinator.append.linger.ms",
        "group.coordinator.rebalance.protocols",
        "group.coordinator.threads",
        "group.max.session.timeout.ms",
        "group.max.size",
        "offset.metadata.max.bytes",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "offsets.topic.segment.bytes",
    )
    lab.note("broker 1", by_name(lab, describe(BROKER, "1", names, synonyms=True)))
