"""Serialization of principals in Envelope."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.common.exceptions import ProtocolError
from headwater.common.principal import ANONYMOUS, Principal
from headwater.protocol.principal_serde import read_principal, write_principal

_ANONYMOUS_BYTES = b"\0\0\5User\nANONYMOUS\0\0"


def test_anonymous_is_encoded_as_by_kafkas_default_builder() -> None:
    assert write_principal(ANONYMOUS) == _ANONYMOUS_BYTES


@given(st.text(max_size=200), st.text(max_size=200))
def test_principals_survive_a_round_trip(kind: str, name: str) -> None:
    principal = Principal(kind, name)
    assert read_principal(write_principal(principal)) == principal


@pytest.mark.parametrize("length", range(len(_ANONYMOUS_BYTES)))
def test_truncated_principal_is_rejected(length: int) -> None:
    with pytest.raises(ProtocolError):
        read_principal(_ANONYMOUS_BYTES[:length])


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_decoded_or_rejected(content: bytes) -> None:
    try:
        read_principal(content)
    except ProtocolError:
        return


def test_trailing_bytes_are_rejected() -> None:
    with pytest.raises(ProtocolError):
        read_principal(_ANONYMOUS_BYTES + b"\0")
