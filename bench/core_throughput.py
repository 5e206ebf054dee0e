"""Produce to one broker and to two on one machine: `headwater start --cores`.

As many clients as brokers, each with a connection to one broker and prebuilt requests, so that they
cost next to nothing. On a machine with two cores they still take some of what the brokers need.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.harness import Bench, in_turn
from bench.raw_requests import produce_frame, produce_pipelined

CORES: Final = (1, 2)
CLIENTS: Final = 2
RECORDS_OF_A_FRAME: Final = 100
FRAMES: Final = 10_000
ROUNDS: Final = 3


def measure(bench: Bench) -> None:
    contenders = {f"--cores {cores}": partial(_rate_with, cores) for cores in CORES}
    for name, rates in in_turn(contenders, ROUNDS).items():
        bench.record(
            f"produce, {CLIENTS} clients, {name}",
            statistics.median(rates),
            "MB/s",
            compared_with=f"a machine with {os.cpu_count()} cores",
        )


def _rate_with(cores: int) -> float:
    frame = produce_frame(RECORDS_OF_A_FRAME, topic=_topic(0))
    with _brokers(cores) as ports:
        _create_topics(ports)
        clients = [_client(ports[each % cores], each) for each in range(CLIENTS)]
        for client in clients:
            assert client.stdout is not None
            client.stdout.readline()
        began = time.perf_counter()
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        codes = [client.wait() for client in clients]
        took = time.perf_counter() - began
        for client in clients:
            client.communicate()
    assert not any(codes), "a client failed"
    return CLIENTS * FRAMES * len(frame) / took / 1e6


def _client(port: int, number: int) -> "subprocess.Popen[str]":
    """Start a client that is ready to produce when it prints a line."""
    command = [sys.executable, "-m", "bench.core_throughput", str(port), str(number)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def _brokers(cores: int) -> Iterator[list[int]]:
    """Run the brokers on an empty directory; yield their ports."""
    command = [sys.executable, "-m", "headwater", "start", "--cores", str(cores)]
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        command += ["--listen", "127.0.0.1:0", "--data", directory, "--log-level", "warning"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as supervisor:
            assert supervisor.stdout is not None
            line = supervisor.stdout.readline()
            addresses = line.partition(" on ")[2].partition(" (")[0].split(", ")
            try:
                yield [int(each.rpartition(":")[2]) for each in addresses]
            finally:
                supervisor.terminate()
                supervisor.wait()


def _create_topics(ports: list[int]) -> None:
    """Create a topic for each client, on the broker that it produces to."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports[0]}", "log_level": 3})
    topics = [
        NewTopic(_topic(each), 1, replica_assignment=[[each % len(ports)]])
        for each in range(CLIENTS)
    ]
    for made in admin.create_topics(topics).values():
        made.result(timeout=30)


def _topic(client: int) -> str:
    return f"bench-{client}"


def _produce(port: int, client: int) -> None:
    frame = produce_frame(RECORDS_OF_A_FRAME, topic=_topic(client))
    print("ready", flush=True)
    sys.stdin.readline()
    produce_pipelined(port, frame, FRAMES, owed=8)


if __name__ == "__main__":
    _produce(*map(int, sys.argv[1:]))
