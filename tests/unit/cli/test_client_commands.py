"""Commands against a real broker: output and exit codes."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.cli.terminal import show
from headwater.testing import EmbeddedBroker
from tests.unit.cli.shell import Shell

# No broker listens on such a low port; a test's client could take a higher one.
NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        yield opened


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name.replace("_", "-")[:60]


@pytest.fixture
def shell(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.bootstrap_servers)


def test_topics_are_created_listed_described_altered_and_deleted(shell: Shell, topic: str) -> None:
    made = shell.tells("topics", "create", topic, "--partitions", "2", "-c", "retention.ms=1000")
    assert made[0]["topic"] == topic
    assert topic in shell.does("topics", "list", "--names").splitlines()
    rows = shell.tells("topics", "describe", topic)
    assert [(row["partition"], row["leader"], row["isr"]) for row in rows] == [
        (0, 0, [0]),
        (1, 0, [0]),
    ]
    assert "PARTITION" in shell.does("topics", "describe", topic)
    shell.does("topics", "alter", topic, "--partitions", "3", "--delete-config", "retention.ms")
    assert len(shell.tells("topics", "describe", topic)) == 3
    assert shell.tells("configs", "describe", "--topic", topic) == []
    shell.does("topics", "delete", topic)
    assert topic not in shell.does("topics", "list", "--names").splitlines()


def test_an_error_is_one_line_and_an_exit_code(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    again = shell.run("topics", "create", topic)
    assert again.exit_code == 1
    assert again.stderr.count("\n") == 1
    assert again.stderr.startswith(f"headwater: {topic}: ")
    shell.does("topics", "create", topic, "--if-not-exists")
    assert shell.run("topics", "create", topic, "-c", "nonsense").exit_code == 2
    assert shell.run("topics", "alter", topic).exit_code == 2


def test_lines_are_produced_and_consumed(shell: Shell, topic: str, tmp_path: Path) -> None:
    shell.does("topics", "create", topic)
    shell.does("produce", topic, "-K", ":", "-H", "from=test", given="a:green\nb:NULL\n:black\n")
    file = tmp_path / "lines"
    file.write_bytes(b"white\r\n\xff\n")
    shell.does("produce", topic, str(file), "--null-marker", "white")
    read = ("consume", topic, "--from-beginning", "--exit")
    assert CliRunner().invoke(
        app, [*read, "-b", shell.bootstrap, "--format", r"%o %k=%v %h\n"]
    ).stdout_bytes == (
        b"0 a=green from=test\n1 b=NULL from=test\n2 =black from=test\n3 = \n4 =\xff \n"
    )
    rows = shell.tells(*read)
    assert [row["value"] for row in rows] == ["green", "NULL", "black", None, {"base64": "/w=="}]
    assert rows[0]["key"] == "a"
    assert rows[0]["headers"] == [["from", "test"]]
    assert [row["offset"] for row in shell.tells("consume", topic, "--offset", "-2", "-e")] == [
        3,
        4,
    ]
    assert [row["offset"] for row in shell.tells(*read, "--max", "1")] == [0]
    assert shell.tells("consume", topic, "--from-time", "2999-01-01", "-e") == []
    assert len(shell.tells("consume", topic, "--from-time", "0", "-e")) == 5


def test_records_that_cannot_be_sent_are_reported(shell: Shell, topic: str) -> None:
    result = shell.run(
        "produce", topic, "-p", "7", "-s", "max.block.ms=500", "-s", "delivery.timeout.ms=500",
        "-s", "request.timeout.ms=400", given="x\n",
    )  # fmt: skip
    assert result.exit_code == 1
    assert result.stderr.startswith("headwater: ")


def test_groups_show_their_lag_and_offsets_can_be_reset(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    shell.does("produce", topic, given="1\n2\n3\n4\n")
    group = f"g-{topic}"
    consumed = shell.tells(
        "consume", topic, "-g", group, "-f", "-n", "3", "-s", "max.poll.records=3"
    )
    assert len(consumed) == 3
    listed = {row["group"]: row for row in shell.tells("groups", "list")}[group]
    assert listed["state"] == "Empty"
    assert (listed["members"], listed["lag"]) == (0, 1)
    assert shell.tells("groups", "list", "--match", "no such") == []
    (row,) = shell.tells("groups", "describe", group)
    assert (row["offset"], row["end"], row["lag"]) == (3, 4, 1)
    reset = ("groups", "reset-offsets", group, "--topic", topic)
    assert shell.run(*reset).exit_code == 2
    (dry,) = shell.tells(*reset, "--to-earliest")
    assert (dry["before"], dry["after"], dry["done"]) == (3, 0, False)
    assert shell.tells("groups", "describe", group)[0]["offset"] == 3
    shell.does(*reset, "--shift-by", "-2", "--execute")
    assert shell.tells("groups", "describe", group)[0]["offset"] == 1
    shell.does(*reset, "--to-offset", "99", "--execute")
    assert shell.tells("groups", "describe", group)[0]["lag"] == 0
    shell.does(*reset, "--to-time", "0", "--execute")
    assert shell.tells("groups", "describe", group)[0]["lag"] == 4
    shell.does("groups", "delete", group)
    assert shell.run("groups", "describe", group).exit_code == 1


def test_broker_log_levels_are_described_and_altered(shell: Shell) -> None:
    shell.does("configs", "alter", "headwater.network=WARN", "--loggers", "0")
    rows = shell.tells("configs", "describe", "--loggers", "0")
    levels = {row["config"]: row["value"] for row in rows}
    assert levels["headwater.network"] == "WARN"
    assert "root" in levels
    shell.does("configs", "alter", "--delete", "headwater.network", "--loggers", "0")
    failed = shell.run("configs", "alter", "headwater.network=LOUD", "--loggers", "0")
    assert failed.exit_code == 1
    assert (
        "'LOUD' is not a log level; use one of FATAL, ERROR, WARN, INFO, DEBUG, TRACE"
        in failed.output
    )


def test_configs_are_described_and_altered(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    shell.does("configs", "alter", "retention.ms=5000", "--topic", topic)
    assert shell.tells("configs", "describe", "--topic", topic)[0]["value"] == "5000"
    shell.does("configs", "alter", "retention.ms=6000", "--topic", topic, "--dry-run")
    shell.does("configs", "alter", "--delete", "retention.ms", "--topic", topic)
    rows = shell.tells("configs", "describe", "--topic", topic, "--all")
    assert {row["config"]: row["value"] for row in rows}["retention.ms"] == "604800000"
    assert shell.run("configs", "describe").exit_code == 2
    assert shell.tells("configs", "describe", "--broker", "0", "--all")


def test_quotas_are_set_listed_and_removed(shell: Shell) -> None:
    alice = ["--user", "alice", "--default-client-id"]
    shell.does("quotas", "set", "producer_byte_rate=1048576", "request_percentage=12.5", *alice)
    shell.does("quotas", "set", "connection_creation_rate=50", "--ip", "10.0.0.1")
    shell.does("quotas", "set", "consumer_byte_rate=5", "--default-user", "--dry-run")
    named = {"user": "alice", "client_id": "<default>", "ip": None}
    assert shell.tells("quotas", "list", "--user", "alice") == [
        {**named, "quota": "producer_byte_rate", "value": 1048576.0},
        {**named, "quota": "request_percentage", "value": 12.5},
    ]
    assert len(shell.tells("quotas", "list")) == 3
    assert "10.0.0.1" in shell.does("quotas", "list")
    shell.does("quotas", "unset", "producer_byte_rate", *alice)
    again = shell.run("quotas", "unset", "producer_byte_rate", *alice)
    assert again.exit_code == 1
    assert "quota producer_byte_rate is not set" in again.output
    shell.does("quotas", "unset", "--all", *alice)
    shell.does("quotas", "unset", "--all", "--ip", "10.0.0.1")
    assert shell.tells("quotas", "list") == []


@pytest.mark.parametrize(
    "words",
    [
        "set producer_byte_rate=1",
        "set producer_byte_rate=many --user a",
        "set producer_byte_rate --user a",
        "set producer_byte_rate=1 --user a --default-user",
        "unset --user a",
        "unset producer_byte_rate --all --user a",
    ],
)
def test_contradictory_quota_options_are_usage_errors(shell: Shell, words: str) -> None:
    assert shell.run("quotas", *words.split()).exit_code == 2


def test_a_rejected_quota_is_reported_with_its_entity(shell: Shell) -> None:
    refused = shell.run("quotas", "set", "producer_byte_rate=1.5", "--user", "alice")
    assert refused.exit_code == 1
    assert "user alice: producer_byte_rate must be a whole number" in refused.output


def test_records_are_deleted(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    shell.does("produce", topic, given="1\n2\n3\n")
    assert shell.tells("records", "delete", f"{topic}:0", "--before", "2") == [
        {"topic": topic, "partition": 0, "start": 2}
    ]


def test_the_cluster_and_its_partitions_are_described(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    (row,) = shell.tells("cluster", "describe")
    assert (row["broker"], row["controller"], row["state"]) == (0, True, "up")
    assert row["size"] == row["bytes"]
    assert shell.tells("partitions", "moving") == []
    assert shell.tells("partitions", "elect-leader", f"{topic}:0")[0]["outcome"] == (
        "ELECTION_NOT_NEEDED"
    )
    assert shell.run("partitions", "elect-leader", f"{topic}:7").exit_code == 1
    assert shell.run("partitions", "reassign", f"{topic}:0").exit_code == 2
    shell.does("partitions", "reassign", f"{topic}-0", "--to", "0")


def test_perf_prints_the_figures_of_kafkas_tools(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    (sent,) = shell.tells("perf", "produce", topic, "-n", "2000", "--throughput", "100000")
    assert sent["records"] == 2000
    assert {"records_s", "mib_s", "avg_ms", "max_ms", "p50_ms", "p99.9_ms"} <= sent.keys()
    for as_table in ((), ("--table",)):
        (read,) = shell.tells("perf", "consume", topic, "-n", "1100", *as_table)
        assert read["records"] == 1100
    (both,) = shell.tells("perf", "end-to-end", topic, "-n", "5")
    assert both["records"] == 5


def test_commands_fail_quickly_without_a_broker(topic: str) -> None:
    """Neither a long silence nor a traceback, whatever the command."""
    shell = Shell(NOWHERE)
    for words in (
        ("topics", "list"),
        ("produce", topic),
        ("consume", topic),
        ("perf", "consume", topic),
    ):
        result = shell.run(*words)
        assert result.exit_code == 1
        # Usually with the reason; on a busy machine no connection may have been tried by then.
        assert result.stderr.startswith("headwater: no broker answers: ")
        assert result.stderr.count("\n") == 1


def test_a_missing_topic_or_partition_fails_without_waiting(shell: Shell, topic: str) -> None:
    unknown = shell.run("consume", topic, "-f", "-e")
    assert (unknown.exit_code, unknown.stderr) == (
        1,
        f"headwater: {topic}: topic or partition does not exist (UNKNOWN_TOPIC_OR_PARTITION)\n",
    )
    assert topic not in shell.does("topics", "list", "--names").splitlines()
    shell.does("topics", "create", topic)
    for words in (
        ("consume", topic, "-p", "9"),
        ("records", "delete", f"{topic}:9", "--before", "1"),
        ("transactions", "abort", f"{topic}:9", "--producer-id", "1"),
    ):
        beyond = shell.run(*words)
        assert (beyond.exit_code, beyond.stderr) == (1, f"headwater: {topic} has no partition 9\n")


def test_perf_consume_ends_at_the_end_of_the_topic(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    shell.does("produce", topic, given="1\n2\n")
    # The timeout is longer than the test may take.
    result = shell.run("perf", "consume", topic, "--timeout", "3600")
    assert result.stderr == (f"headwater: received 2 of 100000 records; {topic} has no more\n")


def test_errors_are_objects_with_json(shell: Shell, topic: str) -> None:
    result = shell.run("topics", "describe", topic, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stderr) == {
        "error": "UNKNOWN_TOPIC_OR_PARTITION",
        "message": f"{topic}: topic or partition does not exist (UNKNOWN_TOPIC_OR_PARTITION)",
    }


def test_describing_configs_says_what_is_not_shown(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic, "-c", "retention.ms=1000")
    some = shell.run("configs", "describe", "--topic", topic)
    assert "configs have their defaults; --all shows them" in some.stderr
    every = shell.run("configs", "describe", "--topic", topic, "--all", "--docs")
    assert every.stderr == ""
    assert "retention.ms = 1000\n  " in every.stdout


def test_perf_consume_does_not_create_a_topic(shell: Shell, topic: str) -> None:
    assert shell.run("perf", "consume", topic).exit_code == 1
    assert topic not in shell.does("topics", "list", "--names").splitlines()


def commands_of(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All commands with their full names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def test_every_command_about_a_cluster_has_json_output() -> None:
    """Commands that start a process, or print files as Kafka's tools do, have other formats."""
    commands = dict(commands_of(get_command(app)))
    assert "cluster quorum describe" in commands
    without = [
        name
        for name, made in commands.items()
        if not name.startswith("log ") and all(each.name != "as_json" for each in made.params)
    ]
    assert sorted(without) == [
        "cluster start",
        "connect start",
        "console start",
        "gateway start",
        "mcp",
        "quickstart",
        "registry start",
        "rest start",
        "sql",
        "start",
        "storage format",
        "storage info",
        "storage random-uuid",
        "zookeeper",
    ]


def test_changes_are_printed_only_with_json(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    assert shell.does("topics", "alter", topic, "-p", "2") == ""
    assert shell.tells("topics", "alter", topic, "-c", "retention.ms=1") == [
        {"topic": topic, "partitions": None, "configs": {"retention.ms": "1"}}
    ]
    assert shell.tells("configs", "alter", "retention.ms=2", "--topic", topic) == [
        {"config": "retention.ms", "value": "2", "done": True}
    ]
    assert shell.tells("partitions", "reassign", f"{topic}:0", "--to", "0") == [
        {"topic": topic, "partition": 0, "replicas": [0]}
    ]
    sent = shell.does("produce", topic, "--json", given="1\n2\n")
    assert json.loads(sent) == {"topic": topic, "records": 2}
    assert shell.does("produce", topic, given="3\n") == ""
    assert shell.tells("topics", "delete", topic) == [{"topic": topic}]


def test_markup_in_a_cell_is_printed_literally(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Client ids appear in the tables of groups."""
    show([{"client": "[/red]"}, {"client": "[bold]x"}], as_json=False, columns=["client"])
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [
        "CLIENT",
        "[/red]",
        "[bold]x",
    ]


def test_unwritable_output_is_reported_with_one_line(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    shell.does("produce", topic, given="x\n" * 10_000)
    words = ["consume", topic, "-f", "-e", "-b", shell.bootstrap]
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(
            [sys.executable, "-m", "headwater", *words],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert (run.returncode, run.stderr) == (1, "headwater: No space left on device\n")


def test_a_group_continues_after_the_last_printed_record(shell: Shell, topic: str) -> None:
    """Although more were polled at once."""
    shell.does("topics", "create", topic)
    shell.does("produce", topic, given="".join(f"{number}\n" for number in range(20)))
    read = ("consume", topic, "-g", f"g-{topic}", "-f", "-n", "7")
    assert [row["value"] for row in shell.tells(*read)] == [str(each) for each in range(7)]
    (row,) = shell.tells("groups", "describe", f"g-{topic}")
    assert row["offset"] == 7
    assert [row["value"] for row in shell.tells(*read)] == [str(each) for each in range(7, 14)]


def test_an_offset_beyond_the_end_starts_at_the_end(shell: Shell, topic: str) -> None:
    """As in Kafka's console consumer, but with a warning."""
    shell.does("topics", "create", topic)
    shell.does("produce", topic, given="1\n2\n3\n")
    for at_end in (("--exit",), ("--timeout", "0.5")):
        result = shell.run("consume", topic, "--offset", "99", *at_end)
        assert (result.exit_code, result.stdout, result.stderr) == (
            0,
            "",
            f"headwater: {topic}-0 has no offset 99, it has offsets 0 to 2; starting at 3\n",
        )
        assert shell.run("consume", topic, "--offset", "3", *at_end).output == ""


def test_a_deleted_offset_starts_at_the_log_start_offset(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    shell.does("produce", topic, given="1\n2\n3\n")
    shell.does("records", "delete", f"{topic}:0", "--before", "2")
    result = shell.run("consume", topic, "--offset", "0", "--exit")
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "3\n",
        f"headwater: {topic}-0 has no offset 0, it has offsets 2 to 2; starting at 2\n",
    )


def test_successful_changes_are_printed_when_others_fail(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    made = shell.run("topics", "create", f"{topic}-1", topic, f"{topic}-2")
    assert made.exit_code == 1
    assert [line.split()[0] for line in made.stdout.splitlines()[1:]] == [
        f"{topic}-1",
        f"{topic}-2",
    ]
    assert made.stderr.startswith(f"headwater: {topic}: ")
    again = shell.run("topics", "create", topic, f"{topic}-3", "--if-not-exists", "--json")
    assert (again.exit_code, json.loads(again.stdout)["topic"]) == (0, f"{topic}-3")
    gone = shell.run("topics", "delete", f"{topic}-1", "nosuch")
    assert gone.exit_code == 1
    assert [line.strip() for line in gone.stdout.splitlines()] == ["TOPIC", f"{topic}-1"]
    assert gone.stderr.startswith("headwater: nosuch: ")
    gone = shell.run("topics", "delete", f"{topic}-2", "nosuch", "--json")
    assert json.loads(gone.stdout) == {"topic": f"{topic}-2"}
    assert "nosuch" in gone.stderr


def test_results_are_printed_when_other_items_are_missing(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    found = shell.run("topics", "describe", "nosuch", topic)
    assert found.exit_code == 1
    assert [line.split()[0] for line in found.stdout.splitlines()] == ["TOPIC", topic]
    assert found.stderr.startswith("headwater: nosuch: ")
    assert len(found.stderr.splitlines()) == 1
    found = shell.run("topics", "describe", topic, "nosuch", "--json")
    assert (found.exit_code, json.loads(found.stdout)["topic"]) == (1, topic)
    found = shell.run("topics", "describe", "nosuch", "neither")
    assert (found.exit_code, found.stdout) == (1, "")
    assert len(found.stderr.splitlines()) == 2
    found = shell.run("partitions", "elect-leader", f"{topic}:0", f"{topic}:7")
    assert found.exit_code == 1
    assert len(found.stdout.splitlines()) == 3
    assert found.stderr == f"headwater: partition {topic}-7 does not exist\n"


def test_records_are_deleted_where_possible_and_none_if_a_partition_is_missing(
    shell: Shell, topic: str
) -> None:
    shell.does("topics", "create", topic, "-p", "2")
    shell.does("produce", topic, "-p", "0", given="a\nb\n")
    missing = shell.run("records", "delete", f"{topic}:0", f"{topic}:7", f"{topic}:8", "--before=1")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert missing.stderr.splitlines() == [
        f"headwater: {topic} has no partition 7",
        f"headwater: {topic} has no partition 8",
    ]
    # The second partition has no records to delete.
    found = shell.run("records", "delete", f"{topic}:0", f"{topic}:1", "--before=1", "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout) == {"topic": topic, "partition": 0, "start": 1}
    assert json.loads(found.stderr)["message"].startswith(f"{topic}-1: ")


def test_a_group_is_deleted_when_another_does_not_exist(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    group = f"g-{topic}"
    shell.does("groups", "reset-offsets", group, "-t", topic, "--to-latest", "--execute")
    result = shell.run("groups", "delete", group, "nosuch", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"group": group}
    assert json.loads(result.stderr)["message"].startswith("nosuch: ")


def test_a_line_without_the_key_separator_is_rejected(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    result = shell.run("produce", topic, "-K", ":", given="a:1\nnokey\nb:2\n")
    assert (result.exit_code, result.stderr) == (
        1,
        "headwater: line 2: no separator ':' after the key\n",
    )
    assert [row["key"] for row in shell.tells("consume", topic, "-f", "-e")] == ["a"]
    assert shell.run("produce", topic, "-K", "", given="a\n").exit_code == 2


def test_an_invalid_partition_is_rejected_before_sending(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    beyond = shell.run("produce", topic, "-p", "9", given="1\n")
    assert (beyond.exit_code, beyond.stderr) == (1, f"headwater: {topic} has no partition 9\n")
    assert shell.run("produce", topic, "-p", "-1", given="1\n").exit_code == 2


def test_group_and_exit_are_mutually_exclusive(shell: Shell, topic: str) -> None:
    result = shell.run("consume", topic, "--group", "g", "--exit")
    assert result.exit_code == 2
    assert "--max or --timeout" in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "closed", "code", "said"),
    [
        (("topics", "describe", "closed"), ">&-", 0, ""),
        (("consume", "closed", "-f", "-e"), ">&-", 1, "headwater: standard output is closed\n"),
        (("produce", "closed"), "<&-", 1, "headwater: standard input is closed\n"),
    ],
)
def test_closed_standard_streams_are_reported(
    shell: Shell, words: tuple[str, ...], closed: str, code: int, said: str
) -> None:
    shell.does("topics", "create", "closed", "--if-not-exists")
    command = shlex.join([sys.executable, "-m", "headwater", *words, "-b", shell.bootstrap])
    run = subprocess.run(
        ["/bin/sh", "-c", f"{command} {closed}"],
        stderr=subprocess.PIPE, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (code, said)


def test_the_final_timeout_does_not_count_in_the_rate(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    empty = shell.run("perf", "consume", topic, "--timeout", "0.1", "--json")
    assert (json.loads(empty.stdout)["seconds"], empty.exit_code) == (0, 0)
    shell.does("produce", topic, given="1\n2\n")
    fewer = shell.run("perf", "consume", topic, "-n", "5", "--timeout", "1", "--json")
    assert (fewer.exit_code, json.loads(fewer.stdout)["records"]) == (0, 2)
    assert fewer.stderr == f"headwater: received 2 of 5 records; {topic} has no more\n"


def test_shift_by_requires_committed_offsets(shell: Shell, topic: str) -> None:
    """kafka-consumer-groups rejects it, too."""
    shell.does("topics", "create", topic)
    reset = ("groups", "reset-offsets", f"g-{topic}", "--topic", topic)
    result = shell.run(*reset, "--shift-by", "3")
    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "",
        f"headwater: {topic}-0: no committed offset to shift\n",
    )


def test_an_offset_outside_the_log_is_limited_with_a_warning(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    shell.does("produce", topic, given="1\n2\n")
    reset = ("groups", "reset-offsets", f"g-{topic}", "--topic", topic, "--execute", "--json")
    for wanted, became, said in (
        ("99", 2, f"headwater: {topic}-0: offset 99 is beyond the end; using 2\n"),
        ("-5", 0, f"headwater: {topic}-0: offset -5 is before the log start offset; using 0\n"),
        ("1", 1, ""),
    ):
        result = shell.run(*reset, "--to-offset", wanted)
        assert (json.loads(result.stdout)["after"], result.stderr) == (became, said)


def test_an_unknown_config_cannot_be_deleted(shell: Shell, topic: str) -> None:
    shell.does("topics", "create", topic)
    said = f"headwater: {topic}: unknown config foo\n"
    for words in (
        ("configs", "alter", "--topic", topic, "--delete", "foo"),
        ("topics", "alter", topic, "--delete-config", "foo"),
    ):
        result = shell.run(*words)
        assert (result.exit_code, result.stderr) == (1, said)
    assert shell.run("configs", "alter", "--broker", "0", "--delete", "foo").exit_code == 1
    shell.does("configs", "alter", "--broker", "0", "--delete", "log.retention.ms")
    shell.does("configs", "alter", "--group", "g", "--delete", "consumer.session.timeout.ms")


def test_invalid_arguments_are_rejected_with_clear_messages(shell: Shell, topic: str) -> None:
    nameless = shell.run("topics", "create", "")
    assert (nameless.exit_code, "a topic name must not be empty" in nameless.stderr) == (2, True)
    shell.does("topics", "create", topic, "-p", "1")
    assert shell.run("topics", "alter", topic, "-p", "1").stderr == (
        f"headwater: {topic}: "
        f"topic {topic} has 1 partitions; the new number must be larger, not 1\n"
    )
    assert shell.run("topics", "create", f"{topic}-2", "-r", "3").stderr == (
        f"headwater: {topic}-2: "
        "replication factor 3 is not between 1 and the number of live brokers (1)\n"
    )


def test_config_errors_name_the_resource(shell: Shell) -> None:
    """A broker's name is a number, and that of all brokers is empty."""
    for words, whose in (
        (("--broker", "0", "listeners=foo"), "broker 0"),
        (("--all-brokers", "listeners=foo"), "all brokers"),
        (("--group", "g", "foo=1"), "group g"),
        (("--broker", "0", "--delete", "foo"), "broker 0"),
    ):
        result = shell.run("configs", "alter", *words)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"headwater: {whose}: ")
