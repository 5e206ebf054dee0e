"""DescribeUserScramCredentials: list SCRAM users and iteration counts."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class UserName:
    name: str = one("string", default="")


@shape
class DescribeUserScramCredentialsRequest:
    api: ClassVar = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS

    users: tuple[UserName, ...] | None = many(UserName, default=(), nullable_since=0)


@shape
class CredentialInfo:
    mechanism: int = one("int8", default=0)
    iterations: int = one("int32", default=0)


@shape
class DescribeUserScramCredentialsResult:
    user: str = one("string", default="")
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    credential_infos: tuple[CredentialInfo, ...] = many(CredentialInfo, default=())


@shape
class DescribeUserScramCredentialsResponse:
    api: ClassVar = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    results: tuple[DescribeUserScramCredentialsResult, ...] = many(
        DescribeUserScramCredentialsResult, default=()
    )
