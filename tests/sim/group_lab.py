"""The groups of one partition on the real runtime, over a log in memory.

A restart is a new runtime over the same log: everything that it knows, it knows from there.
"""

import random
from typing import TypeVar

from headwater.cluster.image import ClusterImage
from headwater.coordinator.groups.classic_rebalance import ClassicLimits
from headwater.coordinator.groups.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.groups.group_events import TopicsDeleted
from headwater.coordinator.groups.group_shard import GroupShard, OffsetSettings
from headwater.coordinator.groups.known_groups import GroupMaking
from headwater.coordinator.hosted_shard import HostedShard, ShardTools
from headwater.coordinator.pending_answers import Outcome
from headwater.coordinator.records.codec import GROUP_RECORDS
from headwater.replication.deadlines import Deadlines
from headwater.wire.lifting import Message
from tests.sim.broker_lab import ScriptedClock
from tests.sim.loaded_dice import LoadedDice
from tests.sim.sketch_shard_log import SketchShardLog

M = TypeVar("M")


class GroupLab:
    """See the module."""

    def __init__(
        self,
        settings: OffsetSettings | None = None,
        limits: ClassicLimits | None = None,
        image: ClusterImage | None = None,
        consumer: ConsumerGroupSettings | None = None,
    ) -> None:
        self.log = SketchShardLog(GROUP_RECORDS)
        self.clock = ScriptedClock()
        self.image = image or ClusterImage(cluster_id="here")
        self._settings = settings or OffsetSettings()
        self._making = GroupMaking(
            classic=limits or ClassicLimits(initial_rebalance_delay_ms=0),
            consumer=consumer or ConsumerGroupSettings(),
            dice=LoadedDice(random.Random(5)),
            image=lambda: self.image,
        )
        self.restart()

    def restart(self) -> None:
        self.deadlines = Deadlines()
        tools: ShardTools[TopicsDeleted] = ShardTools(
            topic="__consumer_offsets",
            make=self._make,
            codec=GROUP_RECORDS,
            clock=self.clock,
            deadlines=self.deadlines,
            perform=lambda _, effect: _unexpected(effect),
        )
        self.hosted = HostedShard(0, lambda: self.log, tools, load_ended=lambda: None)
        self.hosted.load()

    def send(self, request: Message, version: int) -> list[Outcome]:
        """What it was answered with, now or later."""
        answers: list[Outcome] = []
        self.hosted.ask(
            request, version=version, client_id="c", client_host="/h", answer=answers.append
        )
        return answers

    def ask(self, request: Message, shape: type[M], version: int) -> M:
        (answer,) = self.send(request, version)
        assert isinstance(answer, shape), answer
        return answer

    def pass_time(self, duration_ms: int) -> None:
        self.clock.move(duration_ms)
        self.deadlines.expire(self.clock.steady_ms())

    def _make(self, number: int, leader_epoch: int) -> GroupShard:
        assert (number, leader_epoch) == (0, self.log.leader_epoch)
        self.shard = GroupShard(self._making, self._settings)
        return self.shard


def _unexpected(effect: object) -> None:
    raise AssertionError(f"groups reach beyond their shard: {effect}")
