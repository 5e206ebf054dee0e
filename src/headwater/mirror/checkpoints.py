"""Checkpoints that a mirror stores in the target cluster.

A *checkpoint* says how far a partition is copied. It is a committed offset of a consumer group, so
that it can be part of the transaction that copies, and be read in one request. Its metadata has the
last run of offsets (see `offset_map`) and the ids of both topics.

The *checkpoint topic* is compacted and keeps what must not expire, as committed offsets may: the
runs, and the paths of topics (see `topic_naming`).

Note: a topic that was deleted and created again has the same name but is a different topic. So
everything refers to a pair of topic ids, and is ignored for any other pair.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.client.group_metadata import OffsetAndMetadata
from headwater.common.ids import TopicPartition
from headwater.mirror.offset_map import MirrorOffsetMap, Run, keys_of

REGISTRY: Final = "headwater-mirror.internal"
REGISTRY_CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
REGISTRY_PARTITION: Final = TopicPartition(REGISTRY, 0)

_RUN: Final = "run"
_PATH: Final = "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorCheckpoint:
    """How far a partition is copied, and its last run of offsets, if any."""

    position: int
    last_run: Run | None = None


def checkpoint_group(source_cluster: str) -> str:
    return f"headwater-mirror.{source_cluster}"


def checkpoint_of(found: OffsetAndMetadata | None, pair: str) -> MirrorCheckpoint | None:
    """Parse a committed offset, if it belongs to this pair of topics."""
    if found is None:
        return None
    document = _document(found.metadata)
    if document.get("pair") != pair:
        return None
    run = document.get(_RUN)
    return MirrorCheckpoint(position=found.offset, last_run=None if run is None else _run(run))


def committed_form(checkpoint: MirrorCheckpoint, pair: str) -> OffsetAndMetadata:
    document: dict[str, object] = {"pair": pair}
    if checkpoint.last_run is not None:
        document[_RUN] = _numbers(checkpoint.last_run)
    return OffsetAndMetadata(
        checkpoint.position, metadata=json.dumps(document, separators=(",", ":"))
    )


def run_records(
    source_cluster: str, target: TopicPartition, pair: str, run: Run
) -> list[tuple[bytes, bytes]]:
    """Keys and values that store a run."""
    value = _encoded({"pair": pair, _RUN: _numbers(run)})
    return [
        (_encoded([_RUN, source_cluster, target.topic, target.partition, key]), value)
        for key in keys_of(run.number)
    ]


def path_record(topic: str, path: tuple[str, ...]) -> tuple[bytes, bytes]:
    """Key and value that store the path of a topic."""
    return _encoded([_PATH, topic]), _encoded({_PATH: list(path)})


@dataclass(slots=True)
class CheckpointView:
    """The contents of a checkpoint topic, as far as it was read."""

    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _maps: dict[tuple[str, TopicPartition], tuple[str, MirrorOffsetMap]] = field(
        default_factory=dict
    )

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record. Unknown records, from a later version, are ignored."""
        parts, document = _decoded(key), _document_of(value)
        match parts:
            case [kind, str(topic)] if kind == _PATH:
                self.paths[topic] = tuple(map(str, document.get(_PATH, ())))
            case [kind, str(cluster), str(topic), int(number), str(slot)] if kind == _RUN:
                self._put((cluster, TopicPartition(topic, number)), slot, document)

    def offsets(
        self, source_cluster: str, target: TopicPartition, pair: str
    ) -> MirrorOffsetMap | None:
        """The runs of a partition that is a copy from that cluster."""
        known = self._maps.get((source_cluster, target))
        return known[1] if known is not None and known[0] == pair else None

    def _put(
        self, place: tuple[str, TopicPartition], slot: str, document: Mapping[str, Any]
    ) -> None:
        pair, run = document.get("pair"), document.get(_RUN)
        if not isinstance(pair, str) or run is None:
            return
        known = self._maps.get(place)
        if known is None or known[0] != pair:
            known = self._maps[place] = (pair, MirrorOffsetMap())
        known[1].put(slot, _run(run))


def _run(numbers: Any) -> Run:
    number, source, target, count = map(int, numbers)
    return Run(number=number, source=source, target=target, count=count)


def _numbers(run: Run) -> list[int]:
    return [run.number, run.source, run.target, run.count]


def _encoded(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _decoded(content: bytes | None) -> Any:
    try:
        return json.loads(content or b"null")
    except ValueError:
        return None


def _document(text: str | None) -> dict[str, Any]:
    return _document_of((text or "").encode())


def _document_of(content: bytes | None) -> dict[str, Any]:
    found = _decoded(content)
    return found if isinstance(found, dict) else {}
