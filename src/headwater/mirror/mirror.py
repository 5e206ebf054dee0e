"""Run a mirror: sync topics, copy with Spark, sync group offsets, report events.

    Mirror(options, SparkTasks(session()), on_event=print).run()

It works in rounds. Each round reads the end offsets of the source, runs a Spark task for each slot
that has something to copy, and takes the new positions from the results.

Note: the positions kept here are only hints. Tasks read the checkpoints in the target cluster,
which are authoritative; so a mirror that was killed, or runs twice by mistake, does no harm.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from headwater.client import Admin, Producer, TopicPartition
from headwater.client.consumer.offset_range_reader import OffsetRangeReader
from headwater.client.errors import KafkaError
from headwater.common.exceptions import HeadwaterError
from headwater.mirror.checkpoint_store import CheckpointStore, create_checkpoint_topic, write_paths
from headwater.mirror.checkpoints import checkpoint_group, checkpoint_of
from headwater.mirror.copy_task import CopyTask, TasksFailed, end_former_tasks
from headwater.mirror.group_offset_sync import GroupOffsetSync
from headwater.mirror.mirror_options import MirrorOptions
from headwater.mirror.offset_map import MirrorOffsetMap, Run, latest
from headwater.mirror.task_assignment import Copied, CopyRange, by_task
from headwater.mirror.topic_naming import is_cycle, path_of_copy
from headwater.mirror.topic_sync import TopicPair, TopicSync
from headwater.spark.source.topic_offsets import EARLIEST, LATEST

_BACKOFF_MAX_S: Final = 30.0
_FAILURES_MAX: Final = 10

Event = dict[str, object]
OnEvent = Callable[[Event], None]
RunTasks = Callable[[list[CopyTask]], list[Copied]]
"""Run all tasks and return their results. `TasksFailed` if one did not succeed."""


class MirrorCycle(HeadwaterError):
    """Copies would be copied back to their source cluster under their own names."""


@dataclass(slots=True)
class MirrorCounts:
    """Totals since the start."""

    records: int = 0
    size_bytes: int = 0
    lost: int = 0
    rounds: int = 0
    lag: int = 0
    groups: int = 0


@dataclass(slots=True)
class _Clusters:
    """Clients of the driver."""

    source: Admin
    target: Admin
    originals: OffsetRangeReader
    copies: OffsetRangeReader
    producer: Producer
    source_id: str
    target_id: str


@dataclass(slots=True)
class _State:
    """Topics of the last refresh, and the position of each partition."""

    pairs: dict[str, TopicPair] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    last_runs: dict[TopicPartition, Run | None] = field(default_factory=dict)
    claimed: set[str] = field(default_factory=set)
    circular: set[str] = field(default_factory=set)
    pair_of: dict[TopicPartition, str] = field(default_factory=dict)


class Mirror:
    """One mirror. `on_event` receives events as JSON-compatible dicts."""

    def __init__(
        self,
        options: MirrorOptions,
        run_tasks: RunTasks,
        *,
        on_event: OnEvent = lambda _: None,
        steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._options = options
        self._run_tasks = run_tasks
        self._on_event = on_event
        self._steady_ms = steady_ms
        self._stopping = threading.Event()
        self._state = _State()
        self.counts = MirrorCounts()

    def stop(self) -> None:
        """Stop after the current round. Safe in any thread and in signal handlers."""
        self._stopping.set()

    def run(self, *, once: bool = False) -> MirrorCounts:
        """Copy until stopped or, with `once`, up to the current end offsets."""
        with ExitStack() as stack:
            clusters = self._connect(stack)
            work = _Work(self._options, clusters, self._state, self.counts, self._on_event)
            work.refresh(is_first=True)
            limit = work.ends() if once else None
            refreshed_ms = self._steady_ms()
            failures = 0
            while not self._stopping.is_set():
                try:
                    if self._steady_ms() - refreshed_ms >= self._options.refresh_ms:
                        work.refresh()
                        refreshed_ms = self._steady_ms()
                    tasks = work.tasks(limit)
                    if tasks:
                        work.record(self._run_tasks(tasks))
                    elif once:
                        break
                    else:
                        self._stopping.wait(self._options.idle_ms / 1000)
                    failures = 0
                except (KafkaError, TasksFailed) as error:
                    failures += 1
                    if failures >= _FAILURES_MAX:
                        raise
                    self._on_event({"event": "failure", "attempt": failures, "reason": str(error)})
                    self._stopping.wait(min(2.0 ** (failures - 1), _BACKOFF_MAX_S))
            work.sync_groups()
        return self.counts

    def _connect(self, stack: ExitStack) -> _Clusters:
        options = self._options
        source = stack.enter_context(Admin(options.source_admin()))
        target = stack.enter_context(Admin(options.target_admin()))
        clusters = _Clusters(
            source=source,
            target=target,
            originals=stack.enter_context(OffsetRangeReader(options.reading())),
            copies=stack.enter_context(OffsetRangeReader(options.at_target())),
            producer=stack.enter_context(Producer(options.target_admin())),
            source_id=source.describe_cluster().cluster_id,
            target_id=target.describe_cluster().cluster_id,
        )
        if clusters.source_id == clusters.target_id and not options.naming.prefix:
            raise MirrorCycle(
                "source and target are the same cluster: topics would be copied onto themselves"
            )
        create_checkpoint_topic(target, options.replication_factor)
        if options.is_exactly_once:
            end_former_tasks(clusters.source_id, target, options.writing())
        return clusters


class _Work:
    """The steps of a round, except the Spark tasks."""

    def __init__(
        self,
        options: MirrorOptions,
        clusters: _Clusters,
        state: _State,
        counts: MirrorCounts,
        on_event: OnEvent,
    ) -> None:
        self._options = options
        self._clusters = clusters
        self._state = state
        self._counts = counts
        self._on_event = on_event
        self._here = CheckpointStore(clusters.copies)
        self._there = CheckpointStore(clusters.originals)
        self._topics = TopicSync(
            source=clusters.source,
            target=clusters.target,
            wanted=options.wanted,
            naming=options.naming,
            replication_factor=options.replication_factor,
        )
        self._groups = (
            None
            if options.groups is None
            else GroupOffsetSync(clusters.source, clusters.target, options.groups)
        )

    def refresh(self, *, is_first: bool = False) -> None:
        """Sync topics, their configs, and groups."""
        originals = self._topics.originals()
        self._here.refresh()
        chosen = self._without_cycles(list(originals), is_first=is_first)
        pairs = self._topics.sync({name: originals[name] for name in chosen})
        for name in sorted(pairs.keys() - self._state.pairs.keys()):
            self._on_event({"event": "topic", "topic": name, "copy": pairs[name].target.name})
        self._state.pairs = pairs
        if is_first and not originals:
            self._on_event({"event": "no topic"})
        for copy, changes in self._topics.sync_configs(pairs).items():
            self._on_event({"event": "settings", "copy": copy, "changes": changes})
        self._find_positions()
        self.sync_groups()

    def ends(self) -> dict[TopicPartition, int]:
        """Current end offsets of the source."""
        wanted = dict.fromkeys(self._state.positions, LATEST)
        return {
            each: found.offset for each, found in self._clusters.originals.offsets(wanted).items()
        }

    def tasks(self, limit: Mapping[TopicPartition, int] | None) -> list[CopyTask]:
        """Tasks for everything to copy, up to `limit`."""
        positions = self._state.positions
        # A topic may have been deleted since the limit was set.
        ends = (
            self.ends()
            if limit is None
            else {each: end for each, end in limit.items() if each in positions}
        )
        self._counts.lag = sum(max(end - positions[each], 0) for each, end in ends.items())
        ranges = [
            CopyRange(
                source=each,
                target=TopicPartition(self._options.naming.of_copy(each.topic), each.partition),
                start=positions[each],
                end=end,
                pair=self._state.pair_of[each],
                last_run=self._state.last_runs[each],
            )
            for each, end in sorted(ends.items())
            if positions[each] < end
        ]
        options = self._options
        return [
            CopyTask(
                source_cluster=self._clusters.source_id,
                slot=slot,
                ranges=parts,
                source=options.reading(),
                target=options.at_target(),
                producer=options.writing(),
                is_exactly_once=options.is_exactly_once,
                chunk_bytes=options.chunk_bytes,
                slice_ms=options.slice_ms,
            )
            for slot, parts in by_task(ranges).items()
        ]

    def record(self, copied: Iterable[Copied]) -> None:
        """Record the results of a round."""
        counts = self._counts
        counts.rounds += 1
        state = self._state
        for each in copied:
            before = state.positions[each.source]
            state.positions[each.source] = max(each.position, before)
            state.last_runs[each.source] = latest([state.last_runs[each.source], each.last_run])
            counts.lag = max(counts.lag - max(each.position - before, 0), 0)
            counts.records += each.records
            counts.size_bytes += each.size_bytes
            counts.lost += each.lost
            if each.lost:
                self._on_event(
                    {"event": "lost", "partition": str(each.source), "offsets": each.lost}
                )
        self._on_event(
            {
                "event": "progress",
                "records": counts.records,
                "bytes": counts.size_bytes,
                "lag": counts.lag,
                "topics": len(state.pairs),
                "rounds": counts.rounds,
            }
        )

    def sync_groups(self) -> None:
        if self._groups is None or not self._state.pairs:
            return
        self._here.refresh()
        for group, offsets in self._groups.sync(self._map_of).items():
            self._counts.groups += 1
            places = {str(each): offset for each, offset in offsets.items()}
            self._on_event({"event": "group", "group": group, "offsets": places})

    def _map_of(self, original: TopicPartition) -> tuple[TopicPartition, MirrorOffsetMap] | None:
        pair = self._state.pair_of.get(original)
        if pair is None:
            return None
        copy = TopicPartition(self._options.naming.of_copy(original.topic), original.partition)
        found = self._here.view.offsets(self._clusters.source_id, copy, pair)
        return None if found is None else (copy, found)

    def _without_cycles(self, topics: list[str], *, is_first: bool) -> list[str]:
        """Topics that did not come from the target cluster.

        Each topic is claimed before the check: of two mirrors that start at the same time in
        opposite directions, at least one sees the other's claim.
        """
        state, ids = self._state, self._clusters
        origins = self._there.refresh().paths
        new = [topic for topic in topics if topic not in state.claimed | state.circular]
        paths = {
            self._options.naming.of_copy(topic): path_of_copy(origins.get(topic, ()), ids.source_id)
            for topic in new
            if not is_cycle(origins.get(topic, ()), ids.target_id)
        }
        known = self._here.view.paths
        write_paths(
            ids.producer, {name: path for name, path in paths.items() if known.get(name) != path}
        )
        state.claimed.update(new)
        origins = self._there.refresh().paths
        for topic in topics:
            if is_cycle(origins.get(topic, ()), ids.target_id):
                self._exclude(topic, is_first=is_first)
        return [topic for topic in topics if topic not in state.circular]

    def _exclude(self, topic: str, *, is_first: bool) -> None:
        if is_first and not self._options.naming.prefix:
            raise MirrorCycle(
                f"topic {topic} was copied from the target cluster and would be copied back onto "
                "itself; exclude it, or use a prefix for copies"
            )
        if topic not in self._state.circular:
            self._state.circular.add(topic)
            reason = "was copied from the target cluster"
            self._on_event({"event": "left out", "topic": topic, "reason": reason})

    def _find_positions(self) -> None:
        """Look up positions of new partitions."""
        state = self._state
        found: dict[TopicPartition, tuple[TopicPartition, str]] = {}
        for name, pair in state.pairs.items():
            for number in range(len(pair.source.partitions)):
                copy = TopicPartition(pair.target.name, number)
                found[TopicPartition(name, number)] = (copy, pair.ids)
        state.positions = {each: at for each, at in state.positions.items() if each in found}
        state.last_runs = {each: run for each, run in state.last_runs.items() if each in found}
        new = [each for each, (_, ids) in found.items() if state.pair_of.get(each) != ids]
        if new:
            self._look_up(new, found)
        # Set last, so that a failed look-up is repeated.
        state.pair_of = {each: ids for each, (_, ids) in found.items()}

    def _look_up(
        self, new: list[TopicPartition], found: Mapping[TopicPartition, tuple[TopicPartition, str]]
    ) -> None:
        state = self._state
        clusters = self._clusters
        checkpoints = clusters.copies.committed(
            checkpoint_group(clusters.source_id), [found[each][0] for each in new]
        )
        earliest = clusters.originals.offsets(dict.fromkeys(new, EARLIEST))
        for each in new:
            copy, ids = found[each]
            checkpoint = checkpoint_of(checkpoints.get(copy), ids)
            known = self._here.view.offsets(clusters.source_id, copy, ids)
            last = state.last_runs[each] = None if known is None else known.last
            state.positions[each] = max(
                earliest[each].offset,
                -1 if checkpoint is None else checkpoint.position,
                -1 if last is None else last.source_end,
            )
