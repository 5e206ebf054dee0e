"""`headwater start` as a process: ready, signals, and reasons not to start."""

import json
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

TIMEOUT_S = 60


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headwater", "start", *arguments]


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A broker on a free port, and its ready line."""
    process = subprocess.Popen(
        command("--data", str(folder / "data"), "--listen", "127.0.0.1:0", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, errors


def refusal(arguments: Sequence[str]) -> str:
    run = subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    assert run.returncode == 2
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert line.startswith("headwater: ")
    return line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_shuts_the_broker_down_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path) as (process, ready):
        assert ready.startswith("headwater ready on 127.0.0.1:")
        process.send_signal(number)
        code, errors = end_of(process)
    assert code == 0
    assert "Traceback" not in errors
    assert (tmp_path / "data/.kafka_cleanshutdown").exists()


def test_a_second_signal_ends_a_slow_shutdown(tmp_path: Path) -> None:
    """Here the broker waits for a client that does not read its responses."""
    with running(tmp_path) as (process, ready):
        address = ready.split()[3]
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port)), TIMEOUT_S) as peer:
            fill_its_answers(peer)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            while "Stopping" not in process.stderr.readline():
                pass
            process.send_signal(signal.SIGINT)
            code, errors = end_of(process)
    assert code == 128 + signal.SIGINT
    assert "Traceback" not in errors
    assert "second signal" in errors
    assert not (tmp_path / "data/.kafka_cleanshutdown").exists()


def fill_its_answers(peer: socket.socket) -> None:
    """Send ApiVersions requests without reading responses, until the broker stops reading."""
    # ApiVersions 0 without a client id.
    frame = b"\0\0\0\x0a" + b"\0\x12" + b"\0\0" + bytes(4) + b"\xff\xff"
    peer.setblocking(False)
    while select.select((), (peer,), (), 2)[1]:
        with suppress(BlockingIOError):
            peer.send(frame * 1_000)


def test_a_log_directory_in_use_is_rejected(tmp_path: Path) -> None:
    with running(tmp_path):
        line = refusal(["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"])
    assert "is in use" in line
    assert "--data" in line


def test_a_port_in_use_is_rejected_and_the_log_directory_is_released(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = refusal(["--data", str(tmp_path / "data"), "--listen", address])
        assert address in line
        assert "--listen" in line
        watched = refusal(
            ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--metrics", address]
        )
        assert f"METRICS://{address}" in watched
    with running(tmp_path) as (_, ready):
        assert ready.startswith("headwater ready")


def test_the_log_directory_of_another_node_or_cluster_is_rejected(tmp_path: Path) -> None:
    with running(tmp_path) as (process, _):
        process.terminate()
        end_of(process)
    arguments = ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    assert "belongs to node 0, not to 7" in refusal([*arguments, "--node-id", "7"])
    other = tmp_path / "other"
    with running(other) as (process, _):
        process.terminate()
        end_of(process)
    both = f"{tmp_path / 'data'},{other / 'data'}"
    assert "belongs to cluster" in refusal(["--data", both, "--listen", "127.0.0.1:0"])


def test_a_log_directory_that_cannot_be_created_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    line = refusal(["--data", str(tmp_path / "file/data"), "--listen", "127.0.0.1:0"])
    assert "cannot create log directory" in line


def test_each_line_of_a_json_log_is_a_json_object(tmp_path: Path) -> None:
    with running(tmp_path, "--log-format", "json", "-o", "zookeeper.max.in.flight.requests=10") as (
        process,
        _,
    ):
        process.terminate()
        _, errors = end_of(process)
    entries = [json.loads(line) for line in errors.splitlines()]
    assert entries[0]["message"].startswith(
        "Setting has no effect: name=zookeeper.max.in.flight.requests"
    )
    assert entries[-1]["message"] == "Stopping"
    assert {"ts", "level", "logger", "message"} <= set(entries[0])


def test_metrics_are_served_over_http(tmp_path: Path) -> None:
    with running(tmp_path, "--metrics", "127.0.0.1:0") as (process, _):
        assert process.stderr is not None
        url = process.stderr.readline().split()[-1]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            text = answer.read().decode()
        assert "\nkafka_server_replicamanager_partitioncount 0\n" in text
        assert '\nkafka_server_socketserver_connections{listener="PLAINTEXT"} 0\n' in text
        with urllib.request.urlopen(url.replace("metrics", "healthz")) as answer:
            assert answer.read() == b"ok\n"
        process.terminate()
        assert end_of(process)[0] == 0


def test_a_restart_keeps_the_cluster_id(tmp_path: Path) -> None:
    clusters = []
    for _ in range(2):
        with running(tmp_path) as (process, ready):
            clusters.append(ready.partition("cluster ")[2].partition(",")[0])
            process.terminate()
            assert end_of(process)[0] == 0
    assert clusters[0] == clusters[1] != ""


def test_without_zookeeper_the_start_fails_with_one_line(tmp_path: Path) -> None:
    line = refusal(
        [
            *("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"),
            *("--zookeeper", "127.0.0.1:1", "-o", "zookeeper.connection.timeout.ms=300"),
        ]
    )
    assert line.startswith("headwater: ZooKeeper at 127.0.0.1:1 does not answer within 300 ms")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--metrics", "foo"), "headwater.metrics.listener: an address must be host:port"),
        (("-o", "advertised.listeners=foo"), "advertised.listeners: a listener must be NAME://"),
    ],
)
def test_an_invalid_address_is_rejected_before_anything_is_written(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    assert reason in refusal(["--data", str(tmp_path / "data"), *words])
    assert list(tmp_path.iterdir()) == []
