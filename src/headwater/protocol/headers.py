"""RequestHeader and ResponseHeader.

    request    int16 api_key, int16 api_version, int32 correlation_id,
               int16-string client_id (never compact), tagged fields if the version is flexible
    response   int32 correlation_id, tagged fields if the version is flexible

The ApiVersions response never has tagged fields in its header, even in flexible versions, because
the client does not know the broker's versions yet. The request header without a client id was that
of ControlledShutdown version 0, which is no longer in use.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from headwater.common.exceptions import ProtocolError
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS, Api
from headwater.protocol.primitives import skip_tagged_fields, write_string
from headwater.protocol.send_parts import Part, part_bytes

SIZE_BYTES: Final = 4
"""Size field of a frame, without itself."""

_REQUEST: Final = Struct(">hhih")
_REQUEST_WITHOUT_CLIENT_ID: Final = Struct(">hhi")
_CORRELATION_ID: Final = Struct(">i")
_SIZE_AND_CORRELATION_ID: Final = Struct(">ii")
_read_request = _REQUEST.unpack_from
_new_tuple = tuple.__new__


class RequestHeader(NamedTuple):
    """Request header, and the position of the body in the frame."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    body_position: int


def read_request_header(frame: memoryview) -> RequestHeader:
    """Parse a header; ProtocolError for malformed bytes, an unknown API or version.

    An unknown newer version of ApiVersions is accepted: it gets a response (see
    `api_versions_response`).
    """
    try:
        key, version, correlation_id, length = _read_request(frame)
        api = APIS[key]
        # Kafka treats a null client id (length -1) as an empty one.
        position = _REQUEST.size + length if length > 0 else _REQUEST.size
        if position > len(frame):
            raise ProtocolError(f"a client id of {length} bytes overruns the request")
        client_id = str(frame[_REQUEST.size : position], "utf-8", "replace")
        if version >= api.flexible_since:
            position = skip_tagged_fields(frame, position)
    except KeyError:
        raise ProtocolError(f"there is no API {key}") from None
    except (IndexError, struct_error) as error:
        raise ProtocolError("the request ends within its header") from error
    if not api.oldest <= version <= api.newest and key != ApiKey.API_VERSIONS:
        raise ProtocolError(f"{api.name} has no version {version}")
    # The NamedTuple's own constructor costs three times as much, for every request.
    return _new_tuple(RequestHeader, (api, version, correlation_id, client_id, position))


def response_frame(api: Api, version: int, correlation_id: int, body: Sequence[Part]) -> list[Part]:
    """Return a response frame: size, header, body."""
    tagged = version >= api.flexible_since and api.key is not ApiKey.API_VERSIONS
    size = _CORRELATION_ID.size + tagged
    for part in body:
        size += part_bytes(part)
    head = _SIZE_AND_CORRELATION_ID.pack(size, correlation_id)
    return [head + b"\0" if tagged else head, *body]


def request_frame(
    api: Api, version: int, correlation_id: int, client_id: str, body: Sequence[Part]
) -> list[Part]:
    """Return a request frame: size, header, body."""
    head = bytearray(SIZE_BYTES)
    head += _REQUEST_WITHOUT_CLIENT_ID.pack(api.key, version, correlation_id)
    write_string(head, client_id)
    if version >= api.flexible_since:
        head.append(0)
    size = len(head) - SIZE_BYTES + sum(part_bytes(part) for part in body)
    head[:SIZE_BYTES] = _CORRELATION_ID.pack(size)
    return [bytes(head), *body]


def read_correlation_id(frame: memoryview) -> int:
    """Return the correlation id of a response; it determines the version."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    except struct_error as error:
        raise ProtocolError("the response ends within its header") from error
    return int(correlation_id)


def response_body_position(api: Api, version: int, frame: memoryview) -> int:
    if version < api.flexible_since or api.key is ApiKey.API_VERSIONS:
        return _CORRELATION_ID.size
    try:
        return skip_tagged_fields(frame, _CORRELATION_ID.size)
    except IndexError as error:
        raise ProtocolError("the response ends within its header") from error
