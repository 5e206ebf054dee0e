"""Configs of connectors: what is accepted, and which property an error names."""

from collections.abc import Mapping

import pytest

from headwater.connect.runtime.connector_config import (
    ConfigProblem,
    InvalidConnectorConfig,
    TopicCreation,
    read_connector_config,
)
from headwater.connect.runtime.connector_plugins import PluginType, find_plugin
from headwater.connect.runtime.herder import FOREVER, RetryPolicy
from headwater.connect.runtime.rest.config_infos import config_infos

SOURCE: Mapping[str, str] = {
    "name": "in",
    "connector.class": "FilesSource",
    "topic": "orders",
    "path": "drop",
    "format": "json",
}
SINK: Mapping[str, str] = {
    "name": "out",
    "connector.class": "FilesSink",
    "topics": "orders, more",
    "schema": "id bigint, name string",
    "path": "lake",
}


def problems(config: Mapping[str, str]) -> list[str]:
    with pytest.raises(InvalidConnectorConfig) as failure:
        read_connector_config(config)
    return [each.name for each in failure.value.problems]


def test_a_source_is_divided_into_common_properties_and_options() -> None:
    found = read_connector_config(
        {
            **SOURCE,
            "key": "id",
            "poll.interval.ms": "250",
            "topic.creation.default.partitions": "3",
            "producer.override.linger.ms": "5",
            "errors.retry.timeout": "-1",
        }
    )
    assert (found.name, found.topic, found.key) == ("in", "orders", "id")
    assert found.options == {"path": "drop", "format": "json"}
    assert found.poll_interval_ms == 250
    assert found.topic_creation == TopicCreation(partitions=3, replication_factor=-1)
    assert found.producer_overrides == {"linger.ms": "5"}
    assert found.retry == RetryPolicy(timeout_ms=FOREVER)


def test_a_sink_has_topics_and_a_schema() -> None:
    found = read_connector_config(SINK)
    assert found.topics == ("orders", "more")
    assert found.schema == "id bigint, name string"
    assert found.plugin.type is PluginType.SINK


def test_an_installed_name_is_a_sink_if_it_has_topics() -> None:
    assert find_plugin("files", SINK).class_name.endswith("FilesSink")
    assert find_plugin("files", SOURCE).class_name.endswith("FilesSource")
    assert find_plugin("headwater.connect.files_connector.FilesSink", {}).name == "files"


def test_a_source_with_topics_of_its_own_is_no_sink() -> None:
    config = {
        "name": "cdc",
        "connector.class": "postgresql-cdc",
        "uri": "postgresql://db/shop",
        "table.include.list": "public.orders",
        "topic.prefix": "shop",
        "topics": "one",
    }
    found = read_connector_config(config)
    assert found.plugin.type is PluginType.SOURCE
    assert found.options["topics"] == "one"
    assert problems({**config, "topic": "orders"}) == ["topic"]


def test_the_key_option_of_a_sink_may_be_several_columns() -> None:
    config = {**SINK, "connector.class": "PostgresqlSink", "uri": "postgresql://db", "table": "t"}
    del config["path"]
    found = read_connector_config({**config, "key": "id,name"})
    assert (found.key, found.options["key"]) == (None, "id,name")
    found = read_connector_config({**config, "key": "id"})
    assert (found.key, found.options["key"]) == ("id", "id")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"connector.class": "FileStreamSource"}, ["connector.class"]),
        ({"connector.class": ""}, ["connector.class"]),
        ({"name": ""}, ["name"]),
        ({"pth": "x"}, ["pth"]),
        ({"topic": ""}, ["topic"]),
        ({"topic": "a/b"}, ["topic"]),
        ({"tasks.max": "0"}, ["tasks.max"]),
        ({"poll.interval.ms": "soon"}, ["poll.interval.ms"]),
        ({"transforms": "mask"}, ["transforms"]),
        ({"value.converter": "JsonConverter"}, ["value.converter.schemas.enable"]),
        ({"value.converter.schemas.enable": "true"}, ["value.converter.schemas.enable"]),
        ({"producer.override.acks": "1"}, ["producer.override.acks"]),
        ({"errors.tolerance": "all"}, ["errors.tolerance"]),
        ({"errors.retry.timeout": "-2", "tasks.max": "x"}, ["tasks.max", "errors.retry.timeout"]),
    ],
)
def test_problems_of_a_source_name_the_property(
    change: Mapping[str, str], named: list[str]
) -> None:
    assert problems({**SOURCE, **change}) == named


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"topics": ""}, ["topics"]),
        ({"topics.regex": "o.*"}, ["topics"]),
        ({"topics": "", "topics.regex": "("}, ["topics.regex"]),
        ({"schema": ""}, ["schema"]),
        ({"schema": "id big"}, ["schema"]),
        ({"key": "other"}, ["key"]),
        ({"errors.deadletterqueue.topic.name": "dlq"}, ["errors.deadletterqueue.topic.name"]),
    ],
)
def test_problems_of_a_sink_name_the_property(change: Mapping[str, str], named: list[str]) -> None:
    assert problems({**SINK, **change}) == named


def test_converters_that_say_what_a_worker_does_are_accepted() -> None:
    package = "org.apache.kafka.connect"
    read_connector_config(
        {
            **SOURCE,
            "key.converter": f"{package}.storage.StringConverter",
            "value.converter": f"{package}.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }
    )


AVRO: Mapping[str, str] = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://registry:8081",
}


def test_values_may_be_avro_with_the_settings_of_confluents_converter() -> None:
    found = read_connector_config(
        {
            **SOURCE,
            **AVRO,
            "value.converter.basic.auth.user.info": "alice:secret",
            "value.converter.auto.register.schemas": "false",
        }
    )
    assert found.avro is not None
    assert found.avro.registry.url == "http://registry:8081"
    assert found.avro.registry.settings == {"basic.auth.user.info": "alice:secret"}
    assert not found.avro.auto_register
    assert read_connector_config(SOURCE).avro is None


def test_a_sink_of_avro_has_the_columns_of_the_registry() -> None:
    config = {**SINK, **AVRO}
    assert problems(config) == ["schema"]
    del config["schema"]
    assert read_connector_config(config).schema is None
    pattern = {**config, "topics.regex": "o.*"}
    del pattern["topics"]
    assert problems(pattern) == ["topics"]
    assert problems({**config, "value.converter.schema.registry.url": ""}) == [
        "value.converter.schema.registry.url"
    ]


def test_a_connector_that_encodes_values_itself_takes_no_avro() -> None:
    config = {
        "name": "cdc",
        "connector.class": "postgresql-cdc",
        "uri": "postgresql://db/shop",
        "table.include.list": "public.orders",
        "topic.prefix": "shop",
    }
    assert problems({**config, **AVRO}) == ["value.converter"]


def test_validation_shows_each_property_with_its_value_and_errors() -> None:
    config = {**SOURCE, "pth": "x"}
    plugin = find_plugin("FilesSource", config)
    found = config_infos(plugin, config)
    values = {each["value"]["name"]: each["value"] for each in found["configs"]}
    assert found["name"] == "headwater.connect.files_connector.FilesSource"
    assert found["error_count"] == 1
    assert values["topic"]["value"] == "orders"
    assert values["tasks.max"] == {
        "name": "tasks.max",
        "value": "1",
        "recommended_values": [],
        "errors": [],
        "visible": True,
    }
    assert values["pth"]["errors"] == ["the connector has no option pth; did you mean path?"]


def test_a_problem_is_a_property_and_a_message() -> None:
    with pytest.raises(InvalidConnectorConfig) as failure:
        read_connector_config({**SOURCE, "tasks.max": "0"})
    assert failure.value.problems == [
        ConfigProblem("tasks.max", "must be a number of at least 1, not 0")
    ]
