"""Commits, transactions, slow replicas and crashes: acknowledged commits survive.

The model knows only what is in the log. Every commit writes a larger number than the one before, so
the expected offset is the largest number that counts.
"""

import random
import traceback
from dataclasses import dataclass

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.coordinator.runtime.pending_responses import Outcome as OnResponse
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.simulation.labs.group_lab import GroupLab

STEPS = 120
GROUPS = ("a", "b")
PARTITIONS = (0, 1)
PRODUCERS = (ProducerId(1), ProducerId(2))


@dataclass(slots=True)
class Written:
    """A commit in the log. It counts if it is plain, or when its transaction has committed."""

    at: int
    group: str
    partition: int
    number: int
    producer: ProducerId | None
    counts_from: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None if every check held."""

    seed: int
    trace: list[str]
    failure: str | None


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lab = GroupLab()
        self.lab.log.commits_at_once = False
        self.number = 0
        self.log: list[Written] = []
        # Acknowledged commits, and the log offsets of their records.
        self.promised: list[tuple[str, int, int]] = []

    def step(self) -> str:
        actions = [self.commit] * 4 + [self.commit_in_transaction] * 3
        actions += [self.end_transaction] * 2 + [self.replicate] * 3 + [self.crash]
        action = self.rng.choice(actions)
        action()
        return f"{action.__name__}, log to {self.lab.log.end_offset}"

    def commit(self) -> None:
        group, partition, number, at = self._next()
        request = OffsetCommitRequest(
            group_id=group,
            topics=(
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=(
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=number
                        ),
                    ),
                ),
            ),
        )
        self.log.append(Written(at, group, partition, number, None, at))
        self._send(request, 9, (group, partition, number))

    def commit_in_transaction(self) -> None:
        group, partition, number, at = self._next()
        producer = self.rng.choice(PRODUCERS)
        request = TxnOffsetCommitRequest(
            group_id=group,
            producer_id=producer,
            topics=(
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=(
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=number
                        ),
                    ),
                ),
            ),
        )
        self.log.append(Written(at, group, partition, number, producer, None))
        self._send(request, 3, None)

    def end_transaction(self) -> None:
        producer = self.rng.choice(PRODUCERS)
        is_commit = self.rng.random() < 0.6
        at = self.lab.log.end_offset
        of_it = [each for each in self.log if each.producer == producer]
        mine = [each for each in of_it if each.counts_from is None]
        if is_commit:
            for each in mine:
                each.counts_from = at
        else:
            # It stays in the model's log, in case the marker itself is lost.
            for each in mine:
                each.counts_from = -at - 1
        told = [(each.group, each.partition, each.number) for each in mine]

        def answered(outcome: OnResponse) -> None:
            if outcome is ErrorCode.NONE and is_commit:
                self.promised += told

        self.lab.hosted.end_transaction(
            TransactionalProducer(producer, 0),
            coordinator_epoch=0,
            client_version=0,
            is_commit=is_commit,
            answer=answered,
        )

    def replicate(self) -> None:
        log = self.lab.log
        log.commit(self.rng.randint(log.committed_offset, log.end_offset))

    def crash(self) -> None:
        log = self.lab.log
        end = self.rng.randint(log.committed_offset, log.end_offset)
        log.crash(end)
        self.log = [each for each in self.log if each.at < log.end_offset]
        for each in self.log:
            decided = each.counts_from
            if each.producer is not None and decided is not None:
                marker = decided if decided >= 0 else -decided - 1
                if marker >= log.end_offset:
                    each.counts_from = None
        self.lab.restart()

    def check(self) -> None:
        """After a last crash that loses nothing, everything can be read."""
        self.lab.log.commit()
        self.lab.restart()
        for group in GROUPS:
            for partition in PARTITIONS:
                found = self._read(group, partition)
                assert found == self._wanted(group, partition)
                kept = [n for g, p, n in self.promised if (g, p) == (group, partition)]
                assert found >= max(kept, default=-1)

    def _wanted(self, group: str, partition: int) -> int:
        numbers = [
            each.number
            for each in self.log
            if (each.group, each.partition) == (group, partition)
            and each.counts_from is not None
            and each.counts_from >= 0
        ]
        return max(numbers, default=-1)

    def _read(self, group: str, partition: int) -> int:
        topic = OffsetFetchRequestTopics(name="t", partition_indexes=(partition,))
        asked = OffsetFetchRequestGroup(group_id=group, topics=(topic,))
        answer = self.lab.ask(OffsetFetchRequest(groups=(asked,)), OffsetFetchResponse, 8)
        return answer.groups[0].topics[0].partitions[0].committed_offset

    def _next(self) -> tuple[str, int, int, int]:
        self.number += 1
        group, partition = self.rng.choice(GROUPS), self.rng.choice(PARTITIONS)
        return group, partition, self.number, self.lab.log.end_offset

    def _send(
        self,
        request: OffsetCommitRequest | TxnOffsetCommitRequest,
        version: int,
        promise: tuple[str, int, int] | None,
    ) -> None:
        def answered(outcome: OnResponse) -> None:
            assert isinstance(outcome, OffsetCommitResponse | TxnOffsetCommitResponse), outcome
            if promise is not None:
                self.promised.append(promise)

        self.lab.hosted.handle_request(
            request, version=version, client_id="c", client_host="/h", answer=answered
        )


def run(seed: int) -> Outcome:
    """Run one seed."""
    world = World(seed)
    trace: list[str] = []
    failure: str | None = None
    try:
        trace.extend(world.step() for _ in range(STEPS))
        world.check()
    except Exception:  # noqa: BLE001, whatever a shard raises is the finding
        failure = traceback.format_exc()
    return Outcome(seed=seed, trace=trace, failure=failure)
