"""CreateDelegationToken: create delegation token."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class CreatableRenewers:
    principal_type: str = one("string", default="")
    principal_name: str = one("string", default="")


@protocol_message
class CreateDelegationTokenRequest:
    api: ClassVar = ApiKey.CREATE_DELEGATION_TOKEN

    owner_principal_type: str | None = one("string", default="", since=3, nullable_since=3)
    owner_principal_name: str | None = one("string", default="", since=3, nullable_since=3)
    renewers: tuple[CreatableRenewers, ...] = many(CreatableRenewers, default=())
    max_lifetime_ms: int = one("int64", default=0)


@protocol_message
class CreateDelegationTokenResponse:
    api: ClassVar = ApiKey.CREATE_DELEGATION_TOKEN

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    principal_type: str = one("string", default="")
    principal_name: str = one("string", default="")
    token_requester_principal_type: str = one("string", default="", since=3)
    token_requester_principal_name: str = one("string", default="", since=3)
    issue_timestamp_ms: int = one("int64", default=0)
    expiry_timestamp_ms: int = one("int64", default=0)
    max_timestamp_ms: int = one("int64", default=0)
    token_id: str = one("string", default="")
    hmac: bytes = one("bytes", default=b"")
    throttle_time_ms: int = one("int32", default=0)
