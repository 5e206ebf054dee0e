"""Membership in the worker group: which worker is the active one.

All workers subscribe to the config topic in the consumer group `group.id`. It has one partition, so
one worker gets it and is active; the others stand by. When it dies, its session times out and the
partition goes to another worker. Cooperative assignment leaves it where it is when a worker joins.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headwater.client.aio import Consumer
from headwater.client.consumer.subscription import RebalanceListener
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import TopicPartition
from headwater.connect.runtime.worker_settings import WorkerFile

_POLL_S: Final = 0.5
_BACKOFF_S: Final = 1.0
_LEAVE_S: Final = 5.0

log = logging.getLogger(__name__)


class WorkerGroupMember(RebalanceListener):
    """Joins the group and calls back when this worker becomes active or no longer is."""

    def __init__(self, file: WorkerFile, *, on_active: Callable[[bool], None]) -> None:
        self._file = file
        self._on_active = on_active

    async def run(self) -> None:
        """Stay in the group until cancelled, then leave it."""
        settings = self._file.settings
        consumer = Consumer(
            {
                **self._file.client,
                "client.id": f"connect-{settings.group_id}-member",
                "group.id": settings.group_id,
                "session.timeout.ms": settings.session_timeout_ms,
                "heartbeat.interval.ms": settings.heartbeat_interval_ms,
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "partition.assignment.strategy": "cooperative-sticky",
                "exclude.internal.topics": False,
            }
        )
        consumer.subscribe([settings.config_storage_topic], listener=self)
        try:
            while True:
                try:
                    await consumer.poll(_POLL_S)
                except HeadwaterError as error:
                    log.warning("Membership: group=%s error=%s", settings.group_id, error)
                    await asyncio.sleep(_BACKOFF_S)
        finally:
            await consumer.close(_LEAVE_S)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._on_active(True)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._on_active(False)
