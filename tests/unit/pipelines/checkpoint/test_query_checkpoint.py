"""Reset of checkpoints: the entry that moves a query, and the files around it."""

import json
from pathlib import Path

import pytest

from headwater.common.ids import TopicPartition
from headwater.pipelines.checkpoint.checkpoint_storage import LocalStorage, local_folder
from headwater.pipelines.checkpoint.query_checkpoint import (
    UnknownCheckpoint,
    move,
    read_checkpoint,
)
from headwater.spark.source.topic_offsets import from_document

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
NEW = "5c0f7cbe-28a5-4d14-a30e-bd0f3a2a6a7d"
METADATA = (
    '{"batchWatermarkMs":77,"batchTimestampMs":5,"conf":{"spark.sql.shuffle.partitions":"2"}}'
)
FILES = '{"logOffset":3}'


def checkpoint(folder: Path, *, planned: int, committed: int, sources: list[str]) -> LocalStorage:
    storage = LocalStorage(folder)
    storage.write("p/s/metadata", '{"id":"old"}')
    for batch in range(planned + 1):
        storage.write(f"p/s/offsets/{batch}", "\n".join(["v1", METADATA, *sources]))
    for batch in range(committed + 1):
        storage.write(f"p/s/commits/{batch}", "v1\n{}")
    return storage


def test_a_query_without_state_gets_one_more_batch_that_begins_and_ends_at_the_new_offsets(
    tmp_path: Path,
) -> None:
    line = '{"orders": {"0": 9, "1": 9}}'
    storage = checkpoint(tmp_path, planned=11, committed=11, sources=[FILES, line])
    found = read_checkpoint(storage, "p/s")
    assert found is not None
    assert (found.batch_id, found.offsets) == (11, {P0: 9, P1: 9})
    assert move(storage, found, {P0: 2, P1: 3}, query_id=NEW) is None
    version, metadata, *sources = (storage.read("p/s/offsets/12") or "").split("\n")
    assert (version, metadata, sources[0]) == ("v1", METADATA, FILES)
    assert from_document(json.loads(sources[1])) == ({P0: 2, P1: 3}, {P0: 2, P1: 3})
    # Spark runs it as a batch that was not finished.
    assert "12" not in storage.names("p/s/commits")
    assert storage.read("p/s/metadata") == '{"id":"old"}'


def test_an_unfinished_batch_is_replaced_with_its_checksum(tmp_path: Path) -> None:
    storage = checkpoint(tmp_path, planned=4, committed=3, sources=['{"orders": {"0": 9}}'])
    (tmp_path / "p" / "s" / "offsets" / ".4.crc").write_bytes(b"of the former content")
    found = read_checkpoint(storage, "p/s")
    assert found is not None
    assert not found.is_committed
    move(storage, found, {P0: 2}, query_id=NEW)
    assert storage.names("p/s/offsets") == ["0", "1", "2", "3", "4"]
    assert '{"orders": {"0": 2}' in (storage.read("p/s/offsets/4") or "")


def test_a_query_with_state_gets_a_new_checkpoint_and_the_old_one_is_kept(tmp_path: Path) -> None:
    storage = checkpoint(tmp_path, planned=4, committed=4, sources=['{"orders": {"0": 9}}'])
    (tmp_path / "p" / "s" / "state").mkdir()
    found = read_checkpoint(storage, "p/s")
    assert found is not None
    assert move(storage, found, {P0: 2}, query_id=NEW) == f"p/s@{NEW}"
    assert storage.names("p") == ["s", f"s@{NEW}"]
    assert storage.names("p/s") == ["metadata", "offsets"]
    # With the id of the old query, the sink would take its first batches for repeated ones.
    assert storage.read("p/s/metadata") == f'{{"id":"{NEW}"}}'
    assert storage.names("p/s/offsets") == ["0"]
    _, metadata, line = (storage.read("p/s/offsets/0") or "").split("\n")
    assert json.loads(metadata) == {**json.loads(METADATA), "batchWatermarkMs": 0}
    assert from_document(json.loads(line)) == ({P0: 2}, {P0: 2})
    assert storage.names(f"p/s@{NEW}/offsets") == ["0", "1", "2", "3", "4"]


def test_a_checkpoint_without_batches_or_of_another_version(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    assert read_checkpoint(storage, "p/s") is None
    storage.write("p/s/offsets/0", "v2\n{}")
    with pytest.raises(UnknownCheckpoint, match="version 'v2'"):
        read_checkpoint(storage, "p/s")


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ("/ck", Path("/ck")),
        ("file:///mnt/a%20b", Path("/mnt/a b")),
        ("file:/mnt/c", Path("/mnt/c")),
        ("hdfs:///ck", None),
        ("s3a://bucket/ck", None),
    ],
)
def test_locations_of_this_machine(location: str, folder: Path | None) -> None:
    assert local_folder(location) == folder
