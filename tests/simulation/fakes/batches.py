"""Batches in the models of storage, and the exception of a failed check."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.records.batch_header import BatchHeader, read_header


class Broken(AssertionError):
    """The storage engine violated a guarantee."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as it was appended."""

    header: BatchHeader
    content: bytes

    @classmethod
    def of(cls, content: bytes) -> Batch:
        return cls(read_header(content), content)

    @property
    def base(self) -> int:
        return self.header.base_offset

    @property
    def next(self) -> int:
        return self.header.next_offset
