"""REST errors of the registry, with Confluent's error codes and messages.

Clients compare codes, and many also search in the messages, so both are Confluent's. The text after
"details:" is Headwater's. docs/guides/schema-registry.md lists them all, and a test reads that
table.

Note: the first three digits of a code are the HTTP status, so the status is derived from the code.
"""

from dataclasses import dataclass
from typing import Final

from headwater.http_server.http_errors import HttpError

SUBJECT_NOT_FOUND: Final = 40401
VERSION_NOT_FOUND: Final = 40402
SCHEMA_NOT_FOUND: Final = 40403
SUBJECT_SOFT_DELETED: Final = 40404
SUBJECT_NOT_SOFT_DELETED: Final = 40405
VERSION_SOFT_DELETED: Final = 40406
VERSION_NOT_SOFT_DELETED: Final = 40407
NO_CONFIG_OF_SUBJECT: Final = 40408
NO_MODE_OF_SUBJECT: Final = 40409
INCOMPATIBLE_SCHEMA: Final = 40901
INVALID_SCHEMA: Final = 42201
INVALID_VERSION: Final = 42202
INVALID_COMPATIBILITY: Final = 42203
INVALID_MODE: Final = 42204
NOT_PERMITTED: Final = 42205
REFERENCE_EXISTS: Final = 42206
INVALID_SUBJECT: Final = 42208
SCHEMA_TOO_LARGE: Final = 42209
INVALID_RULES: Final = 42210
CONTEXT_NOT_EMPTY: Final = 42211
STORE_FAILED: Final = 50001
TIMED_OUT: Final = 50002
FORWARDING_FAILED: Final = 50003

_CONTEXT: Final = ""
"""The default context as Confluent's messages write it; the only one that is supported."""


class RestError(HttpError):
    """The request was rejected: an error code for programs, a message for people."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(int(str(error_code)[:3]), message)
        self.error_code = error_code


def subject_not_found(subject: str) -> RestError:
    return RestError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RestError:
    return RestError(VERSION_NOT_FOUND, f"Version {version} not found.")


def schema_not_found(which: int | str | None = None) -> RestError:
    """`which` is an id or a GUID; without one the schema was looked up by its text."""
    named = "Schema" if which is None else f"Schema {which}"
    return RestError(SCHEMA_NOT_FOUND, f"{named} not found")


def subject_soft_deleted(subject: str) -> RestError:
    # Confluent's message has no space after this full stop.
    return RestError(
        SUBJECT_SOFT_DELETED,
        f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
    )


def subject_not_soft_deleted(subject: str) -> RestError:
    return RestError(
        SUBJECT_NOT_SOFT_DELETED,
        f"Subject '{subject}' was not deleted first before being permanently deleted",
    )


def version_soft_deleted(subject: str, version: int) -> RestError:
    return RestError(
        VERSION_SOFT_DELETED,
        f"Subject '{subject}' Version {version} was soft deleted."
        "Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RestError:
    return RestError(
        VERSION_NOT_SOFT_DELETED,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently "
        "deleted",
    )


def no_config_of_subject(subject: str) -> RestError:
    return RestError(
        NO_CONFIG_OF_SUBJECT,
        f"Subject '{subject}' does not have subject-level compatibility configured",
    )


def no_mode_of_subject(subject: str) -> RestError:
    return RestError(
        NO_MODE_OF_SUBJECT, f"Subject '{subject}' does not have subject-level mode configured"
    )


def incompatible_schema(subject: str, details: list[str]) -> RestError:
    return RestError(
        INCOMPATIBLE_SCHEMA,
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{", ".join(details)}]',
    )


def invalid_schema(message: str) -> RestError:
    return RestError(INVALID_SCHEMA, message)


def invalid_schema_of_type(schema_type: str, details: str) -> RestError:
    return invalid_schema(f"Invalid schema of type {schema_type}, details: {details}")


def invalid_version(text: str) -> RestError:
    return RestError(
        INVALID_VERSION,
        f"The specified version '{text}' is not a valid version id. Allowed values are between "
        '[1, 2^31-1] and the string "latest"',
    )


def invalid_compatibility() -> RestError:
    return RestError(
        INVALID_COMPATIBILITY,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode() -> RestError:
    return RestError(
        INVALID_MODE, "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."
    )


def not_permitted(message: str) -> RestError:
    return RestError(NOT_PERMITTED, message)


def not_in_mode(subject: str | None, is_what: str) -> RestError:
    """`is_what` completes the sentence, as in "is in read-only mode"."""
    named = "null" if subject is None else subject
    return not_permitted(f"Subject {named} in context {_CONTEXT} {is_what}")


def id_in_use(schema_id: int) -> RestError:
    return not_permitted(
        f"Overwrite new schema with id {schema_id} in context {_CONTEXT} is not permitted."
    )


def reference_exists(subject: str, version: int) -> RestError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RestError(REFERENCE_EXISTS, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str) -> RestError:
    return RestError(INVALID_SUBJECT, f"The specified subject '{subject}' is not a valid.")


def schema_too_large() -> RestError:
    return RestError(SCHEMA_TOO_LARGE, "Register operation failed because schema is too large")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Confluent's error messages for a failed write to `_schemas`.

    The log has the cause.
    """

    failed: str
    timed_out: str
    forwarding: str

    def store_failed(self) -> RestError:
        return RestError(STORE_FAILED, self.failed)

    def has_timed_out(self) -> RestError:
        return RestError(TIMED_OUT, self.timed_out)

    def forwarding_failed(self) -> RestError:
        """The error for a writer that others keep overtaking; clients should retry."""
        return RestError(
            FORWARDING_FAILED, f"Error while forwarding {self.forwarding} request to the leader"
        )


REGISTER: Final = Operation(
    failed="Register schema operation failed while writing to the Kafka store",
    timed_out="Register operation timed out",
    forwarding="register schema",
)
DELETE_SUBJECT: Final = Operation(
    failed="Delete Subject operation failed while writing to the Kafka store",
    timed_out="Delete subject operation timed out",
    forwarding="delete subject",
)
DELETE_VERSION: Final = Operation(
    failed="Delete Schema Version operation failed while writing to the Kafka store",
    timed_out="Delete Schema Version operation timed out",
    forwarding="delete schema version",
)
UPDATE_CONFIG: Final = Operation(
    failed="Failed to update compatibility level",
    timed_out="Failed to update compatibility level",
    forwarding="update config",
)
DELETE_CONFIG: Final = Operation(
    failed="Failed to delete compatibility level",
    timed_out="Failed to delete compatibility level",
    forwarding="delete config",
)
UPDATE_MODE: Final = Operation(
    failed="Failed to update mode",
    timed_out="Update mode operation timed out",
    forwarding="update mode",
)
DELETE_MODE: Final = Operation(
    failed="Failed to delete mode",
    timed_out="Failed to delete mode",
    forwarding="delete mode",
)
