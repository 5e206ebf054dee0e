"""A Connect worker: feeds events to the herder and carries out its decisions."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, assert_never

from headwater.client.errors import KafkaError
from headwater.common.ports import Clock
from headwater.connect.runtime.connect_records import (
    ConnectorConfigRecord,
    ConnectRecord,
    LoggerRecord,
    OffsetRecord,
    RestartRecord,
    Status,
    StatusRecord,
    TargetState,
    TargetStateRecord,
    TopicUseRecord,
)
from headwater.connect.runtime.connect_state import ConnectState
from headwater.connect.runtime.connect_store import ConnectStore
from headwater.connect.runtime.connector_config import (
    InvalidConnectorConfig,
    read_connector_config,
)
from headwater.connect.runtime.herder import (
    Activated,
    ConnectorsChanged,
    Deactivated,
    DeleteStatus,
    DesiredConnector,
    Effect,
    Event,
    Herder,
    PutStatus,
    RetryTimerFired,
    SetRetryTimer,
    ShuttingDown,
    StartTask,
    StopTask,
    TaskExited,
    TaskStarted,
)
from headwater.connect.runtime.log_levels import LogLevels
from headwater.connect.runtime.task.task_setup import STARTED, TOPIC_USED, TaskReport, TaskSetup
from headwater.connect.runtime.task_process import TaskProcess
from headwater.connect.runtime.worker_group_member import WorkerGroupMember
from headwater.connect.runtime.worker_settings import WorkerFile

_MS_PER_S: Final = 1000
_BACKOFF_S: Final = 1.0
_LAST_STATUSES_S: Final = 10.0

log = logging.getLogger(__name__)


class ConnectWorker:
    """One worker of a group. Belongs to one event loop."""

    def __init__(self, file: WorkerFile, worker_id: str, clock: Clock) -> None:
        self.file = file
        self.settings = file.settings
        self.worker_id = worker_id
        self.levels = LogLevels(clock)
        self.store = ConnectStore(file, on_record=self._on_record)
        self._clock = clock
        self._herder = Herder()
        self._processes: dict[str, TaskProcess] = {}
        self._runs: set[asyncio.Task[None]] = set()
        self._desired: dict[str, DesiredConnector] = {}
        # None: statuses are this worker's from here on.
        self._statuses: asyncio.Queue[ConnectRecord | None] = asyncio.Queue()
        self._is_closing = False
        self._membership: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None

    @property
    def state(self) -> ConnectState:
        return self.store.state

    @property
    def is_active(self) -> bool:
        return self._herder.is_active

    async def start(self) -> None:
        """Read the topics and join the group."""
        await self.store.start()
        self._writing = asyncio.create_task(self._write_statuses())
        self._decide(self._connectors())
        membership = WorkerGroupMember(self.file, on_active=self._on_active)
        self._membership = asyncio.create_task(membership.run())

    async def close(self) -> None:
        """Stop all tasks, report them as unassigned, and leave the group."""
        self._is_closing = True
        self._decide(ShuttingDown())
        if self._runs:
            await asyncio.wait(self._runs)
        if self._writing is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._statuses.join(), _LAST_STATUSES_S)
            self._writing.cancel()
        if self._membership is not None:
            self._membership.cancel()
            with suppress(asyncio.CancelledError):
                await self._membership
        await self.store.close()

    # Events.

    def _on_record(self, record: ConnectRecord) -> None:
        match record:
            case ConnectorConfigRecord() | TargetStateRecord():
                self._decide(self._connectors())
            case RestartRecord():
                self._decide(record)
            case LoggerRecord(logger, level):
                self.levels.set(logger, level)
            case StatusRecord() | TopicUseRecord() | OffsetRecord():
                pass
            case _:
                assert_never(record)

    def _on_active(self, is_active: bool) -> None:
        if is_active == self._herder.is_active or self._is_closing:
            return
        log.info("Worker %s: group=%s", "active" if is_active else "standing by", self._group)
        if is_active:
            self._statuses.put_nowait(None)
            self._delete_stale_statuses()
        self._decide(Activated() if is_active else Deactivated())

    def _delete_stale_statuses(self) -> None:
        """Delete statuses of connectors that were deleted while no worker was active."""
        for name in [*self.state.statuses]:
            if name not in self.state.configs:
                self._delete_status(name, None)
                self._delete_status(name, 0)

    @property
    def _group(self) -> str:
        return self.settings.group_id

    def _connectors(self) -> ConnectorsChanged:
        desired = {}
        for name, config in self.state.configs.items():
            target = self.state.target_state(name)
            known = self._desired.get(name)
            if known is None or (known.config, known.target) != (config, target):
                known = _desired(config, target)
            desired[name] = known
        self._desired = desired
        return ConnectorsChanged(desired)

    # Effects.

    def _decide(self, event: Event) -> None:
        for effect in self._herder.decide(event, self._clock.steady_ms()):
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case StartTask(name, generation, config):
                self._start(name, generation, config)
            case StopTask(name, _):
                self._processes[name].stop()
            case PutStatus(name, task, state, trace):
                status = Status(state=state, worker_id=self.worker_id, trace=trace)
                log.info("State: connector=%s task=%s state=%s", name, task, state)
                self._statuses.put_nowait(StatusRecord(name, task, status))
            case DeleteStatus(name, task):
                self._delete_status(name, task)
            case SetRetryTimer(at_ms):
                delay_s = max(0, at_ms - self._clock.steady_ms()) / _MS_PER_S
                asyncio.get_running_loop().call_later(delay_s, self._decide, RetryTimerFired())
            case _:
                assert_never(effect)

    def _delete_status(self, name: str, task: int | None) -> None:
        self._statuses.put_nowait(StatusRecord(name, task, None))
        if task is None:
            for topic in self.state.topics.get(name, {}):
                record = TopicUseRecord(connector=name, topic=topic, discovered_ms=None)
                self._statuses.put_nowait(record)

    def _start(self, name: str, generation: int, config: Mapping[str, str]) -> None:
        setup = TaskSetup(
            connector=name,
            config=config,
            group_id=self.settings.group_id,
            offset_topic=self.settings.offset_storage_topic,
            client=self.file.client,
            producer=self.file.producer,
            consumer=self.file.consumer,
            admin=self.file.admin,
            loggers=self.levels.explicit,
        )
        process = TaskProcess(
            setup, on_report=lambda report: self._on_report(name, generation, report)
        )
        self._processes[name] = process
        run = asyncio.create_task(self._run(name, generation, process))
        self._runs.add(run)
        run.add_done_callback(self._runs.discard)

    async def _run(self, name: str, generation: int, process: TaskProcess) -> None:
        timeout_s = self.settings.task_shutdown_graceful_timeout_ms / _MS_PER_S
        trace = await process.run(stop_timeout_s=timeout_s)
        if trace:
            log.error("Task failed: connector=%s error=%s", name, trace.splitlines()[-1])
        del self._processes[name]
        self._decide(TaskExited(name, generation, trace))

    def _on_report(self, name: str, generation: int, report: TaskReport) -> None:
        if report.event == STARTED:
            self._decide(TaskStarted(name, generation))
        elif report.event == TOPIC_USED and self.settings.topic_tracking_enable:
            topic = report.text
            if topic not in self.state.topics.get(name, {}):
                now_ms = self._clock.now_ms()
                self._statuses.put_nowait(
                    TopicUseRecord(connector=name, topic=topic, discovered_ms=now_ms)
                )

    def _report_again(self) -> None:
        """Claim and report all statuses, if this is still the active worker."""
        if self._herder.is_active and not self._is_closing:
            self._statuses.put_nowait(None)
            self._decide(Activated())

    async def _write_statuses(self) -> None:
        """Write statuses in the order of the decisions, all that wait at once."""
        while True:
            records = [await self._statuses.get()]
            while not self._statuses.empty():
                records.append(self._statuses.get_nowait())
            await self._write_until_done(records)
            for _ in records:
                self._statuses.task_done()

    async def _write_until_done(self, records: list[ConnectRecord | None]) -> None:
        """Write statuses, again while brokers do not answer: the last one must arrive."""
        while True:
            try:
                if None in records and self._herder.is_active:
                    await self.store.claim_statuses()
                given = [each for each in records if each is not None]
                if not await self.store.put_statuses(given):
                    # Either this worker was replaced, or the one before it did not know that yet.
                    # It knows after this time.
                    loop = asyncio.get_running_loop()
                    loop.call_later(
                        self.settings.session_timeout_ms / _MS_PER_S, self._report_again
                    )
            except KafkaError as error:
                log.warning("Statuses not written: group=%s error=%s", self._group, error)
                # The producer may be unusable.
                records = [None, *records]
                await asyncio.sleep(_BACKOFF_S)
            else:
                return


def _desired(config: Mapping[str, str], target: TargetState) -> DesiredConnector:
    try:
        read = read_connector_config(config)
    except InvalidConnectorConfig as error:
        return DesiredConnector(config=config, target=target, problem=str(error))
    return DesiredConnector(config=config, target=target, retry=read.retry)
