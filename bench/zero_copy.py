"""Ways to send a file from the page cache to a socket, and what the broker does.

Each contender is a process that sends the same segment over loopback, in steps of 1 MiB or 16 KiB:
with `pread` and `send`, with `mmap` and `send`, with `sendfile`. The broker answers fetches of the
same size one at a time. The reader copies what it receives, as a consumer does.

Note: system calls are counted by strace in a run of their own, because it slows what it watches.
CPU time is the scheduler's, in nanoseconds: a run takes a few of the clock ticks of /proc/PID/stat.
"""

import mmap
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import which
from typing import Final

from bench.harness import Bench, in_turn
from bench.processes import Server, broker
from bench.raw_requests import TOPIC, RawReader, connect, produce_frame, produce_pipelined
from bench.topics import create_topic

SEGMENT_BYTES: Final = 250_000_000
COUNTED_BYTES: Final = 50_000_000
RECORDS_OF_A_BATCH: Final = 130  # about 14 KB, so that a fetch of 16 KiB gets one whole batch
STEPS: Final = {"1 MiB": 1 << 20, "16 KiB": 1 << 14}
ROUNDS: Final = 5
_RECEIVE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes per second, and seconds of the sender's CPU time per gigabyte."""

    bytes_per_second: float
    cpu_seconds_per_gb: float


def measure(bench: Bench) -> None:
    with broker() as (server, directory):
        create_topic(server, TOPIC)
        frame = produce_frame(RECORDS_OF_A_BATCH)
        produce_pipelined(server.port, frame, SEGMENT_BYTES // len(frame), owed=32)
        segment = max(
            (directory / f"{TOPIC}-0").glob("*.log"), key=lambda each: each.stat().st_size
        )
        for label, step in STEPS.items():
            _measure_step(bench, server, segment, label, step)


def _measure_step(bench: Bench, server: Server, segment: Path, label: str, step: int) -> None:
    senders = {name: _sender(name, segment, step) for name in METHODS}
    try:
        runs: dict[str, Callable[[int], Transfer]] = {
            name: partial(_stream, sender) for name, sender in senders.items()
        }
        runs["broker"] = partial(_fetch, server, step)
        size = segment.stat().st_size
        found = in_turn({name: partial(run, size) for name, run in runs.items()}, ROUNDS)
        medians = {
            name: Transfer(
                statistics.median(each.bytes_per_second for each in transfers),
                statistics.median(each.cpu_seconds_per_gb for each in transfers),
            )
            for name, transfers in found.items()
        }
        copied = medians["read and write"]
        for name, median in medians.items():
            cpu_share = median.cpu_seconds_per_gb / copied.cpu_seconds_per_gb
            bench.record(
                f"{name}, {label}: throughput",
                median.bytes_per_second / 1e6,
                "MB/s",
                compared_with=f"{median.bytes_per_second / copied.bytes_per_second:.2f} of a copy",
            )
            bench.record(
                f"{name}, {label}: CPU time of the sender",
                median.cpu_seconds_per_gb,
                "s/GB",
                compared_with=f"{cpu_share:.2f} of a copy",
            )
        servers = {**senders, "broker": server}
        for name, run in runs.items():
            calls = _system_calls(servers[name], partial(run, COUNTED_BYTES))
            if calls is not None:
                bench.record(
                    f"{name}, {label}: system calls per MB", calls / (COUNTED_BYTES / 1e6), ""
                )
    finally:
        for sender in senders.values():
            sender.kill()


def _sender(name: str, segment: Path, step: int) -> Server:
    return Server([sys.executable, "-m", "bench.zero_copy", name, str(segment), str(step)])


def _cpu_seconds(server: Server) -> float:
    """Return the CPU time of all threads of a server."""
    threads = Path(f"/proc/{server.pid}/task").iterdir()
    times = ((each / "schedstat").read_text(encoding="ascii") for each in threads)
    return sum(int(text.split()[0]) for text in times) / 1e9


def _stream(sender: Server, size: int) -> Transfer:
    """Receive the first bytes of the segment from a contender."""
    room = bytearray(_RECEIVE_BYTES)
    cpu_before, began = _cpu_seconds(sender), time.perf_counter()
    with connect(sender.port) as connected:
        connected.sendall(size.to_bytes(8, "big"))
        received = 0
        while count := connected.recv_into(room):
            received += count
    took = time.perf_counter() - began
    assert received == size, f"received {received} of {size} bytes"
    return Transfer(size / took, (_cpu_seconds(sender) - cpu_before) / size * 1e9)


def _fetch(server: Server, step: int, size: int) -> Transfer:
    """Fetch the first bytes of the log from the broker, one fetch at a time."""
    reader = RawReader(server.port, max_bytes=step)
    cpu_before, began = _cpu_seconds(server), time.perf_counter()
    received = 0
    while received < size - step:
        received += reader.read()
    took = time.perf_counter() - began
    reader.close()
    return Transfer(received / took, (_cpu_seconds(server) - cpu_before) / received * 1e9)


def _system_calls(server: Server, run: Callable[[], object]) -> int | None:
    """Return how many system calls a run takes; None where they cannot be counted."""
    if which("strace") is None:
        print("system calls are not counted: strace is not installed", file=sys.stderr)
        return None
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as table:
        command = ["strace", "-c", "-f", "-q", "-o", table.name, "-p", str(server.pid)]
        tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            if not _is_traced(server.pid, tracer):
                print("system calls are not counted: strace may not attach", file=sys.stderr)
                return None
            run()
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
        total = [line.split() for line in table if line.rstrip().endswith(" total")]
    return int(total[0][3]) if total else None


def _is_traced(pid: int, tracer: "subprocess.Popen[bytes]") -> bool:
    """Wait until the tracer has attached, or has ended because it may not."""
    status = Path(f"/proc/{pid}/status")
    while tracer.poll() is None:
        if f"TracerPid:\t{tracer.pid}" in status.read_text(encoding="ascii"):
            return True
        time.sleep(0.01)
    return False


# The contenders.


def read_and_write(connected: socket.socket, file: int, size: int, step: int) -> None:
    room = memoryview(bytearray(step))
    for position in range(0, size, step):
        read = os.preadv(file, [room[: min(step, size - position)]], position)
        connected.sendall(room[:read])


def mmap_and_write(connected: socket.socket, file: int, size: int, step: int) -> None:
    with mmap.mmap(file, size, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
        for position in range(0, size, step):
            with view[position : min(size, position + step)] as part:
                connected.sendall(part)


def sendfile(connected: socket.socket, file: int, size: int, step: int) -> None:
    position = 0
    while position < size:
        count = min(step, size - position)
        position += os.sendfile(connected.fileno(), file, position, count)


METHODS: Final[dict[str, Callable[[socket.socket, int, int, int], None]]] = {
    "read and write": read_and_write,
    "mmap and write": mmap_and_write,
    "sendfile": sendfile,
}


def _serve(name: str, path: str, step: int) -> None:
    """Send the requested number of bytes of a file to each connection."""
    file = os.open(path, os.O_RDONLY)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"ready 127.0.0.1:{listening.getsockname()[1]}", flush=True)
        while True:
            connected = listening.accept()[0]
            with connected:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                size = int.from_bytes(connected.recv(8), "big")
                METHODS[name](connected, file, size, step)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
