"""Start a cluster repeatedly on a machine with busy cores.

    python -m tests.cluster.starts_under_load --starts 50

runs `stress --cpu` with one worker per core beside `headwater cluster start`, stops each cluster
when it is ready, and prints how many starts failed and which errors the brokers logged.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.test_cluster_command import HEADWATER, consecutive_ports

BROKERS = 3
TIMEOUT_S = 300


@dataclass(slots=True)
class Starts:
    """The outcome of several starts."""

    count: int = 0
    failed: list[str] = field(default_factory=list)
    assertions: list[str] = field(default_factory=list)
    elections: int = 0
    slowest_s: float = 0.0


@contextmanager
def busy_cores() -> Iterator[None]:
    """Run one busy process per core."""
    with subprocess.Popen(
        ["stress", "--cpu", str(os.cpu_count())],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as stress:
        try:
            yield
        finally:
            os.killpg(stress.pid, signal.SIGTERM)


def start_clusters(count: int, until_s: float = float("inf")) -> Starts:
    """Start so many clusters, or as many as fit before a time of the monotonic clock."""
    starts = Starts()
    while starts.count < count and time.monotonic() < until_s:
        with tempfile.TemporaryDirectory(prefix="headwater-starts-") as folder:
            _start_cluster(Path(folder), starts)
    return starts


def _start_cluster(folder: Path, starts: Starts) -> None:
    command = [*HEADWATER, "cluster", "start", "--brokers", str(BROKERS), "--dir", str(folder)]
    command += ["--base-port", str(consecutive_ports(BROKERS))]
    starts.count += 1
    began_s = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            starts.slowest_s = max(starts.slowest_s, time.monotonic() - began_s)
            process.send_signal(signal.SIGTERM)
            _, complaints = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    logs = [log.read_text(errors="replace") for log in sorted(folder.glob("broker-*.log"))]
    starts.elections += sum(log.count("Leader of the metadata quorum: leader=none") for log in logs)
    starts.assertions += [log for log in logs if "Traceback" in log]
    if not line.startswith("headwater ready on "):
        starts.failed.append("\n".join([complaints, *logs]))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after that")
    options = parser.parse_args(arguments)
    if shutil.which("stress") is None:
        parser.error("stress is not installed")
    with busy_cores():
        starts = start_clusters(options.starts, time.monotonic() + options.seconds)
    for each in [*starts.failed, *starts.assertions][:3]:
        print(each[-3_000:])
    print(
        f"starts={starts.count} failed={len(starts.failed)} assertions={len(starts.assertions)} "
        f"elections={starts.elections} slowest_start_s={starts.slowest_s:.1f}"
    )
    return 1 if starts.failed or starts.assertions else 0


if __name__ == "__main__":
    sys.exit(main())
