"""Send batches that decompress to a hundred megabytes and measure the broker's resident memory.

`python -m tests.fuzz.bombs --bombs 1000` does at length what the test does in short.
"""

import argparse
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Codec, read_header
from headwater.records.batch_sealing import seal_batch
from headwater.records.compression import compress
from headwater.records.record import Record
from headwater.testing import EmbeddedBroker
from tests.peers.raw_client import RawClient

CONNECTIONS: Final = 8
BOMB_BYTES: Final = 120 << 20
_BY_NAME: Final = 12
_TOPICS: Final = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "lz4"},
}


def bombs() -> list[bytes]:
    """Build batches that decompress to more than the limit, one per codec."""
    header = read_header(build_batch([Record(key=b"k", value=b"v", timestamp=1)]))
    return [
        seal_batch(
            header._replace(attributes=codec),
            compress(codec, bytes(BOMB_BYTES if codec is not Codec.SNAPPY else BOMB_BYTES // 8)),
        )
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
    ]


def bombard(broker: EmbeddedBroker, *, count: int, say: Callable[[str], None]) -> int:
    """Send bombs over several connections; return by how many bytes the broker has grown."""
    client = RawClient(broker.bootstrap_servers)
    topics = tuple(
        CreatableTopic(
            name=name,
            num_partitions=4,
            replication_factor=1,
            configs=tuple(
                CreatableTopicConfig(name=setting, value=value)
                for setting, value in {**settings, "max.message.bytes": "10000000"}.items()
            ),
        )
        for name, settings in _TOPICS.items()
    )
    client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 5)
    good = build_batch([Record(key=b"k", value=b"v", timestamp=1)], codec=Codec.LZ4)
    for topic in _TOPICS:
        assert _produce(client, topic, 0, good) is ErrorCode.NONE
    batches = bombs()
    before_bytes = resident_bytes(broker.pid)
    refusals: list[ErrorCode] = []
    threads = [
        threading.Thread(
            target=_bombard,
            args=(broker.bootstrap_servers, batches, range(first, count, CONNECTIONS), refusals),
        )
        for first in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refusals) == count, f"{count - len(refusals)} bombs were not answered"
    assert ErrorCode.NONE not in refusals, "a bomb was taken"
    for topic in _TOPICS:
        assert _produce(client, topic, 0, good) is ErrorCode.NONE
    client.close()
    after_bytes = resident_bytes(broker.pid)
    say(
        f"{count} bombs: {before_bytes >> 20} MiB before, {after_bytes >> 20} MiB after, "
        f"{peak_bytes(broker.pid) >> 20} MiB at most"
    )
    return after_bytes - before_bytes


def _bombard(
    bootstrap_servers: str, batches: Sequence[bytes], numbers: range, refusals: list[ErrorCode]
) -> None:
    client = RawClient(bootstrap_servers)
    for number in numbers:
        topic = list(_TOPICS)[number // len(batches) % len(_TOPICS)]
        batch = batches[number % len(batches)]
        refusals.append(_produce(client, topic, number % 4, batch))
    client.close()


def _produce(client: RawClient, topic: str, partition: int, batch: bytes) -> ErrorCode:
    data = PartitionProduceData(index=partition, records=memoryview(batch))
    request = ProduceRequest(
        acks=1,
        timeout_ms=60_000,
        topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
    )
    response = client.ask(request, _BY_NAME)
    assert isinstance(response, ProduceResponse)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def resident_bytes(pid: int) -> int:
    return _status_bytes(pid, "VmRSS:")


def peak_bytes(pid: int) -> int:
    return _status_bytes(pid, "VmHWM:")


def _status_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise AssertionError("the broker is gone")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bombs", type=int, default=1_000)
    asked = parser.parse_args()
    with EmbeddedBroker() as broker:
        bombard(broker, count=asked.bombs, say=print)
    return 0


if __name__ == "__main__":
    sys.exit(main())
