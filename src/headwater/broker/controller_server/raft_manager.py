"""Disk, clock and network of a quorum replica (Kafka: KafkaRaftManager).

Syncs run on a thread; everything else runs on the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Protocol

from headwater.broker.inter_broker.channel import Dial, InterBrokerChannel, LogIn
from headwater.broker.inter_broker.request import InterBrokerRequest
from headwater.common.exceptions import HeadwaterError, StorageError
from headwater.common.ports import Clock, Random
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.metadata_store.raft.kafka_raft_log import (
    KafkaRaftLog,
    MetadataLogConfig,
    RaftLogTools,
)
from headwater.metadata_store.raft.quorum_state_store import FileQuorumStateStore
from headwater.metadata_store.raft.raft_driver import (
    Answer,
    RaftDriver,
    RaftListener,
    Responded,
    Synced,
)
from headwater.protocol.messages.fetch import FetchResponse
from headwater.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from headwater.protocol.older_versions import Message
from headwater.raft.election_state import ElectionState
from headwater.raft.kafka_raft_client import KafkaRaftClient
from headwater.raft.quorum_config import QuorumConfig
from headwater.raft.raft_core import RaftIdentity
from headwater.raft.voter_set import Node
from headwater.storage.io.disk import Disk
from headwater.storage.io.executor import Executor
from headwater.storage.io.open_files import OpenFiles

_log = logging.getLogger(__name__)

_OPEN_FILES = 64


class TimerHandle(Protocol):
    """A callback that has not run yet."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """What a replica needs of its event loop. The simulator has one in virtual time."""

    def call_soon(self, callback: Callable[[], object]) -> TimerHandle: ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> TimerHandle:
        """Call back after a number of seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftManagerTools:
    """What a replica needs of its process."""

    loop: Scheduler
    clock: Clock
    random: Random
    disk: Disk
    executor: Executor
    dial: Dial
    log_in: LogIn | None = None


class SteadyWallClock:
    """Wall-clock time that never goes back: the start plus the time since."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms = clock.now_ms() - clock.steady_ms()

    def now_ms(self) -> int:
        return self._offset_ms + self._clock.steady_ms()


class RaftManager:
    """One replica on the running event loop. Implements `RaftIo` for its driver."""

    def __init__(
        self,
        identity: RaftIdentity,
        directory: PurePath,
        *,
        config: QuorumConfig,
        log_config: MetadataLogConfig,
        tools: RaftManagerTools,
        listener: RaftListener,
        failed: Callable[[StorageError], None],
        broken: Callable[[Exception], None],
    ) -> None:
        """Open the log; recovery may take a while."""
        self._tools = tools
        self._config = config
        self._time = SteadyWallClock(tools.clock)
        self.log = KafkaRaftLog(
            directory,
            config=log_config,
            tools=RaftLogTools(
                disk=tools.disk,
                files=OpenFiles(tools.disk, _OPEN_FILES),
                executor=tools.executor,
                random=tools.random,
                now_ms=self._time.now_ms,
            ),
        )
        self._store = FileQuorumStateStore(tools.disk, directory)
        self.client = KafkaRaftClient(identity, config=config, log=self.log, random=tools.random)
        self.driver = RaftDriver(
            self.client, io=self, listener=listener, failed=failed, broken=broken
        )
        self._channels: dict[tuple[Node, bool], InterBrokerChannel] = {}
        self._client_id = f"raft-client-{identity.key.id}"
        self._timer: TimerHandle | None = None
        self._is_closed = False

    def start(self) -> None:
        """Read the election state and join the quorum. CorruptFile if it is damaged."""
        self.driver.start(self._store.read_election_state())

    def receive(self, message: Message, answer: Answer) -> None:
        self.driver.receive(message, answer)

    def sweep(self) -> None:
        """Fail requests whose deadline has passed; called ten times a second."""
        now_ms = self._tools.clock.steady_ms()
        for channel in [*self._channels.values()]:
            channel.sweep(now_ms)

    def close(self) -> None:
        """Leave the network. The log is closed when no sync is under way: see `close_log`."""
        self._is_closed = True
        self.driver.close()
        if self._timer is not None:
            self._timer.cancel()
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def close_log(self) -> None:
        if self.log.failure is None:
            self.log.close()

    # `RaftIo`

    def now_ms(self) -> int:
        return self._time.now_ms()

    def flush(self, then: Synced) -> None:
        self.log.flush(then)

    def write_election_state(
        self,
        election: ElectionState,
        *,
        kraft_version: int,
        voter_ids: tuple[int, ...],
        then: Synced,
    ) -> None:
        def job() -> None:
            self._store.write_election_state(
                election, kraft_version=kraft_version, voter_ids=voter_ids
            )

        try:
            self._tools.executor.submit(job, then=lambda _: then(None), on_error=then)
        except HeadwaterError as error:
            then(StorageError(f"quorum-state was not written: {error}"))

    def send_request(self, node: Node, message: Message, then: Responded) -> None:
        self._send(node, message, then, is_apart=False)

    def send_apart(self, node: Node, message: Message, then: Responded) -> None:
        """Send a request that is answered after a commit on a connection of its own.

        Note: requests of a connection are served one after the other. A fetch behind this request
        would wait for a commit that waits for that fetch.
        """
        self._send(node, message, then, is_apart=True)

    def _send(self, node: Node, message: Message, then: Responded, *, is_apart: bool) -> None:
        deadline_ms = self._tools.clock.steady_ms() + self._config.request_timeout_ms
        asked = InterBrokerRequest(
            message,
            deadline_ms,
            then=lambda response: then(_owned(response)),
            on_error=partial(self._failed, node, then),
        )
        if self._is_closed:
            return
        self._channel(node, is_apart=is_apart).send_request(asked)

    def poll_at(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_closed:
            return
        delay_ms = max(0, due_ms - self.now_ms())
        self._timer = self._tools.loop.call_later(delay_ms / 1_000, self.driver.poll)

    def _failed(self, node: Node, then: Responded, error: HeadwaterError) -> None:
        _log.debug("Request to controller failed: node=%s error=%s", node, error)
        then(None)

    def _channel(self, node: Node, *, is_apart: bool) -> InterBrokerChannel:
        channel = self._channels.get((node, is_apart))
        if channel is None:
            endpoint = BrokerEndpoint(listener="", host=node.host, port=node.port)
            channel = InterBrokerChannel(
                where=lambda: endpoint,
                dial=self._tools.dial,
                clock=self._tools.clock,
                call_soon=self._tools.loop.call_soon,
                client_id=self._client_id,
                log_in=self._tools.log_in,
            )
            self._channels[node, is_apart] = channel
        return channel


def _owned(response: Message) -> Message:
    """Copy bytes in the receive buffer, which the next response overwrites."""
    if isinstance(response, FetchResponse):
        return replace(
            response,
            responses=tuple(
                replace(
                    topic,
                    partitions=tuple(
                        replace(each, records=_bytes(each.records)) for each in topic.partitions
                    ),
                )
                for topic in response.responses
            ),
        )
    if isinstance(response, FetchSnapshotResponse):
        return replace(
            response,
            topics=tuple(
                replace(
                    topic,
                    partitions=tuple(
                        replace(each, unaligned_records=_bytes(each.unaligned_records))
                        for each in topic.partitions
                    ),
                )
                for topic in response.topics
            ),
        )
    return response


def _bytes(records: object) -> bytes:
    return bytes(records) if isinstance(records, bytes | bytearray | memoryview) else b""
