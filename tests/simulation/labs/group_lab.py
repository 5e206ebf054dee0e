"""The groups of one partition on the real runtime, over a log in memory.

A restart is a new runtime over the same log.
"""

import random
from typing import TypeVar

from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from headwater.coordinator.group.consumer.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.group.group_coordinator_shard import (
    GroupCoordinatorShard,
    OffsetSettings,
)
from headwater.coordinator.group.group_events import TopicsDeleted
from headwater.coordinator.group.group_metadata_manager import GroupFactory
from headwater.coordinator.records.record_serde import GROUP_RECORDS
from headwater.coordinator.runtime.coordinator_context import (
    CoordinatorContext,
    CoordinatorServices,
)
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.metadata.cluster_image import ClusterImage
from headwater.protocol.older_versions import Message
from headwater.replication.purgatory.timer import Timer
from tests.simulation.fakes.in_memory_coordinator_log import InMemoryCoordinatorLog
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.broker_lab import ScriptedClock

M = TypeVar("M")


class GroupLab:
    """See the module docstring."""

    def __init__(
        self,
        settings: OffsetSettings | None = None,
        limits: ClassicLimits | None = None,
        image: ClusterImage | None = None,
        consumer: ConsumerGroupSettings | None = None,
    ) -> None:
        self.log = InMemoryCoordinatorLog(GROUP_RECORDS)
        self.clock = ScriptedClock()
        self.image = image or ClusterImage(cluster_id="here")
        self._settings = settings or OffsetSettings()
        self._making = GroupFactory(
            classic=limits or ClassicLimits(initial_rebalance_delay_ms=0),
            consumer=consumer or ConsumerGroupSettings(),
            rng=SeededRandom(random.Random(5)),
            image=lambda: self.image,
        )
        self.restart()

    def restart(self) -> None:
        self.timer = Timer()
        tools: CoordinatorServices[TopicsDeleted] = CoordinatorServices(
            topic="__consumer_offsets",
            make=self._make,
            codec=GROUP_RECORDS,
            clock=self.clock,
            timer=self.timer,
            perform=lambda _, effect: _unexpected(effect),
        )
        self.hosted = CoordinatorContext(0, lambda: self.log, tools, load_ended=lambda: None)
        self.hosted.load()

    def send(self, request: Message, version: int) -> list[Outcome]:
        """Return the outcome of a request, now or later."""
        answers: list[Outcome] = []
        self.hosted.handle_request(
            request, version=version, client_id="c", client_host="/h", answer=answers.append
        )
        return answers

    def ask(self, request: Message, shape: type[M], version: int) -> M:
        (answer,) = self.send(request, version)
        assert isinstance(answer, shape), answer
        return answer

    def pass_time(self, duration_ms: int) -> None:
        self.clock.move(duration_ms)
        self.timer.expire(self.clock.steady_ms())

    def _make(self, number: int, leader_epoch: int) -> GroupCoordinatorShard:
        assert (number, leader_epoch) == (0, self.log.leader_epoch)
        self.shard = GroupCoordinatorShard(self._making, self._settings)
        return self.shard


def _unexpected(effect: object) -> None:
    raise AssertionError(f"groups reach beyond their shard: {effect}")
