"""Errors of schema parsers and compatibility checks."""

from headwater.common.exceptions import HeadwaterError


class InvalidSchema(HeadwaterError):
    """The text is not a valid schema, or the schema is too large to compare."""


def invalid_schema_of_type(schema_type: str, details: str) -> InvalidSchema:
    return InvalidSchema(f"Invalid schema of type {schema_type}, details: {details}")


class UnsupportedSchema(HeadwaterError):
    """Spark cannot read or write rows with this schema."""
