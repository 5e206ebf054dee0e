"""DescribeDelegationToken: list delegation tokens."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class DescribeDelegationTokenOwner:
    principal_type: str = one("string", default="")
    principal_name: str = one("string", default="")


@protocol_message
class DescribeDelegationTokenRequest:
    api: ClassVar = ApiKey.DESCRIBE_DELEGATION_TOKEN

    owners: tuple[DescribeDelegationTokenOwner, ...] | None = many(
        DescribeDelegationTokenOwner, default=(), nullable_since=0
    )


@protocol_message
class DescribedDelegationTokenRenewer:
    principal_type: str = one("string", default="")
    principal_name: str = one("string", default="")


@protocol_message
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


@protocol_message
class DescribeDelegationTokenResponse:
    api: ClassVar = ApiKey.DESCRIBE_DELEGATION_TOKEN

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    tokens: tuple[DescribedDelegationToken, ...] = many(DescribedDelegationToken, default=())
    throttle_time_ms: int = one("int32", default=0)
