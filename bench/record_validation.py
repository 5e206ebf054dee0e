"""Cost of record validation: the same load with and without it, in turn.

The requests are prebuilt, so only the broker has work. librdkafka's own rates with compression are
in `peer_loads`, together with those of Apache Kafka, which always validates.

Note: rates and CPU time are per uncompressed byte.
"""

import statistics
import time
from functools import partial
from typing import Final, NamedTuple

from bench.harness import Bench, in_turn
from bench.peer_loads import line_of
from bench.processes import broker
from bench.raw_requests import TOPIC, frame_of, produce_pipelined
from bench.topics import create_topic
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Codec
from headwater.records.record import Record

ROUNDS: Final = 5
SETTING: Final = "headwater.record.validation.enable"
SIZES: Final = {"100 B": 100, "1 KiB": 1_024}
BATCHES: Final = {"1 MB": 900_000, "16 KB": 15_000}
LOAD_BYTES: Final = 200_000_000
SMALL_REQUESTS: Final = 20_000
OWED: Final = 5
PRODUCE_VERSION: Final = 12


class OnGenerated(NamedTuple):
    rate: float
    cpu: float


def measure(bench: Bench) -> None:
    for batch_name, batch_bytes in BATCHES.items():
        for size_name, size in SIZES.items():
            for codec in Codec:
                frame = _frame(codec, size, batch_bytes // size)
                count = LOAD_BYTES // (batch_bytes // size * size)
                name = f"{size_name} in batches of {batch_name}, {codec.name.lower()}"
                _compare(bench, name, frame, count, LOAD_BYTES / 1e6, ("MB/s", "s/GB"))
    for codec in Codec:
        frame = _frame(codec, 100, 1)
        name = f"one record of 100 B, {codec.name.lower()}"
        _compare(bench, name, frame, SMALL_REQUESTS, SMALL_REQUESTS, ("/s", "us"))


def _frame(codec: Codec, size: int, count: int) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    records = [Record(value=line_of(size), timestamp=now_ms + number) for number in range(count)]
    data = PartitionProduceData(records=memoryview(build_batch(records, codec=codec)))
    request = ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=(TopicProduceData(name=TOPIC, partition_data=(data,)),),
    )
    return frame_of(request, PRODUCE_VERSION)


def _compare(
    bench: Bench, name: str, frame: bytes, count: int, load: float, units: tuple[str, str]
) -> None:
    rounds = in_turn(
        {
            "on": partial(_run, "true", frame, count, load),
            "off": partial(_run, "false", frame, count, load),
        },
        ROUNDS,
    )
    on, off = (
        OnGenerated(*(statistics.median(each) for each in zip(*rounds[label], strict=True)))
        for label in ("on", "off")
    )
    per_unit = 1e3 if units[1] == "s/GB" else 1e6
    bench.record(name, on.rate, units[0], compared_with=f"{off.rate:,.0f} {units[0]} without")
    bench.record(
        f"{name}: CPU time",
        on.cpu * per_unit,
        units[1],
        compared_with=f"{off.cpu * per_unit:.3g} {units[1]} without",
    )


def _run(enable: str, frame: bytes, count: int, load: float) -> OnGenerated:
    with broker(f"{SETTING}={enable}") as (server, _):
        create_topic(server, TOPIC)
        # The first request opens the log.
        produce_pipelined(server.port, frame, 1, owed=1)
        cpu_before, began = server.cpu_seconds, time.perf_counter()
        produce_pipelined(server.port, frame, count, owed=OWED)
        seconds = time.perf_counter() - began
        return OnGenerated(load / seconds, (server.cpu_seconds - cpu_before) / load)
