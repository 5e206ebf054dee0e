"""Group members of every client, with every assignor that it has.

They are used as they are; only what the tests need has one form here.

Note: a member takes part in a rebalance only while it is polled, so tests poll all members in turn
until the group is as expected.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.compat.clients import TIMEOUT_S
from tests.compat.foreign import load
from tests.compat.headwater_member import HeadwaterMember
from tests.compat.joining import Joining
from tests.compat.loop_thread import LoopThread

kafka = load("kafka")
aiokafka = load("aiokafka")

_POLL_S: Final = 0.05
# Several rebalances, of members that may be processes which have yet to start.
_SETTLED_WITHIN_S: Final = 180
_ASSIGNORS: Final[Mapping[str, tuple[str, str]]] = {
    "range": ("range", "RangePartitionAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "sticky": ("sticky.sticky_assignor", "StickyPartitionAssignor"),
    "cooperative-sticky": ("cooperative_sticky", "CooperativeStickyAssignor"),
}


class Member(Protocol):
    """A consumer in a group, until it is closed."""

    def poll(self) -> list[tuple[int, int]]:
        """Return partition and offset of records that have arrived."""
        ...

    def owned(self) -> list[int]:
        """Return its assigned partitions, in order."""
        ...

    def seek(self, partition: int, offset: int) -> None: ...

    def offset_at(self, partition: int, timestamp_ms: int) -> int: ...

    def commit(self, partition: int, offset: int, *, waits: bool) -> None: ...

    def committed(self, partition: int) -> int | None: ...

    def close(self) -> None: ...


class ConfluentMember:
    def __init__(self, joining: Joining) -> None:
        self._topic = joining.topic
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": joining.servers,
            "group.id": joining.group,
            "auto.offset.reset": joining.reset,
            "enable.auto.commit": False,
            "group.protocol": joining.protocol,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        if joining.instance is not None:
            settings["group.instance.id"] = joining.instance
        if joining.protocol == "consumer":
            settings["group.remote.assignor"] = joining.strategy
        else:
            settings["partition.assignment.strategy"] = joining.strategy
            settings["session.timeout.ms"] = joining.session_ms
            settings["heartbeat.interval.ms"] = joining.session_ms // 10
        self._consumer = Consumer(settings)
        self._consumer.subscribe([joining.topic])

    def poll(self) -> list[tuple[int, int]]:
        found = []
        for message in self._consumer.consume(100, _POLL_S):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            found.append((partition, offset))
        return found

    def owned(self) -> list[int]:
        return sorted(each.partition for each in self._consumer.assignment())

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(self._topic, partition, offset))

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        asked = [TopicPartition(self._topic, partition, timestamp_ms)]
        (found,) = self._consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
        return found.offset

    def commit(self, partition: int, offset: int, *, waits: bool) -> None:
        place = TopicPartition(self._topic, partition, offset)
        if waits:
            self._consumer.commit(offsets=[place], asynchronous=False)
        else:
            self._consumer.commit(offsets=[place], asynchronous=True)

    def committed(self, partition: int) -> int | None:
        asked = [TopicPartition(self._topic, partition)]
        (found,) = self._consumer.committed(asked, timeout=TIMEOUT_S)
        return found.offset if found.offset >= 0 else None

    def close(self) -> None:
        # librdkafka may deadlock here if it loses its membership at the same moment: its rebalance
        # callback waits for a thread that has already left the group. The call cannot be
        # interrupted, so a thread makes it, and is left behind.
        leaving = threading.Thread(target=self._consumer.close, daemon=True)
        leaving.start()
        leaving.join(TIMEOUT_S)


def _python_settings(joining: Joining, library: str) -> dict[str, Any]:
    module, name = _ASSIGNORS[joining.strategy]
    assignor = getattr(load(f"{library}.coordinator.assignors.{module}"), name)
    return {
        "bootstrap_servers": joining.servers,
        "group_id": joining.group,
        "group_instance_id": joining.instance,
        "auto_offset_reset": joining.reset,
        "enable_auto_commit": False,
        "partition_assignment_strategy": [assignor],
        "session_timeout_ms": joining.session_ms,
        "heartbeat_interval_ms": joining.session_ms // 10,
    }


class KafkaPythonMember:
    def __init__(self, joining: Joining) -> None:
        self._topic = joining.topic
        self._consumer = kafka.KafkaConsumer(
            joining.topic, **_python_settings(joining, "kafka"), reconnect_backoff_max_ms=200
        )

    def poll(self) -> list[tuple[int, int]]:
        polled = self._consumer.poll(timeout_ms=int(_POLL_S * 1_000))
        return [(each.partition, each.offset) for some in polled.values() for each in some]

    def owned(self) -> list[int]:
        return sorted(each.partition for each in self._consumer.assignment())

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._place(partition), offset)

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        place = self._place(partition)
        return int(self._consumer.offsets_for_times({place: timestamp_ms})[place].offset)

    def commit(self, partition: int, offset: int, *, waits: bool) -> None:
        mark = {self._place(partition): kafka.OffsetAndMetadata(offset, "", -1)}
        if waits:
            self._consumer.commit(mark)
        else:
            self._consumer.commit_async(mark)

    def committed(self, partition: int) -> int | None:
        found: int | None = self._consumer.committed(self._place(partition))
        return found

    def close(self) -> None:
        self._consumer.close(autocommit=False)

    def _place(self, partition: int) -> Any:
        return kafka.TopicPartition(self._topic, partition)


class AioKafkaMember:
    def __init__(self, joining: Joining) -> None:
        self._topic = joining.topic
        self._thread = LoopThread()
        self._is_closed = False

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
                joining.topic, **_python_settings(joining, "aiokafka")
            )
            await consumer.start()
            return consumer

        self._consumer = self._thread.do(start())

    def poll(self) -> list[tuple[int, int]]:
        polled = self._thread.do(self._consumer.getmany(timeout_ms=int(_POLL_S * 1_000)))
        return [(each.partition, each.offset) for some in polled.values() for each in some]

    def owned(self) -> list[int]:
        return sorted(each.partition for each in self._consumer.assignment())

    def seek(self, partition: int, offset: int) -> None:
        async def seek() -> None:
            self._consumer.seek(self._place(partition), offset)

        self._thread.do(seek())

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        place = self._place(partition)
        found = self._thread.do(self._consumer.offsets_for_times({place: timestamp_ms}))
        return int(found[place].offset)

    def commit(self, partition: int, offset: int, *, waits: bool) -> None:
        """aiokafka has one way to commit; an asynchronous commit is a task."""
        work = self._consumer.commit({self._place(partition): offset})
        if waits:
            self._thread.do(work)
        else:
            self._thread.begin(work)

    def committed(self, partition: int) -> int | None:
        found: int | None = self._thread.do(self._consumer.committed(self._place(partition)))
        return found

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._thread.do(self._consumer.stop())
            self._thread.close()

    def _place(self, partition: int) -> Any:
        return aiokafka.TopicPartition(self._topic, partition)


MEMBERS: Final[Mapping[str, Callable[[Joining], Member]]] = {
    "confluent-kafka": ConfluentMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AioKafkaMember,
    "headwater": HeadwaterMember,
}


class MortalMember:
    """A member in a process of its own, which can be killed; it prints its assignment."""

    def __init__(self, kind: str, joining: Joining) -> None:
        command = [sys.executable, "-m", "tests.compat.group_members", kind]
        self._process = subprocess.Popen(
            [*command, json.dumps(asdict(joining))], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._owned: list[int] = []

    def poll(self) -> list[tuple[int, int]]:
        assert self._process.poll() is None, "the member ended by itself"
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # The end of a line may arrive separately, since this does not block.
            if line.strip():
                self._owned = json.loads(line)
        return []

    def owned(self) -> list[int]:
        return self._owned

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Close it cleanly, if it is still alive."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(TIMEOUT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Polled(Protocol):
    """What `settle` needs of a member."""

    def poll(self) -> list[tuple[int, int]]: ...

    def owned(self) -> list[int]: ...

    def close(self) -> None: ...


def settle(members: Sequence[Polled], *shares: int) -> list[tuple[int, int]]:
    """Poll until the members have so many partitions each; return what arrived meanwhile."""
    until_s = time.monotonic() + _SETTLED_WITHIN_S
    arrived: list[tuple[int, int]] = []
    while True:
        for member in members:
            arrived += member.poll()
        owned = [member.owned() for member in members]
        numbers = sorted(number for each in owned for number in each)
        if sorted(map(len, owned)) == sorted(shares) and numbers == list(range(sum(shares))):
            return arrived
        assert time.monotonic() < until_s, f"shared out as {owned}, and not as {shares}"


def main(kind: str, joining: str) -> None:
    """Run as a member until the process is ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    told: list[int] | None = None
    with closing(MEMBERS[kind](Joining(**json.loads(joining)))) as member:
        while True:
            member.poll()
            owned = member.owned()
            if owned != told:
                told = owned
                print(json.dumps(owned), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
