"""Encode and decode messages of every API.

Versions end here: `read` returns the one class that handlers use, `write` encodes it in the
requested version. Modules and codecs are created when first used, one version at a time. The
records of Produce and Fetch are never copied: a decoded message has views of the frame, and an
encoded one is a list of parts (see `send_parts`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Generic, TypeVar, cast

from headwater.common.exceptions import ProtocolError
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.older_versions import Message, OlderMessage, older_class
from headwater.protocol.send_parts import Part
from headwater.protocol.versioned_codec import UNLIMITED, VersionedCodec, codec_for

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Encoded response, cached for one version."""

    api: ApiKey
    version: int
    body: bytes


@dataclass(frozen=True, slots=True)
class _Translation(Generic[M]):
    """Reader and writer of one version of a message."""

    read: Callable[[memoryview, int], M]
    write: Callable[[M], list[Part]]


def read(cls: type[M], version: int, body: memoryview, elements_max: int = UNLIMITED) -> M:
    """Decode a message; ProtocolError if the bytes are not exactly one such message."""
    translation: _Translation[M] = _translation(cls, version)
    return translation.read(body, elements_max)


def write(message: M, version: int) -> list[Part]:
    """Encode a message's body in parts; may raise UnsupportedInVersion."""
    translation: _Translation[M] = _translation(type(message), version)
    return translation.write(message)


def read_request(
    api_key: int, version: int, body: memoryview, elements_max: int = UNLIMITED
) -> Message:
    """Decode a request; ProtocolError above `elements_max` array elements."""
    return read(request_class(api_key), version, body, elements_max)


def write_response(response: Message | Encoded, version: int) -> list[Part]:
    """Encode a response's body in parts, ready to send."""
    if isinstance(response, Encoded):
        # An ApiVersions request in an unknown version is answered in version 0.
        assert response.version == version or response.api is ApiKey.API_VERSIONS
        return [response.body]
    return write(response, version)


def encode(response: Message, version: int) -> Encoded:
    """Encode a response once, to send it many times."""
    (body,) = write(response, version)
    assert isinstance(body, bytearray), "a response with records cannot be cached"
    return Encoded(api=response.api, version=version, body=bytes(body))


@cache
def request_class(api_key: int) -> type[Message]:
    """Return the class of an API's requests. Loads its module."""
    return _message_class(api_key, "Request")


@cache
def response_class(api_key: int) -> type[Message]:
    return _message_class(api_key, "Response")


def _message_class(api_key: int, ending: str) -> type[Message]:
    api = APIS.get(api_key)
    if api is None:
        raise ProtocolError(f"there is no API {api_key}")
    module = import_module(f"headwater.protocol.messages.{api.key.name.lower()}")
    return cast("type[Message]", getattr(module, api.name + ending))


@cache
def _translation(cls: type[M], version: int) -> _Translation[M]:
    api = APIS[cls.api]
    if not api.oldest <= version <= api.newest:
        raise ProtocolError(f"{api.name} has no version {version}")
    flexible = api.is_flexible(version)
    older = older_class(cls, version)
    if older is None:
        layout = codec_for(cls, version, flexible=flexible)
        return _Translation(layout.read, layout.write)
    return _older_translation(older, codec_for(older, version, flexible=flexible))


def _older_translation(
    older: type[OlderMessage[M]], layout: VersionedCodec[OlderMessage[M]]
) -> _Translation[M]:
    def read_older(body: memoryview, elements_max: int) -> M:
        return layout.read(body, elements_max).lift()

    def write_older(message: M) -> list[Part]:
        return layout.write(older.lower(message))

    return _Translation(read_older, write_older)
