# Same functions as `pure_kernel`, which documents them.

from collections.abc import Callable, Iterable

from headwater.records.batch_header import BatchHeader, Buffer
from headwater.records.consumer_record import ConsumerRecord
from headwater.records.kernel.batch_runs import IndexProgress, ValidRun
from headwater.records.kernel.buffers import (
    BinaryBuffers,
    DecodedColumns,
    HeaderBuffers,
    RecordSection,
    RecordsSummary,
    ValidationResult,
)
from headwater.records.kernel.single_produce import SingleProduce

def scan(buffer: Buffer, position: int, limit: int) -> tuple[list[BatchHeader], int]: ...
def ordinary_header(
    buffer: Buffer, limit_bytes: int, oldest_ms: int, newest_ms: int, validates: bool
) -> BatchHeader | None: ...
def read_single_produce(frame: memoryview) -> SingleProduce | None: ...
def write_single_produce(
    produce: SingleProduce, base_offset: int, append_time_ms: int, log_start_offset: int
) -> bytes: ...
def valid_run(
    buffer: Buffer,
    position: int,
    *,
    lowest_offset: int,
    highest_offset: int,
    leader_epoch: int,
    index_interval_bytes: int,
    progress: IndexProgress,
) -> ValidRun: ...
def producer_headers(
    buffer: Buffer, position: int
) -> tuple[list[tuple[int, BatchHeader]], int]: ...
def last_header(buffer: Buffer) -> tuple[int, BatchHeader] | None: ...
def decode_sections(
    sections: Iterable[RecordSection],
    *,
    first_offset: int,
    expected_bytes: int,
    checks_crc: bool = False,
    views: bool = False,
) -> DecodedColumns: ...
def consumed_records(
    columns: DecodedColumns,
    start: int,
    stop: int,
    topic: str,
    partition: int,
    leader_epoch: int,
) -> list[ConsumerRecord]: ...
def encode_batches(
    row_count: int,
    timestamps: Buffer,
    keys: BinaryBuffers | None,
    values: BinaryBuffers | None,
    headers: HeaderBuffers | None,
    *,
    template: BatchHeader,
    batch_bytes: int,
    expected_bytes: int,
    allocate: Callable[[int], memoryview],
    crc_from: int,
    finish: Callable[[memoryview], memoryview] | None,
) -> list[memoryview]: ...

class BatchBuilder:
    size_bytes: int
    count: int
    base_timestamp: int
    max_timestamp: int
    def __init__(self, limit_bytes: int) -> None: ...
    def append(
        self, timestamp: int, key: Buffer | None, value: Buffer | None, tail: bytes = b"\0"
    ) -> int: ...
    def close(self) -> None: ...
    def take(self) -> bytearray: ...

def combined_crc(first: int, second: int, second_bytes: int) -> int: ...
def validate_records(
    payload: Buffer,
    record_count: int,
    base_timestamp: int,
    oldest_ms: int,
    newest_ms: int,
    needs_keys: bool,
) -> ValidationResult: ...
def renumber_records(payload: Buffer, record_count: int) -> bytes: ...
def check_records(payload: Buffer, record_count: int) -> RecordsSummary: ...
def first_timestamp_delta(payload: Buffer, record_count: int, keep: Buffer) -> int | None: ...
def filter_records(
    payload: Buffer, record_count: int, keep: Buffer, base_timestamp_shift: int
) -> tuple[bytes, int, int | None]: ...
def siphash128(seed: bytes, data: Buffer) -> bytes: ...

class OffsetMap:
    capacity: int
    latest_offset: int
    def __init__(self, memory_bytes: int, load_factor: float, seed: bytes) -> None: ...
    def __len__(self) -> int: ...
    def put(self, key: Buffer, offset: int) -> bool: ...
    def get(self, key: Buffer) -> int: ...

def map_records(
    offset_map: OffsetMap, payload: Buffer, record_count: int, base_offset: int
) -> int: ...
def keep_mask(
    offset_map: OffsetMap,
    payload: Buffer,
    record_count: int,
    base_offset: int,
    keep_tombstones: bool,
) -> tuple[bytes, int, int]: ...
def murmur2(data: Buffer) -> int: ...
def murmur2_column(row_count: int, column: BinaryBuffers) -> bytearray: ...
def new_block(size_bytes: int) -> memoryview: ...
def new_mapping(size_bytes: int) -> memoryview: ...
