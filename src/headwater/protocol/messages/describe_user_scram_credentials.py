"""DescribeUserScramCredentials: list SCRAM users and iteration counts."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class UserName:
    name: str = one("string", default="")


@protocol_message
class DescribeUserScramCredentialsRequest:
    api: ClassVar = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS

    users: tuple[UserName, ...] | None = many(UserName, default=(), nullable_since=0)


@protocol_message
class CredentialInfo:
    mechanism: int = one("int8", default=0)
    iterations: int = one("int32", default=0)


@protocol_message
class DescribeUserScramCredentialsResult:
    user: str = one("string", default="")
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    credential_infos: tuple[CredentialInfo, ...] = many(CredentialInfo, default=())


@protocol_message
class DescribeUserScramCredentialsResponse:
    api: ClassVar = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    results: tuple[DescribeUserScramCredentialsResult, ...] = many(
        DescribeUserScramCredentialsResult, default=()
    )
