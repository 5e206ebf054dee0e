"""What stops a pipeline before or while data moves, in one line that says what to do."""

from headwater.model.failures import HeadwaterError, InvalidSetting


class OptionRefused(InvalidSetting):
    """An option of a source or a sink is missing, unknown, or has a value that cannot be."""


class DataLost(HeadwaterError):
    """Records that a query has not read yet are gone, and the query may not go on without them."""


class WrongColumns(HeadwaterError):
    """The rows have not the columns that a topic is written from, or read into."""


class RoutesDiffer(HeadwaterError):
    """A repeated batch would send rows through other tasks: some come twice, others never."""


class UnparsableRecord(HeadwaterError):
    """A record's key or value is not what the schema of a query says."""


class UnreadableFile(HeadwaterError):
    """A file is not of the format that a connector was told."""


class SchemaUnfit(HeadwaterError):
    """A schema is none, has no type in Spark, or is not one of the rows that are to be written."""


class UnwritableRow(HeadwaterError):
    """A row has a value that the schema of a topic does not have."""
