"""`headwater log dump`: text and JSON output, findings and exit codes."""

import json
import struct
from pathlib import Path

import cramjam
import pytest
from crc32c import crc32c
from typer.testing import CliRunner, Result

import headwater
from headwater.cli.main import app
from tests.segments import START_MS, SegmentBytes, batch, marker, record, texts, three_batches

STEM = "00000000000000000000"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0\x08\x06" + bytes(range(256))


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def dump(*arguments: str | Path) -> Result:
    return run("log", "dump", *arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "orders-0"
    path.mkdir()
    return path


def save(folder: Path, segment: SegmentBytes) -> Path:
    (folder / f"{STEM}.index").write_bytes(segment.index)
    (folder / f"{STEM}.timeindex").write_bytes(segment.time_index)
    return save_log(folder, segment.log)


def save_log(folder: Path, content: bytes | bytearray) -> Path:
    path = folder / f"{STEM}.log"
    path.write_bytes(content)
    return path


def objects(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_an_intact_segment_is_printed_batch_by_batch_and_exits_with_zero(folder: Path) -> None:
    result = dump(save(folder, three_batches()))
    assert result.exit_code == 0
    assert result.stderr == ""
    title, *batches, summary = result.stdout.splitlines()
    assert title.split()[:4] == ["base", "offset", "last", "offset"]
    assert [line.split()[:8] for line in batches] == [
        ["0", "1", "2", "0", "79", "none", "0", "ok"],
        ["2", "2", "1", "79", "70", "none", "0", "ok"],
        ["3", "5", "3", "149", "88", "none", "0", "ok"],
    ]
    assert "2023-11-14 22:13:20.000  +1 ms" in batches[0]
    assert summary == (
        f"{STEM}.log: 3 batches, 6 records, offsets 0 to 5, 237 bytes, "
        "with .index and .timeindex; no damage found"
    )


def test_records_are_printed_with_text_null_and_headers(folder: Path) -> None:
    log = batch(0, [record(0, b"k", None, [("trace", b"abc"), ("none", None)])])
    result = dump(save_log(folder, log), "--records")
    assert '0  2023-11-14 22:13:20.000  "k": null  [trace="abc", none=null]' in result.stdout


def test_control_characters_are_printed_in_hexadecimal(folder: Path) -> None:
    log = batch(0, [record(0, b"\x1b[31m", b"\xff", [("\x07", b"\r")])])
    result = dump(save_log(folder, log), "--records")
    assert "0x1b5b33316d: 0xff  ['\\x07'=0x0d]" in result.stdout
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout


def test_a_long_value_is_shortened(folder: Path) -> None:
    result = dump(save_log(folder, batch(0, texts("x" * 1000))), "--records")
    assert '"' + "x" * 64 + '" and 936 characters' in result.stdout


def test_compressed_records_are_decoded(folder: Path) -> None:
    records = texts("a", "b")
    payload = bytes(cramjam.gzip.compress(b"".join(records)))
    result = dump(save_log(folder, batch(0, records, attributes=1, payload=payload)), "--records")
    assert result.exit_code == 0
    assert "gzip" in result.stdout
    assert '"k": "b"' in result.stdout


def test_control_records_are_named_commit_and_abort(folder: Path) -> None:
    log = marker(0, commits=True) + marker(1, commits=False)
    result = dump(save_log(folder, log), "--records")
    assert "COMMIT, coordinator epoch 2" in result.stdout
    assert "ABORT, coordinator epoch 2" in result.stdout
    assert "producer 7 epoch 0  transactional  control" in result.stdout


def test_json_prints_one_object_per_batch_and_a_summary(folder: Path) -> None:
    log = batch(0, texts("a"), producer=(7, 1, 5), leader_epoch=3)
    shown, summary = objects(dump(save_log(folder, log), "--json"))
    assert shown == {
        "position": 0,
        "base_offset": 0,
        "last_offset": 0,
        "record_count": 1,
        "size_bytes": len(log),
        "codec": "none",
        "leader_epoch": 3,
        "timestamp_type": "CREATE_TIME",
        "base_timestamp": 1_700_000_000_000,
        "max_timestamp": 1_700_000_000_000,
        "producer_id": 7,
        "producer_epoch": 1,
        "base_sequence": 5,
        "is_transactional": False,
        "is_control": False,
        "delete_horizon_ms": None,
        "crc_ok": True,
    }
    assert summary["summary"] == {
        "file": f"{STEM}.log",
        "batches": 1,
        "records": 1,
        "entries": 0,
        "size_bytes": len(log),
        "first_offset": 0,
        "last_offset": 0,
        "checked_indexes": [],
        "is_partial": False,
        "findings": 0,
    }


def test_json_records_distinguish_text_from_bytes_and_name_control_records(folder: Path) -> None:
    log = batch(0, [record(0, b"k", b"\xff", [("h", None)])]) + marker(1, commits=True)
    data, control, _ = objects(dump(save_log(folder, log), "--json", "--records"))
    assert data["records"] == [
        {
            "offset": 0,
            "timestamp": 1_700_000_000_000,
            "key": "k",
            "value": {"hex": "ff"},
            "headers": [["h", None]],
        }
    ]
    assert isinstance(control["records"], list)
    assert control["records"][0]["control"] == "COMMIT"


def test_a_limit_stops_early_and_marks_the_summary_as_partial(folder: Path) -> None:
    result = dump(save(folder, three_batches()), "--limit", "2", "--json")
    *batches, last = objects(result)
    assert len(batches) == 2
    summary = last["summary"]
    assert isinstance(summary, dict)
    assert summary["is_partial"]
    assert result.exit_code == 0


def test_damage_is_one_line_on_standard_error_and_exit_code_one(folder: Path) -> None:
    segment = three_batches()
    segment.log[segment.positions[1] + 65] ^= 1
    result = dump(save(folder, segment))
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"{STEM}.log: position 79: wrong CRC: the batch says")
    assert "BAD" in result.stdout
    assert result.stdout.rstrip().endswith("1 finding")


def test_damage_in_the_last_batch_within_the_limit_is_reported(folder: Path) -> None:
    segment = three_batches()
    segment.log[segment.positions[1] + 65] ^= 1
    assert dump(save(folder, segment), "--limit", "2").exit_code == 1


def test_a_torn_tail_is_reported(folder: Path) -> None:
    result = dump(save_log(folder, three_batches().log[:-5]))
    assert result.exit_code == 1
    assert result.stderr == (
        f"{STEM}.log: position 149: torn tail: the batch claims 88 bytes, the file has 83\n"
    )


def test_a_wrong_length_is_reported(folder: Path) -> None:
    segment = three_batches()
    struct.pack_into(">i", segment.log, segment.positions[1] + 8, 3)
    result = dump(save_log(folder, segment.log))
    assert result.exit_code == 1
    assert "position 79: unreadable from here" in result.stderr


def test_an_unknown_codec_is_reported_by_number(folder: Path) -> None:
    path = save_log(folder, batch(0, texts("a"), attributes=7))
    result = dump(path)
    assert result.exit_code == 1
    assert result.stderr == f"{STEM}.log: position 0: unknown compression codec 7\n"
    assert "?7" in result.stdout
    assert dump(path, "--records").exit_code == 1


@pytest.mark.parametrize(
    ("payload", "attributes"),
    [(b"this is no gzip", 1), (texts("a")[0] + b"\0", 0), (texts("a")[0][:-1], 0)],
)
def test_undecodable_records_are_reported_with_the_records_option(
    folder: Path, payload: bytes, attributes: int
) -> None:
    path = save_log(folder, batch(0, texts("a"), attributes=attributes, payload=payload))
    assert dump(path).exit_code == 0
    for form in ("--records", "--json"):
        result = dump(path, "--records", form)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"{STEM}.log: position 0: ")


def test_a_wrong_index_entry_is_reported(folder: Path) -> None:
    segment = three_batches()
    struct.pack_into(">i", segment.index, 4, 80)
    result = dump(save(folder, segment))
    assert result.exit_code == 1
    assert result.stderr == (
        f"{STEM}.index: position 0: points at position 80, where no batch begins\n"
    )


def test_an_index_is_listed(folder: Path) -> None:
    save(folder, three_batches())
    assert objects(dump(folder / f"{STEM}.index", "--json"))[:-1] == [
        {"offset": 2, "position": 79},
        {"offset": 5, "position": 149},
    ]
    assert objects(dump(folder / f"{STEM}.timeindex", "--json"))[0] == {
        "timestamp": 1_700_000_000_002,
        "offset": 2,
    }


def test_a_truncated_index_is_reported(folder: Path) -> None:
    path = folder / f"{STEM}.index"
    path.write_bytes(bytes(range(1, 14)))
    result = dump(path)
    assert result.exit_code == 1
    assert "not a multiple of 8" in result.stderr


def test_leader_epochs_are_listed_and_checked(folder: Path) -> None:
    path = folder / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n3 100\n", encoding="utf-8")
    assert objects(dump(path, "--json"))[:-1] == [
        {"epoch": 0, "start_offset": 0},
        {"epoch": 3, "start_offset": 100},
    ]
    path.write_text("0\n3\n0 0\n3 100\n", encoding="utf-8")
    assert dump(path).exit_code == 1


def test_aborted_transactions_are_listed_and_checked(folder: Path) -> None:
    path = folder / f"{STEM}.txnindex"
    path.write_bytes(
        struct.pack(">hqqqq", 0, 7, 3, 5, 3)
        + struct.pack(">hqqqq", 0, 8, 6, 4, 6)
        + struct.pack(">hqqqq", 1, 8, 6, 9, 6)
        + struct.pack(">hqqqq", 0, 9, 12, 11, 6)
        + bytes(5)
    )
    result = dump(path, "--json")
    assert result.exit_code == 1
    assert objects(result)[0] == {
        "version": 0,
        "producer_id": 7,
        "first_offset": 3,
        "last_offset": 5,
        "last_stable_offset": 3,
    }
    assert [line.split(": ")[1:] for line in result.stderr.splitlines()] == [
        ["position 34", "marker offset 4 or last stable offset does not increase"],
        ["position 68", "entry version 1 instead of 0"],
        ["position 102", "a transaction from 12 cannot end at 11"],
        ["position 136", "size 141 is not a multiple of 34, incomplete entry"],
    ]


def test_producer_snapshots_are_listed_and_checked(folder: Path) -> None:
    path = folder / f"{STEM}.snapshot"
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 1, 41, 99, 4, START_MS, -1, 95)
    path.write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
    assert objects(dump(path, "--json"))[0] == {
        "producer_id": 7,
        "epoch": 1,
        "last_sequence": 41,
        "last_offset": 99,
        "offset_delta": 4,
        "timestamp": START_MS,
        "coordinator_epoch": -1,
        "transaction_first_offset": 95,
    }
    path.write_bytes(struct.pack(">hI", 1, 0) + body)
    result = dump(path)
    assert result.exit_code == 1
    assert "position 0: producer snapshot has CRC" in result.stderr


def test_a_directory_prints_one_line_per_segment(folder: Path) -> None:
    save(folder, three_batches())
    (folder / "00000000000000000006.log").write_bytes(batch(6, texts("g"))[:-1])
    result = dump(folder)
    assert result.exit_code == 1
    first, second = result.stdout.splitlines()
    assert first.endswith("no damage found")
    assert second == "00000000000000000006.log: no intact batch or entry; 1 finding"


def test_a_segment_with_the_deleted_suffix_is_read(folder: Path) -> None:
    path = save(folder, three_batches()).rename(folder / f"{STEM}.log.deleted")
    (folder / f"{STEM}.index").rename(folder / f"{STEM}.index.deleted")
    assert "3 batches" in dump(path).stdout
    assert "with .index;" in dump(path).stdout


def test_preallocated_zeros_are_not_damage(folder: Path) -> None:
    result = dump(save_log(folder, three_batches().log + bytes(4096)))
    assert result.exit_code == 0
    assert "the last 4,096 bytes, from position 237 on, are preallocated zeros" in result.stdout


def test_an_empty_segment_has_no_findings(folder: Path) -> None:
    result = dump(save_log(folder, b""))
    assert (result.exit_code, result.stdout) == (0, f"{STEM}.log: empty; no damage found\n")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("picture.log", PNG, "not a segment: message format 0"),
        ("picture.png", PNG, "not a file of a log"),
        ("empty", b"", "not a file of a log"),
        ("short.log", three_batches().log[:60], "not a segment: 60 bytes are too few"),
    ],
)
def test_foreign_or_truncated_input_is_rejected_with_one_line(
    folder: Path, name: str, content: bytes, reason: str
) -> None:
    path = folder / name
    path.write_bytes(content)
    result = dump(path)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert reason in result.stderr


def test_a_missing_file_is_rejected_with_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.log", tmp_path / "nothing", tmp_path):
        result = dump(path)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"headwater {headwater.__version__}\n"


@pytest.mark.parametrize("timestamp_ms", [2**62, -(2**62), 10**16])
def test_a_timestamp_outside_the_calendar_is_printed_as_a_number(
    folder: Path, timestamp_ms: int
) -> None:
    path = save_log(folder, batch(0, texts("a"), timestamp_ms=timestamp_ms))
    result = dump(path, "--records")
    assert result.exit_code == 0
    assert result.stdout.count(f"{timestamp_ms} ms") == 2


def test_a_missing_timestamp_is_named(folder: Path) -> None:
    path = save_log(folder, batch(0, texts("a"), timestamp_ms=-1))
    assert "no timestamp" in dump(path).stdout
