"""Throughput and latency of heartbeats and offset commits.

Each frame is built once and replayed (see `bench.raw_requests`). The bare loop receives as many
requests of the same size and answers with eight bytes, without looking at them.
"""

import asyncio
import statistics
import time
from typing import Final

from bench.broker_requests import percentiles_us
from bench.group_members import ClassicMember, ConsumerMember, GroupMember
from bench.group_rebalances import find_coordinators
from bench.harness import Bench, in_turn
from bench.network_echo import Exchange, serve_bare
from bench.processes import Server, broker
from bench.raw_requests import frame_of, produce_one_at_a_time, produce_pipelined
from bench.topics import create_topic
from headwater.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headwater.protocol.messages.heartbeat import HeartbeatRequest
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headwater.protocol.older_versions import Message

ROUNDS: Final = 3
PIPELINED: Final = 20_000
OWED: Final = 500
ALONE: Final = 3_000
TOPIC: Final = "committed"
CLASSIC_GROUP: Final = "group-0"
CONSUMER_GROUP: Final = "group-1"

_BARE_ANSWER_BYTES: Final = 8


def measure(bench: Bench) -> None:
    with broker("group.initial.rebalance.delay.ms=0") as (server, _):
        create_topic(server, TOPIC)
        classic = ClassicMember(server.port, CLASSIC_GROUP, 1)
        consumer = ConsumerMember(server.port, CONSUMER_GROUP, TOPIC, 0)
        asyncio.run(_join(server, [classic, consumer]))
        requests = _requests(classic, consumer)
        for name, (request, version, at_least) in requests.items():
            _measure_rate(bench, name, server, frame_of(request, version), at_least=at_least)
        request, version, _ = requests["commits of one offset"]
        took_ns = produce_one_at_a_time(server.port, frame_of(request, version), ALONE)
        for label, value in zip(("p50", "p99"), percentiles_us(took_ns), strict=False):
            bench.record(f"a commit, one at a time: {label}", value, "us", at_most=10_000)


def _requests(
    classic: ClassicMember, consumer: ConsumerMember
) -> dict[str, tuple[Message, int, float]]:
    """Return each request, its version and the target rate."""
    generation, _ = classic.controller_access
    place = OffsetCommitRequestPartition(committed_offset=7)
    return {
        "heartbeats, classic": (
            HeartbeatRequest(
                group_id=CLASSIC_GROUP, generation_id=generation, member_id=classic.member_id
            ),
            4,
            10_000,
        ),
        "heartbeats, consumer": (
            ConsumerGroupHeartbeatRequest(
                group_id=CONSUMER_GROUP,
                member_id=consumer.member_id,
                member_epoch=consumer.controller_access[0],
            ),
            1,
            8_000,
        ),
        "commits of one offset": (
            OffsetCommitRequest(
                group_id=CLASSIC_GROUP,
                generation_id_or_member_epoch=generation,
                member_id=classic.member_id,
                topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(place,)),),
            ),
            9,
            3_000,
        ),
    }


async def _join(server: Server, members: list[GroupMember]) -> None:
    """Let members join; without their tasks they stay until their sessions expire."""
    await find_coordinators(server)
    tasks = [asyncio.create_task(member.live()) for member in members]
    while not all(member.controller_access[1] for member in members):
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for member in members:
        member.close()


def _measure_rate(
    bench: Bench, name: str, server: Server, frame: bytes, *, at_least: float
) -> None:
    exchange = Exchange(
        requests=PIPELINED,
        request_bytes=len(frame) - 4,
        answer_bytes=_BARE_ANSWER_BYTES,
        owed=OWED,
    )

    def ask() -> tuple[float, float]:
        cpu_before, began = server.cpu_seconds, time.perf_counter()
        produce_pipelined(server.port, frame, PIPELINED, owed=OWED)
        seconds = time.perf_counter() - began
        return PIPELINED / seconds, (server.cpu_seconds - cpu_before) / PIPELINED * 1e6

    def ask_bare() -> tuple[float, float]:
        began = time.perf_counter()
        serve_bare(exchange, None)
        return PIPELINED / (time.perf_counter() - began), 0.0

    rounds = in_turn({"broker": ask, "bare": ask_bare}, ROUNDS)
    rate, cpu_us = (statistics.median(each) for each in zip(*rounds["broker"], strict=True))
    limit, _ = (statistics.median(each) for each in zip(*rounds["bare"], strict=True))
    against = f"{limit:,.0f}/s of a bare loop"
    bench.record(name, rate, "/s", compared_with=against, at_least=at_least)
    bench.record(f"{name}: CPU time of the broker for one", cpu_us, "us")
