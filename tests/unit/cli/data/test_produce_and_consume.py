"""`headwater produce` and `headwater consume` against a real broker."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.client import Admin, Consumer, Producer, TopicPartition
from headwater.testing import EmbeddedBroker
from tests.unit.cli.shell import Shell


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        yield opened


@pytest.fixture
def shell(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.bootstrap_servers)


@pytest.fixture
def topic(request: pytest.FixtureRequest, shell: Shell) -> str:
    name: str = request.node.name.replace("_", "-")[:60]
    shell.does("topics", "create", name)
    return name


def read_all(shell: Shell, topic: str, *words: str) -> list[dict[str, object]]:
    return shell.tells("consume", topic, "--from-beginning", "--exit", *words)


def test_header_names_may_repeat_and_values_may_be_null(shell: Shell, topic: str) -> None:
    shell.does(
        "produce", topic, "-H", "a=1", "-H", "a=2", "-H", "b=NULL", "--null-marker", "NULL",
        given="x\n",
    )  # fmt: skip
    (row,) = read_all(shell, topic)
    assert row["headers"] == [["a", "1"], ["a", "2"], ["b", None]]


def test_headers_and_keys_can_be_separated_by_tabs(shell: Shell, topic: str) -> None:
    words = ("produce", topic, "--headers-separator", r"\t", "-K", r"\t")
    shell.does(*words, given="cups=2,from=Assam\tkind\tblack\n")
    (row,) = read_all(shell, topic)
    assert (row["key"], row["value"]) == ("kind", "black")
    assert row["headers"] == [["cups", "2"], ["from", "Assam"]]


def test_files_and_standard_input_are_sent_in_order(
    shell: Shell, topic: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("1\n2")
    second.write_text("4\n")
    shell.does("produce", topic, str(first), "-", str(second), given="3\n")
    assert [row["value"] for row in read_all(shell, topic)] == ["1", "2", "3", "4"]
    missing = shell.run("produce", topic, str(first), str(tmp_path / "missing"))
    assert missing.exit_code == 2
    assert len(read_all(shell, topic)) == 4


def test_json_output_of_consume_can_be_produced(shell: Shell, topic: str) -> None:
    with Producer(bootstrap_servers=shell.bootstrap) as producer:
        producer.send(topic, b"\xff", key=b"k", timestamp=5, headers=[("h", None), ("h", b"1")])
        producer.send(topic, None, timestamp=6)
    dumped = read_all(shell, topic)
    copy = f"{topic}-copy"
    lines = "".join(json.dumps(row) + "\n" for row in dumped)
    shell.does("produce", copy, "--from-json", given=lines)
    assert [{**row, "topic": topic} for row in read_all(shell, copy)] == dumped
    wrong = shell.run("produce", copy, "--from-json", given="{}\nnothing\n")
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (1, 1)
    assert wrong.stderr.startswith("headwater: line 2: ")


def test_a_too_large_line_is_reported_after_earlier_lines_are_sent(
    shell: Shell, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_text("1\n2\n" + "x" * 2_000_000 + "\n4\n")
    # Such a long linger that only a flush sends them.
    result = shell.run("produce", topic, str(file), "-s", "linger.ms=60000")
    assert result.exit_code == 1
    assert result.stderr.startswith("headwater: line 3: a record of about 2000")
    assert [row["value"] for row in read_all(shell, topic)] == ["1", "2"]


def test_deserialized_numbers_are_printed_as_numbers(shell: Shell, topic: str) -> None:
    shell.does("produce", topic, "-s", "value.serializer=int", given="42\n-1\n")
    long = "value.deserializer=org.apache.kafka.common.serialization.LongDeserializer"
    assert [row["value"] for row in read_all(shell, topic, "-s", long)] == [42, -1]
    words = ("consume", topic, "-f", "-e", "-s", long, "--format", r"%v\t%k.\n")
    assert shell.does(*words, "--null-marker", "~") == "42\t~.\n-1\t~.\n"
    wrong = shell.run("produce", topic, "-s", "value.serializer=int", given="7\ntea\n")
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (1, 1)
    assert wrong.stderr.startswith("headwater: line 2: cannot serialize the value")
    unreadable = shell.run("consume", topic, "-f", "-e", "-s", "value.deserializer=int32")
    assert (unreadable.exit_code, unreadable.stderr.count("\n")) == (1, 1)
    unknown = shell.run("produce", topic, "-s", "value.serializer=tea", given="7\n")
    assert (unknown.exit_code, unknown.stderr.count("\n")) == (2, 1)


def test_group_and_serializers_of_a_command_config_are_ignored(
    shell: Shell, topic: str, tmp_path: Path
) -> None:
    shell.does("produce", topic, given="1\n2\n3\n")
    place = TopicPartition(topic, 0)
    file = tmp_path / "app.properties"
    file.write_text(
        f"group.id={topic}\n"
        "transactional.id=app\n"
        "value.serializer=com.example.TeaSerializer\n"
        "value.deserializer=com.example.TeaDeserializer\n"
        "interceptor.classes=com.example.Watching\n"
        "metric.reporters=com.example.Reporter\n"
        "acks=all\n"
    )
    with Consumer(bootstrap_servers=shell.bootstrap, group_id=topic) as app_consumer:
        app_consumer.assign([place])
        app_consumer.commit({place: 1})
    config = ("--command-config", str(file))
    assert len(read_all(shell, topic, *config)) == 3
    shell.does("produce", topic, *config, given="4\n")
    shell.does("topics", "list", *config)
    with Admin(bootstrap_servers=shell.bootstrap) as admin:
        assert admin.list_group_offsets(topic)[place].offset == 1
    file.write_text("client.ids=tea\n")
    misspelt = shell.run("topics", "list", *config)
    assert (misspelt.exit_code, misspelt.stderr) == (
        2,
        "headwater: client.ids is not a setting of this client; did you mean client.id?\n",
    )


def test_a_negative_timeout_is_rejected(shell: Shell, topic: str) -> None:
    assert shell.run("consume", topic, "--timeout", "-1").exit_code == 2


def test_perf_payloads_do_not_compress_too_well(shell: Shell, topic: str) -> None:
    shell.does("perf", "produce", topic, "-n", "100", "--size", "300")
    values = [str(row["value"]) for row in read_all(shell, topic)]
    assert len(set(values)) == 100
    assert {len(value) for value in values} == {300}
    assert CliRunner().invoke(app, ["perf", "produce", "-h"]).exit_code == 0
