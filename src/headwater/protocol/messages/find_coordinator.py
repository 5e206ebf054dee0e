"""FindCoordinator: the broker of a group (type 0) or transactional id (type 1)."""

from typing import ClassVar, Self

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.older_versions import the_only
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class FindCoordinatorRequestUpToV3:
    key: str = one("string", default="")
    key_type: int = one("int8", default=0, since=1)

    def lift(self) -> "FindCoordinatorRequest":
        return FindCoordinatorRequest(key_type=self.key_type, coordinator_keys=(self.key,))

    @classmethod
    def lower(cls, message: "FindCoordinatorRequest") -> Self:
        return cls(key=the_only(message.coordinator_keys), key_type=message.key_type)


@protocol_message
class FindCoordinatorRequest:
    api: ClassVar = ApiKey.FIND_COORDINATOR
    older: ClassVar = {3: FindCoordinatorRequestUpToV3}

    key_type: int = one("int8", default=0)
    coordinator_keys: tuple[str, ...] = many("string", default=())


@protocol_message
class FindCoordinatorResponseUpToV3:
    throttle_time_ms: int = one("int32", default=0, since=1, ignorable=True)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one(
        "string", default=None, since=1, nullable_since=1, ignorable=True
    )
    node_id: int = one("int32", default=0)
    host: str = one("string", default="")
    port: int = one("int32", default=0)

    def lift(self) -> "FindCoordinatorResponse":
        """The key is not in the response; the caller knows it."""
        found = Coordinator(
            node_id=self.node_id,
            host=self.host,
            port=self.port,
            error_code=self.error_code,
            error_message=self.error_message,
        )
        return FindCoordinatorResponse(
            throttle_time_ms=self.throttle_time_ms, coordinators=(found,)
        )

    @classmethod
    def lower(cls, message: "FindCoordinatorResponse") -> Self:
        found = the_only(message.coordinators)
        return cls(
            throttle_time_ms=message.throttle_time_ms,
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )


@protocol_message
class Coordinator:
    key: str = one("string", default="")
    node_id: int = one("int32", default=0)
    host: str = one("string", default="")
    port: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)


@protocol_message
class FindCoordinatorResponse:
    api: ClassVar = ApiKey.FIND_COORDINATOR
    older: ClassVar = {3: FindCoordinatorResponseUpToV3}

    throttle_time_ms: int = one("int32", default=0)
    coordinators: tuple[Coordinator, ...] = many(Coordinator, default=())
