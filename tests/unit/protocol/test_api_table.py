"""API table, compared with kio, which is generated from Kafka's message schemas."""

import pytest
from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map

from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS, Api
from tests.property.protocol.kio_judge import JUDGED

# kio is of Kafka 4.2, which has these newer versions; AlterPartition 2 is not needed.
NEWER_IN_KIO = {
    ApiKey.LIST_OFFSETS: 11,
    ApiKey.WRITE_TXN_MARKERS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 5,
    ApiKey.BROKER_HEARTBEAT: 2,
    ApiKey.ADD_RAFT_VOTER: 1,
}
OLDER_IN_KIO = {ApiKey.ALTER_PARTITION: 2}


@pytest.mark.parametrize("api", JUDGED, ids=lambda api: api.name)
def test_names_and_versions_are_kafkas(api: Api) -> None:
    name = api_key_map[api.key]
    assert api.key.name.lower() == name
    versions = sorted(schema_name_map[name])
    assert versions[0] == OLDER_IN_KIO.get(api.key, api.oldest)
    assert versions[-1] == NEWER_IN_KIO.get(api.key, api.newest)


@pytest.mark.parametrize("api", JUDGED, ids=lambda api: api.name)
def test_the_first_flexible_version_is_kafkas(api: Api) -> None:
    for version in (api.oldest, api.flexible_since - 1, api.flexible_since, api.newest):
        if api.oldest <= version <= api.newest:
            flexible = load_request_schema(api.key, version).__flexible__
            assert api.is_flexible(version) == flexible


def test_names_have_kafkas_spelling() -> None:
    assert APIS[ApiKey.LIST_OFFSETS].name == "ListOffsets"
    assert APIS[ApiKey.ADD_PARTITIONS_TO_TXN].name == "AddPartitionsToTxn"


def test_produce_is_announced_from_0_but_served_from_3() -> None:
    """KAFKA-18659: librdkafka would not compress otherwise."""
    produce = APIS[ApiKey.PRODUCE]
    assert produce.announced_since == 0
    assert not produce.serves(2, unstable=True)
    assert produce.serves(3, unstable=False)


def test_an_unstable_version_is_served_only_on_request() -> None:
    assert not APIS[ApiKey.OFFSET_FETCH].serves(10, unstable=False)
    assert APIS[ApiKey.OFFSET_FETCH].serves(10, unstable=True)


def test_inter_broker_apis_and_versions() -> None:
    assert [api.name for api in APIS.values() if api.between_brokers] == [
        "LeaderAndIsr",
        "StopReplica",
        "UpdateMetadata",
        "ControlledShutdown",
        "WriteTxnMarkers",
        "Vote",
        "BeginQuorumEpoch",
        "EndQuorumEpoch",
        "AlterPartition",
        "Envelope",
        "FetchSnapshot",
        "BrokerRegistration",
        "BrokerHeartbeat",
        "AllocateProducerIds",
        "ControllerRegistration",
        "AssignReplicasToDirs",
        "UpdateRaftVoter",
    ]
