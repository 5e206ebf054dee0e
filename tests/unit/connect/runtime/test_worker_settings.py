"""A worker's properties file, and files of connectors."""

import json
from pathlib import Path

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.connect.runtime.connector_files import read_connector_file
from headwater.connect.runtime.worker_settings import read_worker_file

REQUIRED = {
    "bootstrap.servers": "a:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def test_settings_are_divided_by_their_readers() -> None:
    found = read_worker_file(
        {
            **REQUIRED,
            "security.protocol": "SSL",
            "ssl.truststore.location": "trust.pem",
            "producer.linger.ms": "5",
            "consumer.fetch.max.bytes": "7",
            "admin.request.timeout.ms": "9",
            "listeners": "http://127.0.0.1:0",
            "plugin.path": "/opt",
            "offset.storage.partitions": "3",
        }
    )
    assert found.settings.group_id == "g"
    assert found.settings.offset_storage_partitions == 3
    assert found.client == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SSL",
        "ssl.truststore.location": "trust.pem",
    }
    assert found.producer == {"linger.ms": "5"}
    assert found.consumer == {"fetch.max.bytes": "7"}
    assert found.admin == {"request.timeout.ms": "9"}
    assert found.http == {"listeners": "http://127.0.0.1:0", "plugin.path": "/opt"}


def test_the_port_has_tls_settings_of_its_own_or_those_of_the_clients() -> None:
    https = {**REQUIRED, "listeners": "https://a:8083", "ssl.keystore.location": "client.pem"}
    assert read_worker_file(https).http["ssl.keystore.location"] == "client.pem"
    own = {**https, "listeners.https.ssl.keystore.location": "rest.pem"}
    assert read_worker_file(own).http["ssl.keystore.location"] == "rest.pem"


@pytest.mark.parametrize("name", REQUIRED)
def test_required_settings_are_named(name: str) -> None:
    given = {key: value for key, value in REQUIRED.items() if key != name}
    with pytest.raises(InvalidSetting, match=f"{name} is missing"):
        read_worker_file(given)


@pytest.mark.parametrize(
    "given",
    [
        {"value.converter": "io.confluent.connect.avro.AvroConverter"},
        {"value.converter.schemas.enable": "true"},
        {"rest.extension.classes": "a.B"},
        {"heartbeat.interval.ms": "10000"},
    ],
)
def test_settings_that_would_be_another_worker_are_rejected(given: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(given))):
        read_worker_file({**REQUIRED, **given})


def test_files_of_connectors_are_properties_or_json(tmp_path: Path) -> None:
    config = {"name": "in", "connector.class": "files", "tasks.max": "1"}
    properties = tmp_path / "in.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    flat = tmp_path / "flat.json"
    flat.write_text(json.dumps({**config, "tasks.max": 1}))
    nested = tmp_path / "nested.json"
    rest = {name: value for name, value in config.items() if name != "name"}
    nested.write_text(json.dumps({"name": "in", "config": rest}))
    assert [read_connector_file(each) for each in (properties, flat, nested)] == [config] * 3


@pytest.mark.parametrize("text", ["[]", "{", '{"config": 1}', '{"a": "b"}'])
def test_files_that_are_no_connector_are_rejected(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(InvalidSetting, match=r"a\.json"):
        read_connector_file(file)
