"""Consumer in its own process that measures the latency of records.

Note: both processes read the same clock, the system's monotonic one. In one process the producer's
and the consumer's thread would wait for each other's GIL, and that would be in the figure.
"""

import array
import select
import subprocess
import sys
import time
from struct import Struct
from typing import Final, Self

from bench.librdkafka import Consumer

CONSUMER: Final = {"fetch.wait.max.ms": "500", "socket.nagle.disable": "true"}
SENT_NS: Final = Struct(">q")
"""First bytes of a record: its send time."""

_NUMBER: Final = "q"
_TIMEOUT_S: Final = 60


class Follower:
    """Consumer process; `times_ns` returns the latencies of the next records."""

    def __init__(self, port: int, topic: str) -> None:
        command = [sys.executable, "-m", "bench.following", str(port), topic]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        with self._child:
            pass

    def times_ns(self, count: int) -> list[int]:
        """Return the latencies of `count` records since the last call."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(b"%d\n" % count)
        self._child.stdin.flush()
        found = array.array(_NUMBER)
        wanted_bytes = count * found.itemsize
        content = self._child.stdout.read(wanted_bytes)
        if len(content) < wanted_bytes:
            raise TimeoutError(f"not all of {count} records came")
        found.frombytes(content)
        return found.tolist()


def follow(port: int, topic: str) -> None:
    """Run the child: collect latencies, and write them when the parent has requested enough."""
    took_ns = array.array(_NUMBER)
    wanted: int | None = None
    until_s = 0.0
    with Consumer(port, topic, CONSUMER) as consumer:
        consumer.start(0)
        while True:
            value = consumer.next_value(SENT_NS.size)
            if value is not None:
                took_ns.append(time.monotonic_ns() - SENT_NS.unpack(value)[0])
            if wanted is None and select.select([sys.stdin], [], [], 0)[0]:
                wanted, until_s = int(sys.stdin.buffer.readline()), time.monotonic() + _TIMEOUT_S
            if wanted is not None and len(took_ns) >= wanted:
                sys.stdout.buffer.write(took_ns[:wanted].tobytes())
                sys.stdout.buffer.flush()
                took_ns, wanted = took_ns[wanted:], None
            elif wanted is not None and time.monotonic() > until_s:
                return


if __name__ == "__main__":
    follow(int(sys.argv[1]), sys.argv[2])
