"""Errors of sources and sinks; each message is one line that says what to do."""

from headwater.common.exceptions import HeadwaterError, InvalidSetting


class InvalidOption(InvalidSetting):
    """An option of a source or sink is missing, unknown or invalid."""


class DataLost(HeadwaterError):
    """Unread records were deleted, and the query must not skip them."""


class WrongColumns(HeadwaterError):
    """The columns of the rows do not match those of a topic."""


class UnsafeReplay(HeadwaterError):
    """A repeated batch would distribute rows differently and duplicate some."""


class UnparsableRecord(HeadwaterError):
    """A record's key or value does not match the schema of the query."""


class UnreadableFile(HeadwaterError):
    """A file does not have the configured format."""


class UnwritableRow(HeadwaterError):
    """A row has a value that the topic's schema does not allow."""
