"""AlterUserScramCredentials: upsert or delete SCRAM credentials."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class ScramCredentialDeletion:
    name: str = one("string", default="")
    mechanism: int = one("int8", default=0)


@protocol_message
class ScramCredentialUpsertion:
    name: str = one("string", default="")
    mechanism: int = one("int8", default=0)
    iterations: int = one("int32", default=0)
    salt: bytes = one("bytes", default=b"")
    salted_password: bytes = one("bytes", default=b"")


@protocol_message
class AlterUserScramCredentialsRequest:
    api: ClassVar = ApiKey.ALTER_USER_SCRAM_CREDENTIALS

    deletions: tuple[ScramCredentialDeletion, ...] = many(ScramCredentialDeletion, default=())
    upsertions: tuple[ScramCredentialUpsertion, ...] = many(ScramCredentialUpsertion, default=())


@protocol_message
class AlterUserScramCredentialsResult:
    user: str = one("string", default="")
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)


@protocol_message
class AlterUserScramCredentialsResponse:
    api: ClassVar = ApiKey.ALTER_USER_SCRAM_CREDENTIALS

    throttle_time_ms: int = one("int32", default=0)
    results: tuple[AlterUserScramCredentialsResult, ...] = many(
        AlterUserScramCredentialsResult, default=()
    )
