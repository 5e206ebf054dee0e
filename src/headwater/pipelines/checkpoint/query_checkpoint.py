"""The checkpoint of one streaming query, and how to move it.

An entry of Spark's offset log has a version, metadata, and one line per source:

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":1794983795937,"conf":{...}}
    {"orders": {"0": 2, "1": 2}}

A reset writes the entry of one more batch, which ends at the new offsets and, by `@start`, also
begins there. Spark takes it for a batch that was planned and not finished, runs it without rows,
and continues from its end. So batch ids go on, on which exactly-once sinks and the logs of file
sinks rely.

Note: state was built from the records before the reset. A query with state gets a new checkpoint,
with a new query id, and such an entry as batch 0; the old checkpoint is kept under another name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import TopicPartition
from headwater.pipelines.checkpoint.checkpoint_storage import CheckpointStorage
from headwater.spark.source.topic_offsets import Offsets, Position, offsets_in, to_document

_VERSION: Final = "v1"
_STATE: Final = "state"


class UnknownCheckpoint(HeadwaterError):
    """The checkpoint has an unknown layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCheckpoint:
    """The last entry of a query's offset log."""

    # The folder, relative to the storage.
    path: str
    batch_id: int
    is_committed: bool
    has_state: bool
    metadata: Mapping[str, Any]
    # One per source, in the order of the log.
    sources: tuple[str, ...]

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Return the offsets up to which the query has read all topics."""
        found: dict[TopicPartition, int] = {}
        for line in self.sources:
            found |= offsets_in(line)
        return found


def read_checkpoint(storage: CheckpointStorage, path: str) -> QueryCheckpoint | None:
    """Read a query's checkpoint; None if it does not exist or has no batch."""
    planned = _batches(storage, f"{path}/offsets")
    if not planned:
        return None
    batch_id = planned[-1]
    text = storage.read(f"{path}/offsets/{batch_id}") or ""
    version, *lines = text.split("\n")
    if version != _VERSION or not lines:
        raise UnknownCheckpoint(f"{path}: the offset log has version {version!r}, not {_VERSION}")
    return QueryCheckpoint(
        path=path,
        batch_id=batch_id,
        is_committed=batch_id in _batches(storage, f"{path}/commits"),
        has_state=_STATE in storage.names(path),
        metadata=json.loads(lines[0]),
        sources=tuple(lines[1:]),
    )


def moved_entry(checkpoint: QueryCheckpoint, target: Offsets) -> tuple[int, str]:
    """Return batch id and text of the entry that moves a query to other offsets.

    A batch that was not finished is replaced: the rows that it has not written are not written.
    """
    batch_id = checkpoint.batch_id + 1 if checkpoint.is_committed else checkpoint.batch_id
    metadata = dict(checkpoint.metadata)
    if checkpoint.has_state:
        batch_id = 0
        metadata["batchWatermarkMs"] = 0
    lines = [_moved(line, target) for line in checkpoint.sources]
    text = "\n".join([_VERSION, json.dumps(metadata, separators=(",", ":")), *lines])
    return batch_id, text


def move(
    storage: CheckpointStorage, checkpoint: QueryCheckpoint, target: Offsets, *, query_id: str
) -> str | None:
    """Move a stopped query; return the name of the kept checkpoint, if any.

    `query_id` is a UUID for a query that gets a new checkpoint.
    """
    batch_id, text = moved_entry(checkpoint, target)
    if not checkpoint.has_state:
        storage.write(f"{checkpoint.path}/offsets/{batch_id}", text)
        return None
    draft, kept = f"{checkpoint.path}@new", f"{checkpoint.path}@{query_id}"
    storage.write(f"{draft}/metadata", json.dumps({"id": query_id}, separators=(",", ":")))
    storage.write(f"{draft}/offsets/{batch_id}", text)
    storage.rename(checkpoint.path, kept)
    storage.rename(draft, checkpoint.path)
    return kept


def _moved(line: str, target: Offsets) -> str:
    topics = {each.topic for each in offsets_in(line)}
    chosen = {each: offset for each, offset in target.items() if each.topic in topics}
    return json.dumps(to_document(Position(chosen, chosen))) if chosen else line


def _batches(storage: CheckpointStorage, path: str) -> list[int]:
    return sorted(int(each) for each in storage.names(path) if each.isdecimal())
