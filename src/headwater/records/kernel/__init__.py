"""Record kernel of this process: the compiled or the pure Python one.

The pure one is used if the extension was not built, or with HEADWATER_PURE=1. Both return the same
bytes and raise the same exceptions. Import only from here.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("HEADWATER_PURE") == "1":
    from headwater.records.kernel.pure_batch_builder import BatchBuilder
    from headwater.records.kernel.pure_kernel import (
        OffsetMap,
        check_records,
        combined_crc,
        consumed_records,
        decode_sections,
        encode_batches,
        filter_records,
        first_timestamp_delta,
        keep_mask,
        last_header,
        map_records,
        murmur2,
        murmur2_column,
        new_block,
        new_mapping,
        ordinary_header,
        producer_headers,
        read_single_produce,
        renumber_records,
        scan,
        valid_run,
        validate_records,
        write_single_produce,
    )

    IS_COMPILED = False
else:
    try:
        from headwater.records.kernel._kernel import (
            BatchBuilder,
            OffsetMap,
            check_records,
            combined_crc,
            consumed_records,
            decode_sections,
            encode_batches,
            filter_records,
            first_timestamp_delta,
            keep_mask,
            last_header,
            map_records,
            murmur2,
            murmur2_column,
            new_block,
            new_mapping,
            ordinary_header,
            producer_headers,
            read_single_produce,
            renumber_records,
            scan,
            valid_run,
            validate_records,
            write_single_produce,
        )

        IS_COMPILED = True
    except ImportError:
        from headwater.records.kernel.pure_batch_builder import BatchBuilder
        from headwater.records.kernel.pure_kernel import (
            OffsetMap,
            check_records,
            combined_crc,
            consumed_records,
            decode_sections,
            encode_batches,
            filter_records,
            first_timestamp_delta,
            keep_mask,
            last_header,
            map_records,
            murmur2,
            murmur2_column,
            new_block,
            new_mapping,
            ordinary_header,
            producer_headers,
            read_single_produce,
            renumber_records,
            scan,
            valid_run,
            validate_records,
            write_single_produce,
        )

        IS_COMPILED = False

__all__ = [
    "IS_COMPILED",
    "BatchBuilder",
    "OffsetMap",
    "check_records",
    "combined_crc",
    "consumed_records",
    "decode_sections",
    "encode_batches",
    "filter_records",
    "first_timestamp_delta",
    "keep_mask",
    "last_header",
    "map_records",
    "murmur2",
    "murmur2_column",
    "new_block",
    "new_mapping",
    "ordinary_header",
    "producer_headers",
    "read_single_produce",
    "renumber_records",
    "scan",
    "valid_run",
    "validate_records",
    "write_single_produce",
]
