"""DescribeDelegationToken: list delegation tokens."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class DescribeDelegationTokenOwner:
    principal_type: str = one("string", default="")
    principal_name: str = one("string", default="")


@shape
class DescribeDelegationTokenRequest:
    api: ClassVar = ApiKey.DESCRIBE_DELEGATION_TOKEN

    owners: tuple[DescribeDelegationTokenOwner, ...] | None = many(
        DescribeDelegationTokenOwner, default=(), nullable_since=0
    )


@shape
class DescribedDelegationTokenRenewer:
    principal_type: str = one("string", default="")
    principal_name: str = one("string", default="")


@shape
class DescribedDelegationToken:
    principal_type: str = one("string", default="")
    principal_name: str = one("string", default="")
    token_requester_principal_type: str = one("string", default="", since=3)
    token_requester_principal_name: str = one("string", default="", since=3)
    issue_timestamp: int = one("int64", default=0)
    expiry_timestamp: int = one("int64", default=0)
    max_timestamp: int = one("int64", default=0)
    token_id: str = one("string", default="")
    hmac: bytes = one("bytes", default=b"")
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = many(
        DescribedDelegationTokenRenewer, default=()
    )


@shape
class DescribeDelegationTokenResponse:
    api: ClassVar = ApiKey.DESCRIBE_DELEGATION_TOKEN

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    tokens: tuple[DescribedDelegationToken, ...] = many(DescribedDelegationToken, default=())
    throttle_time_ms: int = one("int32", default=0)
