"""The blocking admin client: the asyncio one, run on a background thread.

    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topic("tea", partitions=3)

Thread-safe.
"""

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from headwater.client.admin import aio_admin
from headwater.client.admin.admin_calls import AdminSettings
from headwater.client.errors import ClientClosed
from headwater.client.network.loop_thread import LoopThread
from headwater.client.settings import read_settings

P = ParamSpec("P")
T = TypeVar("T")
# A call has its own deadline; this much later the background thread is considered dead.
_SLACK_S: Final = 30.0
_STOP_S: Final = 5.0


def _blocking(
    call: Callable[Concatenate[aio_admin.Admin, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Admin", P], T]:
    """Wrap an asyncio method into a blocking one."""

    @wraps(call)
    def blocking_call(self: "Admin", /, *given: P.args, **named: P.kwargs) -> T:
        return self._run(call(self._admin, *given, **named), named.get("timeout"))

    return blocking_call


class Admin:
    """Blocking admin client."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        self._limit_s = (
            read_settings(AdminSettings, settings, keywords).default_api_timeout_ms / 1000
        )
        self._thread = LoopThread("headwater-admin")
        self._is_closed = False

        async def make() -> aio_admin.Admin:
            return aio_admin.Admin(settings, **keywords)

        self._admin = self._thread.make(make())

    def __enter__(self) -> Self:
        if self._is_closed:
            raise ClientClosed("the admin client is closed")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    create_topics = _blocking(aio_admin.Admin.create_topics)
    create_topic = _blocking(aio_admin.Admin.create_topic)
    delete_topics = _blocking(aio_admin.Admin.delete_topics)
    list_topics = _blocking(aio_admin.Admin.list_topics)
    describe_topics = _blocking(aio_admin.Admin.describe_topics)
    create_partitions = _blocking(aio_admin.Admin.create_partitions)
    delete_records = _blocking(aio_admin.Admin.delete_records)
    alter_partition_reassignments = _blocking(aio_admin.Admin.alter_partition_reassignments)
    list_partition_reassignments = _blocking(aio_admin.Admin.list_partition_reassignments)
    elect_leaders = _blocking(aio_admin.Admin.elect_leaders)

    describe_configs = _blocking(aio_admin.Admin.describe_configs)
    alter_configs = _blocking(aio_admin.Admin.alter_configs)
    describe_client_quotas = _blocking(aio_admin.Admin.describe_client_quotas)
    alter_client_quotas = _blocking(aio_admin.Admin.alter_client_quotas)

    list_groups = _blocking(aio_admin.Admin.list_groups)
    describe_groups = _blocking(aio_admin.Admin.describe_groups)
    delete_groups = _blocking(aio_admin.Admin.delete_groups)
    remove_members = _blocking(aio_admin.Admin.remove_members)
    list_group_offsets = _blocking(aio_admin.Admin.list_group_offsets)
    alter_group_offsets = _blocking(aio_admin.Admin.alter_group_offsets)
    delete_group_offsets = _blocking(aio_admin.Admin.delete_group_offsets)
    list_offsets = _blocking(aio_admin.Admin.list_offsets)

    describe_cluster = _blocking(aio_admin.Admin.describe_cluster)
    describe_features = _blocking(aio_admin.Admin.describe_features)
    update_features = _blocking(aio_admin.Admin.update_features)
    describe_metadata_quorum = _blocking(aio_admin.Admin.describe_metadata_quorum)
    add_raft_voter = _blocking(aio_admin.Admin.add_raft_voter)
    remove_raft_voter = _blocking(aio_admin.Admin.remove_raft_voter)
    describe_log_dirs = _blocking(aio_admin.Admin.describe_log_dirs)
    describe_replica_log_dirs = _blocking(aio_admin.Admin.describe_replica_log_dirs)
    alter_replica_log_dirs = _blocking(aio_admin.Admin.alter_replica_log_dirs)
    describe_acls = _blocking(aio_admin.Admin.describe_acls)
    create_acls = _blocking(aio_admin.Admin.create_acls)
    delete_acls = _blocking(aio_admin.Admin.delete_acls)

    describe_user_scram_credentials = _blocking(aio_admin.Admin.describe_user_scram_credentials)
    alter_user_scram_credentials = _blocking(aio_admin.Admin.alter_user_scram_credentials)

    list_transactions = _blocking(aio_admin.Admin.list_transactions)
    describe_transactions = _blocking(aio_admin.Admin.describe_transactions)
    describe_producers = _blocking(aio_admin.Admin.describe_producers)
    abort_transaction = _blocking(aio_admin.Admin.abort_transaction)
    fence_producers = _blocking(aio_admin.Admin.fence_producers)

    def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._is_closed:
            return
        try:
            self._thread.run(self._admin.close(), timeout_s=_STOP_S)
        except ClientClosed:
            # The background thread does not exist in a forked process.
            return
        finally:
            self._is_closed = True
            self._thread.stop(timeout_s=_STOP_S)

    def _run(self, work: Coroutine[Any, Any, T], timeout: object) -> T:
        if self._is_closed:
            work.close()
            raise ClientClosed("the admin client is closed")
        limit_s = timeout if isinstance(timeout, int | float) else self._limit_s
        return self._thread.run(work, timeout_s=limit_s + _SLACK_S)
