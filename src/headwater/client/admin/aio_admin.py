"""The admin client for asyncio. Create and use it on a running event loop.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topic("tea", partitions=3)

Timeouts are in seconds; the default is `default.api.timeout.ms`.
"""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from headwater.client.admin.acl_calls import AclCalls
from headwater.client.admin.admin_calls import AdminSettings
from headwater.client.admin.cluster_calls import ClusterCalls
from headwater.client.admin.config_calls import ConfigCalls
from headwater.client.admin.group_calls import GroupCalls
from headwater.client.admin.partition_calls import PartitionCalls
from headwater.client.admin.quorum_calls import QuorumCalls
from headwater.client.admin.quota_calls import QuotaCalls
from headwater.client.admin.scram_user_calls import UserCalls
from headwater.client.admin.topic_calls import TopicCalls
from headwater.client.admin.transaction_calls import TransactionCalls
from headwater.client.errors import ClientClosed
from headwater.client.network.cluster_client import ClusterClient
from headwater.client.settings import read_settings
from headwater.network.system_clock import SystemClock, SystemRandom

# Metadata requests drop a topic after this time, because it may have been deleted.
_TOPIC_IDLE_MS: Final = 60_000


class Admin(
    TopicCalls,
    PartitionCalls,
    ConfigCalls,
    QuotaCalls,
    GroupCalls,
    ClusterCalls,
    QuorumCalls,
    TransactionCalls,
    UserCalls,
    AclCalls,
):
    """Admin client for asyncio."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        chosen = read_settings(AdminSettings, settings, keywords)
        cluster = ClusterClient(
            asyncio.get_running_loop(),
            chosen,
            SystemClock(),
            SystemRandom(),
            metadata_max_idle_ms=_TOPIC_IDLE_MS,
        )
        cluster.schedule.allows_creation = False
        super().__init__(cluster, chosen)

    async def __aenter__(self) -> Self:
        if self._cluster.is_closed:
            raise ClientClosed("the admin client is closed")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        self._cluster.close()
