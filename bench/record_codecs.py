"""Convert records to Arrow columns and back, compared with aiokafka's compiled code.

Note: the results differ. aiokafka creates an object per record, which a Python consumer then
handles one by one; Headwater creates Arrow columns, which Spark or pandas take as a whole. The
figures show the cost of reading many records either way. Both check the CRC when reading and
compute it when writing, and neither compresses.
"""

import importlib
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from bench.harness import Bench, median_of_rounds
from headwater.records.arrow_columns import decode_batches, encode_columns
from headwater.records.kernel import IS_COMPILED

RECORDS = 50_000
KEY_BYTES = 12
VALUE_BYTES = 88
BATCH_BYTES = 16_384
ROUNDS = 15
SEED = 20_240_601
FIRST_TIMESTAMP = 1_700_000_000_000

DECODE_GOAL = 4
ENCODE_GOAL = 8

# aiokafka has no type annotations, so it is loaded by name.
_records: Any = importlib.import_module("aiokafka.record.default_records")
_memory_records: Any = importlib.import_module("aiokafka.record.memory_records")


def measure(bench: Bench) -> None:
    table = _records_table()
    log = b"".join(encode_columns(table, batch_bytes=BATCH_BYTES))
    _measure_decoding(bench, log)
    _measure_encoding(bench, table)


def _measure_decoding(bench: Bench, log: bytes) -> None:
    assert decode_batches(log).num_rows == _iterate(log) == RECORDS
    seconds = median_of_rounds(
        {"ours": lambda: decode_batches(log), "aiokafka": lambda: _iterate(log)}, ROUNDS
    )
    _record(bench, "decode 100-byte records to Arrow", seconds, DECODE_GOAL)


def _measure_encoding(bench: Bench, table: pa.RecordBatch) -> None:
    rows = list(
        zip(
            *(table.column(name).to_pylist() for name in ("timestamp", "key", "value")), strict=True
        )
    )
    ours = encode_columns(table, batch_bytes=BATCH_BYTES)
    assert sum(map(len, ours)) == sum(map(len, _build(rows))), "both must do the same work"
    seconds = median_of_rounds(
        {
            "ours": lambda: encode_columns(table, batch_bytes=BATCH_BYTES),
            "aiokafka": lambda: _build(rows),
        },
        ROUNDS,
    )
    _record(bench, "encode 100-byte records from Arrow", seconds, ENCODE_GOAL)


def _record(bench: Bench, name: str, seconds: dict[str, float], goal: float) -> None:
    kernel = "compiled kernel" if IS_COMPILED else "pure kernel"
    bench.record(f"{name}, {kernel}", RECORDS / seconds["ours"], "records/s")
    bench.record(f"{name}, aiokafka", RECORDS / seconds["aiokafka"], "records/s")
    bench.record(
        f"{name}, ratio",
        seconds["aiokafka"] / seconds["ours"],
        "times",
        compared_with="aiokafka's compiled records",
        at_least=goal,
    )


def _records_table() -> pa.RecordBatch:
    rng = random.Random(SEED)
    return pa.RecordBatch.from_pydict(
        {
            "timestamp": [FIRST_TIMESTAMP + number // 10 for number in range(RECORDS)],
            "key": [rng.randbytes(KEY_BYTES) for _ in range(RECORDS)],
            "value": [rng.randbytes(VALUE_BYTES) for _ in range(RECORDS)],
        }
    )


def _iterate(log: bytes) -> int:
    """What aiokafka's consumer does with a fetched log, down to the record objects."""
    count = 0
    batches = _memory_records.MemoryRecords(log)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        for _ in batch:
            count += 1
    return count


def _build(rows: Sequence[tuple[Any, ...]]) -> list[bytearray]:
    """What aiokafka's producer does: append until the batch is full, then start the next."""
    batches = []
    builder = _builder()
    number = 0
    for timestamp, key, value in rows:
        if builder.append(number, timestamp, key, value, []) is None:
            batches.append(builder.build())
            builder = _builder()
            number = 0
            builder.append(number, timestamp, key, value, [])
        number += 1
    batches.append(builder.build())
    return batches


def _builder() -> Any:
    return _records.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=BATCH_BYTES,
    )
