"""The examples of Confluent's REST Proxy API reference, request by request.

v2: "Confluent REST Proxy API Reference", section API v2 (docs.confluent.io, kafka-rest/api.html).
v3: the examples of Confluent's OpenAPI document (confluentinc/kafka-rest, api/v3/openapi.yaml).

Requests are transcribed as published, except for the topic's number of replicas. Responses are
compared with the published ones: the same status, media type, fields and types, and the same values
where they do not depend on the cluster.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

from headwater.client import Admin
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.rest_server import (
    AVRO,
    BINARY,
    JSON,
    JSONSCHEMA,
    PROTOBUF,
    TIMEOUT_S,
    V2,
    Answer,
    RestServer,
)

ACCEPT = "application/vnd.kafka.v2+json, application/vnd.kafka+json, application/json"
INSTANCE = "/consumers/testgroup/instances/my_consumer"
INT = '{"name":"int","type": "int"}'
BILL = (
    '{"type":"record","name":"User","fields":'
    '[{"name":"id","type":"int"},{"name":"name","type":"string"}]}'
)

PROTO = 'syntax = "proto3"; message User { int32 id = 1; string name = 2; }'


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings: dict[str, int | str] = {
        "group.initial.rebalance.delay.ms": 0,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedBroker(settings) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for name in ("test", "test1", "test2", "topic-1"):
                admin.create_topic(name, partitions=3)
        yield broker


@pytest.fixture(scope="module")
def registry(broker: EmbeddedBroker) -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry(broker.bootstrap_servers) as registry:
        yield registry


@pytest.fixture(scope="module")
def rest(broker: EmbeddedBroker, registry: EmbeddedRegistry) -> Iterator[RestServer]:
    with RestServer(broker.bootstrap_servers, registry_url=registry.url) as rest:
        yield rest


def shape(value: Any) -> Any:
    """The fields and types of a JSON value; lists by their first item."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def v2(answer: Answer) -> Any:
    assert (answer.status, answer.media_type) == (200, V2), answer.raw
    return answer.json


# API v2: topics, partitions and brokers.


def test_get_topics(rest: RestServer) -> None:
    assert {"test1", "test2"} <= set(v2(rest.get("/topics", accept=V2)))


def test_get_topic(rest: RestServer) -> None:
    found = v2(rest.get("/topics/test", accept=V2))
    assert found["name"] == "test"
    assert found["configs"]["cleanup.policy"] == "delete"
    replica = {"broker": "int", "leader": "bool", "in_sync": "bool"}
    partition = {"partition": "int", "leader": "int", "replicas": [replica]}
    assert shape(found["partitions"]) == [partition]
    assert [each["partition"] for each in found["partitions"]] == [0, 1, 2]


def test_get_partitions(rest: RestServer) -> None:
    found = v2(rest.get("/topics/test/partitions", accept=ACCEPT))
    assert found[1] == {
        "partition": 1,
        "leader": 0,
        "replicas": [{"broker": 0, "leader": True, "in_sync": True}],
    }
    assert v2(rest.get("/topics/test/partitions/1", accept=ACCEPT)) == found[1]


def test_get_brokers(rest: RestServer) -> None:
    assert v2(rest.get("/brokers", accept=ACCEPT)) == {"brokers": [0]}


def test_unknown_topic_and_partition_have_the_documented_codes(rest: RestServer) -> None:
    assert rest.get("/topics/nosuch").json == {"error_code": 40401, "message": "Topic not found."}
    assert rest.get("/topics/nosuch/partitions").error_code == (404, 40401)
    assert rest.get("/topics/test/partitions/9").json == {
        "error_code": 40402,
        "message": "Partition not found.",
    }


# API v2: produce.


@pytest.mark.parametrize(
    ("content_type", "body", "has_schema"),
    [
        (
            BINARY,
            {
                "records": [
                    {"key": "a2V5", "value": "Y29uZmx1ZW50"},
                    {"value": "a2Fma2E=", "partition": 1},
                    {"value": "bG9ncw=="},
                ]
            },
            False,
        ),
        (
            AVRO,
            {"value_schema": INT, "records": [{"value": 12}, {"value": 24, "partition": 1}]},
            True,
        ),
        (
            JSON,
            {
                "records": [
                    {"key": "somekey", "value": {"foo": "bar"}},
                    {"value": ["foo", "bar"], "partition": 1},
                    {"value": 53.5},
                ]
            },
            False,
        ),
    ],
    ids=["binary", "avro", "json"],
)
def test_post_records_to_a_topic(
    rest: RestServer, content_type: str, body: dict[str, Any], has_schema: bool
) -> None:
    found = v2(rest.ask("POST", "/topics/test", body, content_type=content_type, accept=ACCEPT))
    assert found["key_schema_id"] is None
    assert isinstance(found["value_schema_id"], int) is has_schema
    assert len(found["offsets"]) == len(body["records"])
    assert found["offsets"][1]["partition"] == 1
    assert all(each["error_code"] is each["error"] is None for each in found["offsets"])


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (BINARY, {"records": [{"key": "a2V5", "value": "Y29uZmx1ZW50"}, {"value": "a2Fma2E="}]}),
        (AVRO, {"value_schema": INT, "records": [{"value": 25}, {"value": 26}]}),
        (JSON, {"records": [{"key": "somekey", "value": {"foo": "bar"}}, {"value": 53.5}]}),
    ],
    ids=["binary", "avro", "json"],
)
def test_post_records_to_a_partition(
    rest: RestServer, content_type: str, body: dict[str, Any]
) -> None:
    path = "/topics/test/partitions/1"
    found = v2(rest.ask("POST", path, body, content_type=content_type, accept=ACCEPT))
    first, second = found["offsets"]
    assert (first["partition"], second["partition"]) == (1, 1)
    assert second["offset"] == first["offset"] + 1


def test_schema_id_of_an_earlier_response_replaces_the_schema(rest: RestServer) -> None:
    first = v2(
        rest.post(
            "/topics/test", {"value_schema": INT, "records": [{"value": 1}]}, content_type=AVRO
        )
    )
    body = {"value_schema_id": first["value_schema_id"], "records": [{"value": 2}]}
    second = v2(rest.post("/topics/test", body, content_type=AVRO))
    assert second["value_schema_id"] == first["value_schema_id"]


def test_missing_and_invalid_schemas_have_the_documented_codes(rest: RestServer) -> None:
    def post(body: dict[str, Any]) -> tuple[int, int]:
        return rest.post("/topics/test", body, content_type=AVRO).error_code

    assert post({"value_schema": INT, "records": [{"key": 1, "value": 1}]}) == (422, 42201)
    assert post({"records": [{"value": 1}]}) == (422, 42202)
    assert post({"value_schema": INT, "records": [{"value": "text"}]}) == (422, 42203)
    assert post({"value_schema": '{"type": "nosuch"}', "records": [{"value": 1}]}) == (422, 42205)
    assert rest.post("/topics/test", {"records": []}, content_type=JSON).json == {
        "error_code": 422,
        "message": "records may not be empty",
    }


def test_records_are_readable_by_confluent_kafka(
    rest: RestServer, broker: EmbeddedBroker, registry: EmbeddedRegistry
) -> None:
    bodies: list[tuple[str, dict[str, Any]]] = [
        (BINARY, {"records": [{"key": "a2V5", "value": "AP8="}]}),
        (JSON, {"records": [{"key": "k", "value": {"ü": [1, None]}}]}),
        (AVRO, {"value_schema": BILL, "records": [{"value": {"id": 1, "name": "Bill"}}]}),
        (
            JSONSCHEMA,
            {"value_schema": '{"type":"object"}', "records": [{"value": {"id": 2}}]},
        ),
        (BINARY, {"records": [{"key": "a2V5", "value": None}]}),
    ]
    for kind, (content_type, body) in enumerate(bodies):
        answer = rest.post(f"/topics/judged-{kind}", body, content_type=content_type)
        assert answer.json["offsets"][0]["error_code"] is None, answer.raw
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "judge",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([f"judged-{kind}" for kind in range(len(bodies))])
    found: dict[str, tuple[bytes | None, bytes | None]] = {}
    while len(found) < len(bodies):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None, message.error()
        found[message.topic() or ""] = (message.key(), message.value())
    consumer.close()
    assert found["judged-0"] == (b"key", b"\x00\xff")
    assert found["judged-1"] == (b'"k"', '{"ü":[1,null]}'.encode())
    with SchemaRegistryClient({"url": registry.url}) as schemas:
        read = AvroDeserializer(schemas)
        assert read(found["judged-2"][1], None) == {"id": 1, "name": "Bill"}
    value = found["judged-3"][1]
    assert value is not None
    assert json.loads(value[5:]) == {"id": 2}
    assert found["judged-4"] == (b"key", None)


# API v2: consumer instances.


def test_consumer_instance_from_creation_to_deletion(rest: RestServer) -> None:
    body = {
        "name": "my_consumer",
        "format": "binary",
        "auto.offset.reset": "earliest",
        "auto.commit.enable": "false",
    }
    assert v2(rest.ask("POST", "/consumers/testgroup/", body, content_type=V2)) == {
        "instance_id": "my_consumer",
        "base_uri": f"{rest.url}{INSTANCE}",
    }
    assert rest.post("/consumers/testgroup/", body).error_code == (409, 40902)
    # Subscription.
    assert rest.post(f"{INSTANCE}/subscription", {"topics": ["test1", "test2"]}).status == 204
    assert v2(rest.get(f"{INSTANCE}/subscription", accept=V2)) == {"topics": ["test1", "test2"]}
    partitions = {"partitions": [{"topic": "test", "partition": 0}]}
    assert rest.post(f"{INSTANCE}/assignments", partitions).error_code == (409, 40903)
    assert rest.ask("DELETE", f"{INSTANCE}/subscription", accept=ACCEPT).status == 204
    assert rest.post(f"{INSTANCE}/subscription", {"topic_pattern": "test.*"}).status == 204
    assert rest.ask("DELETE", f"{INSTANCE}/subscription").status == 204
    # Manual assignment.
    both = {"partitions": [{"topic": "test", "partition": 0}, {"topic": "test", "partition": 1}]}
    assert rest.post(f"{INSTANCE}/assignments", both).status == 204
    assert v2(rest.get(f"{INSTANCE}/assignments", accept=V2)) == both
    # Offsets: the request names the last record, the response the next one.
    offsets = {
        "offsets": [
            {"topic": "test", "partition": 0, "offset": 20},
            {"topic": "test", "partition": 1, "offset": 30},
        ]
    }
    assert rest.post(f"{INSTANCE}/offsets", offsets).status == 200
    assert v2(rest.ask("GET", f"{INSTANCE}/offsets", both, accept=ACCEPT)) == {
        "offsets": [
            {"topic": "test", "partition": 0, "offset": 21, "metadata": ""},
            {"topic": "test", "partition": 1, "offset": 31, "metadata": ""},
        ]
    }
    assert rest.get(f"{INSTANCE}/offsets").error_code == (404, 40402)
    # Positions.
    assert rest.post(f"{INSTANCE}/positions", offsets).status == 204
    assert rest.post(f"{INSTANCE}/positions/end", both).status == 204
    assert rest.post(f"{INSTANCE}/positions/beginning", both).status == 204
    # Deletion.
    assert rest.ask("DELETE", INSTANCE, accept=ACCEPT).status == 204
    missing = {"error_code": 40403, "message": "Consumer instance not found."}
    assert rest.ask("DELETE", INSTANCE).json == missing
    assert rest.get(f"{INSTANCE}/records").json == missing


@pytest.mark.parametrize(
    ("content_type", "name", "produced", "consumed"),
    [
        (
            BINARY,
            "binary",
            {"records": [{"key": "a2V5", "value": "Y29uZmx1ZW50"}]},
            {"key": "a2V5", "value": "Y29uZmx1ZW50"},
        ),
        (
            AVRO,
            "avro",
            {
                "key_schema": INT,
                "value_schema": BILL,
                "records": [{"key": 2, "value": {"id": 2, "name": "Melinda"}}],
            },
            {"key": 2, "value": {"id": 2, "name": "Melinda"}},
        ),
        (
            JSON,
            "json",
            {"records": [{"key": "somekey", "value": ["foo", "bar"]}]},
            {"key": "somekey", "value": ["foo", "bar"]},
        ),
        (
            JSONSCHEMA,
            "jsonschema",
            {"value_schema": '{"type":"object"}', "records": [{"value": {"id": 1}}]},
            {"key": None, "value": {"id": 1}},
        ),
        (
            PROTOBUF,
            "protobuf",
            {
                "value_schema": PROTO,
                "records": [{"value": {"id": 2, "name": "Melinda"}}],
            },
            {"key": None, "value": {"id": 2, "name": "Melinda"}},
        ),
    ],
    ids=["binary", "avro", "json", "jsonschema", "protobuf"],
)
def test_get_records(
    rest: RestServer,
    content_type: str,
    name: str,
    produced: dict[str, Any],
    consumed: dict[str, Any],
) -> None:
    topic, group = f"read-{name}", f"{name}group"
    assert rest.post(f"/topics/{topic}", produced, content_type=content_type).status == 200
    body = {"name": "reader", "format": name, "auto.offset.reset": "earliest"}
    assert rest.post(f"/consumers/{group}", body).status == 200
    instance = f"/consumers/{group}/instances/reader"
    assert rest.post(f"{instance}/subscription", {"topics": [topic]}).status == 204
    path = f"{instance}/records?timeout=3000&max_bytes=300000"
    while not (answer := rest.get(path, accept=content_type)).json:
        assert (answer.status, answer.media_type) == (200, content_type)
    assert answer.json == [{"topic": topic, "partition": 0, "offset": 0, **consumed}]
    other = JSON if content_type is BINARY else BINARY
    assert rest.get(path, accept=other).error_code == (406, 40601)
    assert rest.ask("DELETE", instance).status == 204


# API v3.


def v3(answer: Answer, status: int = 200) -> Any:
    assert (answer.status, answer.media_type) == (status, "application/json"), answer.raw
    return answer.json


def test_clusters_and_brokers(rest: RestServer) -> None:
    listed = v3(rest.get("/v3/clusters"))
    cluster_id = listed["data"][0]["cluster_id"]
    cluster = f"{rest.url}/v3/clusters/{cluster_id}"
    assert listed == {
        "kind": "KafkaClusterList",
        "metadata": {"self": f"{rest.url}/v3/clusters", "next": None},
        "data": [
            {
                "kind": "KafkaCluster",
                "metadata": {"self": cluster, "resource_name": f"crn:///kafka={cluster_id}"},
                "cluster_id": cluster_id,
                "controller": {"related": f"{cluster}/brokers/0"},
                "acls": {"related": f"{cluster}/acls"},
                "brokers": {"related": f"{cluster}/brokers"},
                "broker_configs": {"related": f"{cluster}/broker-configs"},
                "consumer_groups": {"related": f"{cluster}/consumer-groups"},
                "topics": {"related": f"{cluster}/topics"},
                "partition_reassignments": {
                    "related": f"{cluster}/topics/-/partitions/-/reassignment"
                },
            }
        ],
    }
    assert v3(rest.get(rest.cluster)) == listed["data"][0]
    brokers = v3(rest.get(f"{rest.cluster}/brokers"))
    assert (brokers["kind"], len(brokers["data"])) == ("KafkaBrokerList", 1)
    broker = v3(rest.get(f"{rest.cluster}/brokers/0"))
    assert broker == brokers["data"][0]
    assert broker["configs"] == {"related": f"{cluster}/brokers/0/configs"}
    assert rest.get("/v3/clusters/my-cluster").json == {
        "error_code": 404,
        "message": "Cluster my-cluster cannot be found.",
    }


def test_topic_from_creation_to_deletion(rest: RestServer) -> None:
    cluster = rest.cluster
    body = {
        "topic_name": "topic-X",
        "partitions_count": 64,
        "replication_factor": 1,
        "configs": [
            {"name": "cleanup.policy", "value": "compact"},
            {"name": "compression.type", "value": "gzip"},
        ],
    }
    trial = v3(rest.post(f"{cluster}/topics", {**body, "validate_only": True}))
    assert (trial["partitions_count"], trial["replication_factor"]) == (64, 1)
    answer = rest.post(f"{cluster}/topics", body)
    created = v3(answer, 201)
    assert answer.headers["location"] == created["metadata"]["self"]
    url = f"{rest.url}{cluster}/topics/topic-X"
    assert created == {
        "kind": "KafkaTopic",
        "metadata": {
            "self": url,
            "resource_name": f"crn:///kafka={created['cluster_id']}/topic=topic-X",
        },
        "cluster_id": cluster.rpartition("/")[2],
        "topic_name": "topic-X",
        "is_internal": False,
        "replication_factor": 1,
        "partitions_count": 64,
        "partitions": {"related": f"{url}/partitions"},
        "configs": {"related": f"{url}/configs"},
        "partition_reassignments": {"related": f"{url}/partitions/-/reassignment"},
        "authorized_operations": [],
    }
    again = rest.post(f"{cluster}/topics", body)
    assert again.error_code == (400, 40002)
    assert "already exists" in again.json["message"]
    assert (
        v3(rest.ask("PATCH", f"{cluster}/topics/topic-X", {"partitions_count": 70}))[
            "partitions_count"
        ]
        == 70
    )
    fewer = rest.ask("PATCH", f"{cluster}/topics/topic-X", {"partitions_count": 10})
    assert fewer.error_code == (400, 40002)
    assert rest.ask("DELETE", f"{cluster}/topics/topic-X").status == 204
    assert rest.get(f"{cluster}/topics/topic-X").json == {
        "error_code": 40403,
        "message": "This server does not host this topic-partition.",
    }


def test_explicit_replicas_assignments(rest: RestServer) -> None:
    body = {"topic_name": "topic-Y", "replicas_assignments": {"0": [0], "1": [0], "2": [0]}}
    assert v3(rest.post(f"{rest.cluster}/topics", body), 201)["partitions_count"] == 3


def test_topic_configs(rest: RestServer) -> None:
    path = f"{rest.cluster}/topics/topic-1/configs"
    assert rest.ask("PUT", f"{path}/compression.type", {"value": "gzip"}).status == 204
    found = v3(rest.get(f"{path}/compression.type"))
    assert found == {
        "kind": "KafkaTopicConfig",
        "metadata": {
            "self": f"{rest.url}{path}/compression.type",
            "resource_name": f"crn:///kafka={found['cluster_id']}"
            "/topic=topic-1/config=compression.type",
        },
        "cluster_id": found["cluster_id"],
        "topic_name": "topic-1",
        "name": "compression.type",
        "value": "gzip",
        "is_default": False,
        "is_read_only": False,
        "is_sensitive": False,
        "source": "DYNAMIC_TOPIC_CONFIG",
        "synonyms": [
            {"name": "compression.type", "value": "gzip", "source": "DYNAMIC_TOPIC_CONFIG"}
        ],
    }
    listed = v3(rest.get(path))
    assert listed["kind"] == "KafkaTopicConfigList"
    assert found in listed["data"]
    batch = {
        "data": [
            {"name": "cleanup.policy", "operation": "DELETE"},
            {"name": "compression.type", "value": "snappy"},
        ]
    }
    assert rest.post(f"{path}:alter", {**batch, "validate_only": True}).status == 204
    assert v3(rest.get(f"{path}/compression.type"))["value"] == "gzip"
    assert rest.post(f"{path}:alter", batch).status == 204
    assert v3(rest.get(f"{path}/compression.type"))["value"] == "snappy"
    assert rest.ask("DELETE", f"{path}/compression.type").status == 204
    assert v3(rest.get(f"{path}/compression.type"))["is_default"] is True


@pytest.mark.parametrize("owner", ["broker-configs", "brokers/0/configs"])
def test_broker_configs(rest: RestServer, owner: str) -> None:
    path = f"{rest.cluster}/{owner}"
    batch = {
        "data": [
            {"name": "max.connections", "operation": "DELETE"},
            {"name": "compression.type", "value": "gzip"},
        ]
    }
    assert rest.post(f"{path}:alter", batch).status == 204
    assert v3(rest.get(f"{path}/compression.type"))["value"] == "gzip"
    assert rest.ask("PUT", f"{path}/compression.type", {"value": "lz4"}).status == 204
    assert any(each["value"] == "lz4" for each in v3(rest.get(path))["data"])
    assert rest.ask("DELETE", f"{path}/compression.type").status == 204


def test_partitions_and_replicas(rest: RestServer) -> None:
    path = f"{rest.cluster}/topics/topic-1/partitions"
    listed = v3(rest.get(path))
    assert (listed["kind"], len(listed["data"])) == ("KafkaPartitionList", 3)
    partition = v3(rest.get(f"{path}/1"))
    assert partition in listed["data"]
    assert partition["leader"] == {"related": f"{rest.url}{path}/1/replicas/0"}
    replicas = v3(rest.get(f"{path}/1/replicas"))
    assert replicas["kind"] == "KafkaReplicaList"
    replica = v3(rest.get(f"{path}/1/replicas/0"))
    assert replicas["data"] == [replica]
    assert (replica["is_leader"], replica["is_in_sync"]) == (True, True)
    assert replica in v3(rest.get(f"{rest.cluster}/brokers/0/partition-replicas"))["data"]
    offsets = v3(rest.get(f"{path}/1/offset"))
    assert (offsets["earliest_offset"], offsets["latest_offset"]) == (0, 0)
    assert v3(rest.get(f"{rest.cluster}/topics/-/partitions/-/reassignment"))["data"] == []


def test_acls(rest: RestServer) -> None:
    path = f"{rest.cluster}/acls"
    acl = {
        "resource_type": "CLUSTER",
        "resource_name": "kafka-cluster",
        "pattern_type": "LITERAL",
        "principal": "principalType:principalName",
        "host": "*",
        "operation": "DESCRIBE",
        "permission": "DENY",
    }
    assert rest.post(path, acl).status == 201
    batch = {"data": [acl, {**acl, "resource_type": "TOPIC", "operation": "READ"}]}
    assert rest.post(f"{path}:batch", batch).status == 201
    found = v3(rest.get(f"{path}?principal=principalType:principalName&resource_type=CLUSTER"))
    assert found["kind"] == "KafkaAclList"
    assert [{name: each[name] for name in acl} for each in found["data"]] == [acl]
    wrong = rest.post(path, {**acl, "resource_name": "my-cluster"})
    assert wrong.json == {
        "error_code": 40002,
        "message": "The only valid name for the CLUSTER resource is kafka-cluster",
    }
    assert rest.ask("DELETE", path).json["error_code"] == 400
    query = "resource_type=ANY&pattern_type=ANY&operation=ANY&permission=ANY"
    deleted = v3(rest.ask("DELETE", f"{path}?{query}&principal=principalType:principalName"))
    assert len(deleted["data"]) == 2
    assert v3(rest.get(path))["data"] == []


def test_consumer_group_and_lag(rest: RestServer) -> None:
    produced = {"records": [{"value": each, "partition": 0} for each in range(5)]}
    assert rest.post("/topics/topic-1", produced, content_type=JSON).status == 200
    body = {"name": "consumer-1", "format": "json", "auto.offset.reset": "earliest"}
    rest.post("/consumers/consumer-group-1", body)
    instance = "/consumers/consumer-group-1/instances/consumer-1"
    rest.post(f"{instance}/subscription", {"topics": ["topic-1"]})
    while not rest.get(f"{instance}/records?max_bytes=2").json:
        pass
    assert rest.post(f"{instance}/offsets").status == 200
    group = f"{rest.cluster}/consumer-groups/consumer-group-1"
    url = f"{rest.url}{group}"
    found = v3(rest.get(group))
    assert (found["kind"], found["state"], found["is_simple"]) == (
        "KafkaConsumerGroup",
        "STABLE",
        False,
    )
    assert found["lag_summary"] == {"related": f"{url}/lag-summary"}
    assert found in v3(rest.get(f"{rest.cluster}/consumer-groups"))["data"]
    consumer = v3(rest.get(f"{group}/consumers"))["data"][0]
    consumer_id = consumer["consumer_id"]
    assert v3(rest.get(f"{group}/consumers/{consumer_id}")) == consumer
    assigned = v3(rest.get(f"{group}/consumers/{consumer_id}/assignments"))["data"]
    assert [each["partition_id"] for each in assigned] == [0, 1, 2]
    one = f"{group}/consumers/{consumer_id}/assignments/topic-1/partitions/1"
    assert v3(rest.get(one)) == assigned[1]
    lag = v3(rest.get(f"{group}/lags/topic-1/partitions/0"))
    assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (2, 5, 3)
    assert lag in v3(rest.get(f"{group}/lags"))["data"]
    summary = v3(rest.get(f"{group}/lag-summary"))
    assert (summary["max_lag"], summary["total_lag"], summary["max_lag_partition_id"]) == (3, 3, 0)
    assert summary["max_lag_consumer"] == {"related": f"{url}/consumers/{consumer_id}"}
    assert rest.ask("DELETE", instance).status == 204


def test_produce_binary_and_json(rest: RestServer) -> None:
    record = {
        "partition_id": 1,
        "headers": [
            {"name": "Header-1", "value": "SGVhZGVyLTE="},
            {"name": "Header-2", "value": "SGVhZGVyLTI="},
        ],
        "key": {"type": "BINARY", "data": "Zm9vYmFy"},
        "value": {"type": "JSON", "data": {"foo": "bar"}},
        "timestamp": "2021-02-05T19:14:42Z",
    }
    found = v3(rest.post(f"{rest.cluster}/topics/test/records", record))
    assert found == {
        "error_code": 200,
        "cluster_id": rest.cluster.rpartition("/")[2],
        "topic_name": "test",
        "partition_id": 1,
        "offset": found["offset"],
        "timestamp": "2021-02-05T19:14:42.000Z",
        "key": {"type": "BINARY", "size": 6},
        "value": {"type": "JSON", "size": 13},
    }


def test_produce_with_schemas(rest: RestServer) -> None:
    path = f"{rest.cluster}/topics/orders/records"
    raw = {
        "value": {
            "type": "AVRO",
            "subject": "orders-value",
            "schema": '{"type":"string"}',
            "data": "foobar",
        }
    }
    first = v3(rest.post(path, raw))["value"]
    assert (first["type"], first["subject"], first["schema_version"]) == ("AVRO", "orders-value", 1)
    for value in (
        {"subject_name_strategy": "TOPIC_NAME", "schema_id": first["schema_id"], "data": "a"},
        {"schema_version": 1, "data": "b"},
        {"data": "foobar"},
    ):
        found = v3(rest.post(path, {"value": value}))
        assert (found["error_code"], found["value"]["schema_id"]) == (200, first["schema_id"])
    empty = v3(rest.post(path, {"value": {"schema_version": 1, "data": None}}))
    assert (empty["error_code"], empty["value"]["size"]) == (200, 0)
    wrong = v3(rest.post(path, {"value": {"schema_version": 1, "data": 5}}))
    assert wrong["error_code"] == 400


def test_produce_stream_has_a_result_per_record_in_order(rest: RestServer) -> None:
    path = f"{rest.cluster}/topics/topic-2/records"
    texts = [{"value": {"type": "STRING", "data": f"My message {each}"}} for each in range(20)]
    bad = {"value": {"type": "BINARY", "data": 1}}
    raw = "\n".join(json.dumps(each) for each in [*texts[:10], bad, *texts[10:]]).encode()
    answer = rest.post(path, raw)
    results = [json.loads(line) for line in answer.raw.splitlines()]
    assert [each["error_code"] for each in results] == [*[200] * 10, 400, *[200] * 10]
    assert [each["offset"] for each in results if "offset" in each] == list(range(20))
    assert results[10]["message"] == "Bad Request: data=1 is not a base64 string."


def test_produce_batch(rest: RestServer) -> None:
    path = f"{rest.cluster}/topics/topic-3/records:batch"
    entries = [
        {"id": "1", "value": {"type": "STRING", "data": "My first message"}},
        {"id": "2", "value": {"type": "BINARY", "data": 1}},
    ]
    found = v3(rest.post(path, {"entries": entries}), 207)
    assert [(each["id"], each["offset"]) for each in found["successes"]] == [("1", 0)]
    assert found["failures"] == [
        {
            "id": "2",
            "error_code": 400,
            "message": "Bad Request: data=1 is not a base64 string.",
        }
    ]
    twice = [entries[0], entries[0]]
    assert rest.post(path, {"entries": twice}).error_code == (422, 42208)


def test_errors_of_v3(rest: RestServer) -> None:
    path = f"{rest.cluster}/topics/test/records"
    assert rest.post(path, b"").error_code == (422, 42206)
    assert rest.ask("POST", path, b"{}", content_type="text/plain").json == {
        "error_code": 415,
        "message": "HTTP 415 Unsupported Media Type",
    }
    assert rest.get("/v3/nosuch").json == {"error_code": 404, "message": "HTTP 404 Not Found"}
