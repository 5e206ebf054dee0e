"""Errors that stop a pipeline, in one line that says what to do."""

from headwater.common.exceptions import HeadwaterError, InvalidSetting


class InvalidOption(InvalidSetting):
    """An option of a source or sink is missing, unknown or invalid."""


class DataLost(HeadwaterError):
    """Records that a query has not read are gone, and it must not skip them."""


class WrongColumns(HeadwaterError):
    """The rows have not the columns that a topic is written from, or read into."""


class UnsafeReplay(HeadwaterError):
    """A repeated batch would send rows through other tasks, and duplicate some."""


class UnparsableRecord(HeadwaterError):
    """A record's key or value is not what the schema of a query says."""


class UnreadableFile(HeadwaterError):
    """A file is not of the format that a connector was told."""


class UnwritableRow(HeadwaterError):
    """A row has a value that the schema of a topic does not have."""
