"""Why a request to the registry is refused: an HTTP status, Confluent's code, and one line.

What a reader would get wrong: the first three digits of a code are the status, so it is never told
apart from the code.
"""

from headwater.model.failures import HeadwaterError

SUBJECT_NOT_FOUND = 40401
VERSION_NOT_FOUND = 40402
SCHEMA_NOT_FOUND = 40403
SUBJECT_SOFT_DELETED = 40404
SUBJECT_NOT_SOFT_DELETED = 40405
VERSION_SOFT_DELETED = 40406
VERSION_NOT_SOFT_DELETED = 40407
NO_CONFIG_OF_SUBJECT = 40408
NO_MODE_OF_SUBJECT = 40409
INCOMPATIBLE_SCHEMA = 40901
INVALID_SCHEMA = 42201
INVALID_VERSION = 42202
INVALID_COMPATIBILITY = 42203
INVALID_MODE = 42204
NOT_PERMITTED = 42205
REFERENCE_EXISTS = 42206
INVALID_SUBJECT = 42208
SCHEMA_TOO_LARGE = 42209
INVALID_RULES = 42210
STORE_FAILED = 50001
TIMED_OUT = 50002
FORWARDING_FAILED = 50003


class Refusal(HeadwaterError):
    """Nothing was done. The code tells a program why, the message a person."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message

    @property
    def status(self) -> int:
        return int(str(self.error_code)[:3])


def subject_not_found(subject: str) -> Refusal:
    return Refusal(SUBJECT_NOT_FOUND, f"There is no subject '{subject}'")


def version_not_found(version: int) -> Refusal:
    return Refusal(VERSION_NOT_FOUND, f"The subject has no version {version}")


def schema_not_found(schema_id: int | None = None) -> Refusal:
    which = "such schema" if schema_id is None else f"schema with the id {schema_id}"
    return Refusal(SCHEMA_NOT_FOUND, f"There is no {which}")


def invalid_schema(reason: str) -> Refusal:
    return Refusal(INVALID_SCHEMA, reason)


def not_permitted(reason: str) -> Refusal:
    return Refusal(NOT_PERMITTED, reason)
