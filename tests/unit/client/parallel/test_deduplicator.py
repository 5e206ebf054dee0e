"""Processed records are recognized, also after a restart, within the window."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.client import ConsumerRecord, Deduplicator
from headwater.client.errors import IllegalState
from headwater.common.exceptions import CorruptFile, InvalidSetting, StorageError
from headwater.records.batch_header import TimestampType


def record(name: str | None, offset: int = 0) -> ConsumerRecord:
    headers = () if name is None else (("id", b"older"), ("id", name.encode()))
    return ConsumerRecord(
        topic="t",
        partition=0,
        offset=offset,
        timestamp=0,
        timestamp_type=TimestampType.CREATE_TIME,
        key=None,
        value=b"v",
        headers=headers,
        leader_epoch=0,
    )


def test_the_identity_is_the_last_header_with_the_name(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "seen", identity="id") as seen:
        assert seen.is_new(record("a"))
        seen.handled(record("a"))
        assert not seen.is_new(record("a", offset=9))
        assert seen.is_new(record("b"))


def test_an_unhandled_record_stays_new(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "seen", identity="id") as seen:
        assert [each.offset for each in seen.new([record("a", 1), record("a", 2)])] == [1, 2]


def test_a_duplicate_within_one_poll_is_skipped(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "seen", identity="id") as seen:
        taken = []
        for each in seen.new([record("a", 1), record("a", 2), record("b", 3)]):
            taken.append(each.offset)
            seen.handled(each)
        assert taken == [1, 3]


def test_identities_survive_a_restart(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "seen", identity="id") as seen:
        seen.handled(record("a"))
        seen.handled(record("x" * 100))
    with Deduplicator(tmp_path / "seen", identity="id") as seen:
        assert not seen.is_new(record("a"))
        assert not seen.is_new(record("x" * 100))
        assert len(seen) == 2


def test_a_crash_loses_only_unflushed_identities(tmp_path: Path) -> None:
    dies = Deduplicator(tmp_path / "seen", identity="id")
    dies.handled(record("a"))
    dies.flush()
    dies.handled(record("b"))
    with Deduplicator(tmp_path / "seen2", identity="id"):
        # What another process would see in the file.
        copy = tmp_path / "copy"
        for path in tmp_path.glob("seen*"):
            if not path.name.startswith("seen2"):
                (tmp_path / path.name.replace("seen", "copy")).write_bytes(path.read_bytes())
    with Deduplicator(copy, identity="id") as seen:
        assert not seen.is_new(record("a"))
        assert seen.is_new(record("b"))
    dies.close()


def test_the_window_is_bounded_and_drops_the_oldest(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "seen", identity="id", window=2) as seen:
        for name in ("a", "b", "b", "c"):
            seen.handled(record(name))
        assert len(seen) == 2
        assert seen.is_new(record("a"))
        assert not seen.is_new(record("b"))
        assert not seen.is_new(record("c"))


def test_a_record_without_an_identity_is_always_new(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "seen", identity="id") as seen:
        seen.handled(record(None))
        assert seen.is_new(record(None))
        assert len(seen) == 0


def test_an_identity_can_be_a_function_of_the_record(tmp_path: Path) -> None:
    with Deduplicator(
        tmp_path / "seen", identity=lambda each: f"{each.partition}-{each.offset}"
    ) as seen:
        seen.handled(record(None, offset=5))
        assert not seen.is_new(record("other", offset=5))
        assert seen.is_new(record(None, offset=6))


def test_a_foreign_file_is_rejected_and_a_closed_deduplicator_raises(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"not a database" * 100)
    with pytest.raises(CorruptFile):
        Deduplicator(tmp_path / "text", identity="id")
    with pytest.raises(InvalidSetting):
        Deduplicator(tmp_path / "seen", identity="id", window=0)
    closed = Deduplicator(tmp_path / "seen", identity="id")
    closed.close()
    with pytest.raises(IllegalState):
        closed.is_new(record("a"))


def test_a_deduplicator_is_thread_safe(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "seen", identity="id", window=50) as seen:

        def work(start: int) -> None:
            for number in range(start, start + 100):
                seen.handled(record(str(number)))

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(work, start * 100) for start in range(4)]:
                done.result(60)
        assert len(seen) == 50


def test_a_file_has_one_user_at_a_time(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "seen", identity="id") as seen:
        seen.handled(record("1"))
        with pytest.raises(StorageError, match="another process has it open"):
            Deduplicator(tmp_path / "seen", identity="id")
    with Deduplicator(tmp_path / "seen", identity="id") as again:
        assert not again.is_new(record("1"))
