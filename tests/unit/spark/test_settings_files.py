"""Tests for files of client settings: the way for secrets into queries, pipelines and mirrors."""

from pathlib import Path

import pytest

from headwater.common.settings.java_properties import format_properties
from headwater.mirror.mirror_options import MirrorOptions, mirror_options
from headwater.pipelines.check.checked_pipeline import read_file
from headwater.pipelines.check.pipeline_check import sink_options, source_options
from headwater.pipelines.run.avro_options import source_avro
from headwater.spark.exceptions import InvalidOption
from headwater.spark.settings_files import with_certificates
from headwater.spark.sink.sink_options import read_sink_options
from headwater.spark.source.source_options import read_source_options
from tests.unit.pipelines.pipeline_files import GOOD, written

SHARED = {
    "bootstrap.servers": "of-the-file:9092",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "hush",
    "basic.auth.user.info": "alice:whisper",
    "schema.registry.url": "http://of-the-file:8081",
    # What only some clients know.
    "acks": "all",
    "isolation.level": "read_committed",
    "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    "auto.offset.reset": "latest",
    "transactional.id": "mine",
}
LOGIN = {name: value for name, value in SHARED.items() if name.startswith(("security", "sasl"))}
TOPIC = {"subscribe": "t"}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "client.properties"
    path.write_bytes(format_properties(SHARED))
    return str(path)


def test_a_source_and_a_sink_take_from_a_file_what_is_theirs(file: str) -> None:
    source = read_source_options({**TOPIC, "settingsfile": file}, is_streaming=True)
    assert source.client == {
        **LOGIN,
        "bootstrap.servers": "of-the-file:9092",
        "isolation.level": "read_committed",
    }
    sink = read_sink_options({"topic": "t", "settingsFile": file}, is_streaming=True)
    assert sink.client == {**LOGIN, "bootstrap.servers": "of-the-file:9092", "acks": "all"}


def test_options_win_over_the_file(file: str) -> None:
    given = {"kafka.bootstrap.servers": "b:1", "kafka.sasl.username": "bob", "settingsFile": file}
    client = read_source_options({**TOPIC, **given}, is_streaming=True).client
    assert (client["bootstrap.servers"], client["sasl.username"]) == ("b:1", "bob")


def test_a_file_says_how_a_registry_is_entered_and_options_win_there_too(file: str) -> None:
    given = {**TOPIC, "valueFormat": "avro", "settingsFile": file}
    registry = read_source_options(given, is_streaming=True).avro["value"].registry
    assert registry.url == "http://of-the-file:8081"
    assert registry.settings == {"basic.auth.user.info": "alice:whisper"}
    more = {"schema.registry.url": "https://r", "schema.registry.ssl.ca.location": "ca.pem"}
    registry = read_source_options({**given, **more}, is_streaming=True).avro["value"].registry
    assert registry.url == "https://r"
    assert registry.settings["ssl.ca.location"] == "ca.pem"


def test_what_is_shown_of_options_has_no_secret(file: str) -> None:
    given = {"settingsFile": file, "valueFormat": "avro"}
    for options in (
        read_source_options({**TOPIC, **given}, is_streaming=True),
        read_sink_options({"topic": "t", **given}, is_streaming=True),
        mirrored(),
    ):
        assert "hush" not in repr(options)
        assert "whisper" not in repr(options)


@pytest.mark.parametrize("content", [None, b"a=\\u12"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "broken.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidOption, match=r"broken\.properties cannot be read"):
        read_source_options({**TOPIC, "settingsFile": str(path)}, is_streaming=True)


def test_a_pipelines_settings_are_those_of_all_its_topics_that_name_no_others(
    tmp_path: Path, file: str
) -> None:
    text = GOOD.replace("bootstrap: 127.0.0.1:9092", "settings: client.properties")
    _, spec, problems = read_file(written(tmp_path, text))
    assert problems == []
    assert source_options(spec.sources[0], spec).client["sasl.password"] == "hush"
    assert sink_options(spec.sinks[0], spec).client["bootstrap.servers"] == "of-the-file:9092"
    own = text.replace("subscribe: orders", "subscribe: orders\n    settingsFile: own.properties")
    (tmp_path / "own.properties").write_text("bootstrap.servers=own:1")
    _, spec, _ = read_file(written(tmp_path, own))
    assert source_options(spec.sources[0], spec).client == {"bootstrap.servers": "own:1"}
    _, spec, _ = read_file(written(tmp_path, GOOD), settings=Path(file))
    client = source_options(spec.sources[0], spec).client
    assert (client["bootstrap.servers"], client["sasl.username"]) == ("127.0.0.1:9092", "alice")


def test_a_pipeline_says_in_which_line_its_settings_are_missing(tmp_path: Path) -> None:
    text = GOOD.replace("checkpoint: ./ck", "settings: nowhere.properties")
    _, _, problems = read_file(written(tmp_path, text))
    assert [each.line for each in problems] == [4]
    assert "nowhere.properties cannot be read" in problems[0].text


def test_a_pipelines_avro_enters_the_registry_of_the_settings(tmp_path: Path, file: str) -> None:
    text = GOOD.replace('{json: "id bigint, amount double, at timestamp"}', "avro")
    text = text.replace("    key: customer\n", "    encode: {value: avro}\n")
    _, spec, problems = read_file(written(tmp_path, text), settings=Path(file))
    assert problems == []
    for avro in (source_avro(spec.sources[0], spec), sink_options(spec.sinks[0], spec).avro):
        assert avro["value"].registry.url == "http://of-the-file:8081"
        assert avro["value"].registry.settings == {"basic.auth.user.info": "alice:whisper"}


def mirrored(**options: str) -> MirrorOptions:
    return mirror_options(
        "west:1",
        "east:1",
        topics="t",
        source_file={**SHARED, **options},
        target_file={**SHARED, "sasl.username": "bob"},
        target_settings={"linger.ms": "7"},
    )


def test_a_mirror_gives_each_cluster_the_settings_of_its_file() -> None:
    options = mirrored()
    for client, servers, user in (
        (options.reading(), "west:1", "alice"),
        (options.source_admin(), "west:1", "alice"),
        (options.writing(), "east:1", "bob"),
        (options.target_admin(), "east:1", "bob"),
        (options.at_target(), "east:1", "bob"),
    ):
        assert (client["bootstrap.servers"], client["sasl.username"]) == (servers, user)
        assert client["sasl.password"] == "hush"
        assert "transactional.id" not in client
    assert options.writing()["linger.ms"] == "7"
    assert "linger.ms" not in options.target_admin()


_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
_KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.truststore.location"])
def test_executors_get_trusted_certificates_with_the_query(tmp_path: Path, name: str) -> None:
    (tmp_path / "ca.pem").write_text(f"a comment\n{_CERTIFICATE}\n{_CERTIFICATE}\n")
    options = {
        "kafka.bootstrap.servers": "b:9092",
        "subscribe": "t",
        f"kafka.{name}": str(tmp_path / "ca.pem"),
    }
    client = read_source_options(options, is_streaming=True).client
    assert client["ssl.truststore.certificates"] == f"{_CERTIFICATE}\n{_CERTIFICATE}"
    assert name not in client


@pytest.mark.parametrize(
    "files",
    [
        {"ssl.keystore.location": f"{_KEY}\n{_CERTIFICATE}"},
        {"ssl.key.location": _KEY, "ssl.certificate.location": _CERTIFICATE},
    ],
)
def test_executors_get_the_clients_key_with_the_query(
    tmp_path: Path, files: dict[str, str]
) -> None:
    settings = {}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        settings[name] = str(tmp_path / name)
    assert with_certificates(settings) == {
        "ssl.keystore.key": _KEY,
        "ssl.keystore.certificate.chain": _CERTIFICATE,
    }


def test_other_stores_stay_files(tmp_path: Path) -> None:
    (tmp_path / "store.p12").write_bytes(b"\x30\x82\x01")
    settings = {
        "ssl.truststore.location": str(tmp_path / "store.p12"),
        "ssl.keystore.location": str(tmp_path / "missing.pem"),
    }
    assert with_certificates(settings) == settings
