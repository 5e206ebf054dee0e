"""Consumers of Kafka's Java client, several in one process that can be killed."""

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from tests.peers.apache_kafka import java
from tests.peers.jars import KAFKA_4_1

_PROGRAM: Final = Path(__file__).parent / "java" / "GroupMembers.java"
_TIMEOUT_S: Final = 120


class JavaMembers:
    """Members whose assignments are known from the process's output."""

    def __init__(self, topic: str, count: int, settings: Mapping[str, str]) -> None:
        self._owned: dict[int, list[int]] = {number: [] for number in range(count)}
        pairs = [f"{name}={value}" for name, value in settings.items()]
        self._process = subprocess.Popen(
            [*java(KAFKA_4_1, level="off"), str(_PROGRAM), topic, str(count), *pairs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    @property
    def output_fd(self) -> int:
        """File descriptor of the output."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def shares(self) -> list[list[int]]:
        """The assignment of each member, as far as it is known."""
        assert self._process.poll() is None, "the members ended by themselves"
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, _, owned = line.partition(":")
            if owned.strip() == "closed":
                del self._owned[int(number)]
            else:
                self._owned[int(number)] = [int(each) for each in owned.split()]
        return list(self._owned.values())

    def close_one(self) -> None:
        """Close the first remaining member and wait for it."""
        number = min(self._owned)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        until_s = time.monotonic() + _TIMEOUT_S
        while number in self._owned:
            left_s = until_s - time.monotonic()
            assert left_s > 0, f"member {number} does not close"
            select.select([self.output_fd], [], [], left_s)
            self.shares()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()


def settle(processes: Sequence[JavaMembers], *wanted: int) -> None:
    """Wait until the members together have this distribution of partitions."""
    until_s = time.monotonic() + _TIMEOUT_S
    while True:
        owned = [share for process in processes for share in process.shares()]
        numbers = sorted(number for share in owned for number in share)
        if sorted(map(len, owned)) == sorted(wanted) and numbers == list(range(sum(wanted))):
            return
        left_s = until_s - time.monotonic()
        assert left_s > 0, f"shared out as {owned}, and not as {wanted}"
        select.select([process.output_fd for process in processes], [], [], left_s)
