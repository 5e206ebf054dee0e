"""Producer epochs under which a value is in a log."""

from collections import Counter, defaultdict

from headwater.records.batch_header import HEADER_BYTES, read_header
from headwater.records.record_reader import read_records


def sent_again(content: bytes) -> set[bytes]:
    """Return values that are in the log under two or more producer epochs, once in each."""
    found: dict[bytes, Counter[tuple[int, int]]] = defaultdict(Counter)
    view, position = memoryview(content), 0
    while position + HEADER_BYTES <= len(view):
        header = read_header(view[position:])
        batch = view[position : position + header.size_bytes]
        for record in read_records(batch, header):
            if record.value is not None:
                found[record.value][header.producer_id, header.producer_epoch] += 1
        position += header.size_bytes
    return {
        value for value, epochs in found.items() if len(epochs) > 1 and max(epochs.values()) == 1
    }
