"""The same scenarios on Apache Kafka and on Headwater; the responses must be equal, field by field.

Intended differences are in `intended`. All others are bugs.
"""

import os

import pytest

from headwater.common.settings.server_properties import supported_properties
from headwater.protocol.messages.describe_configs import DescribeConfigsResponse
from tests.peers.apache_kafka import NODE_ID, ApacheKafka
from tests.peers.headwater_broker import HeadwaterBroker
from tests.peers.intended import INTENDED, Intended
from tests.peers.lab import Lab
from tests.peers.scenarios.catalog import SCENARIOS
from tests.peers.scenarios.configs import BROKER, describe
from tests.peers.transcript import Difference, Plain, differences


def transcript(scenario: str, bootstrap_servers: str) -> Plain:
    lab = Lab(scenario, bootstrap_servers)
    try:
        SCENARIOS[scenario](lab)
    finally:
        lab.client.close()
    return lab.transcript


def unexplained(scenario: str, found: list[Difference]) -> tuple[list[Difference], list[Intended]]:
    """Unintended differences, and intended ones of this scenario that did not occur."""
    of_scenario = [each for each in INTENDED if each.covers(scenario)]
    without = [
        difference
        for difference in found
        if not any(each.explains(difference) for each in of_scenario)
    ]
    stale = [
        each for each in of_scenario if not any(each.explains(difference) for difference in found)
    ]
    return without, stale


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_responses_are_those_of_kafka(
    scenario: str, apache_kafka: ApacheKafka, headwater: HeadwaterBroker
) -> None:
    kafka = transcript(scenario, apache_kafka.bootstrap_servers)
    ours = transcript(scenario, headwater.bootstrap_servers)
    without, stale = unexplained(scenario, list(differences(kafka, ours)))
    assert not without, os.linesep.join(map(str, without))
    assert not stale, f"these differ no more: {stale}"


def test_every_broker_setting_of_kafka_is_known(apache_kafka: ApacheKafka) -> None:
    """Kafka's `server.properties` starts a broker here, without warnings of unknown settings."""
    lab = Lab("every-broker-setting", apache_kafka.bootstrap_servers)
    try:
        answer = lab.get(describe(BROKER, str(NODE_ID)), DescribeConfigsResponse)
    finally:
        lab.client.close()
    names = [each.name for each in answer.results[0].configs]
    assert len(names) > 300
    # Without values, so that none stops the start.
    texts = dict.fromkeys(names, "") | {"process.roles": "broker,controller"}
    assert supported_properties(texts).unknown == {}
