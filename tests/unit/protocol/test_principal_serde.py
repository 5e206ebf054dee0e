"""Principals as bytes, as brokers put them into envelopes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.common.exceptions import ProtocolError
from headwater.common.principal import ANONYMOUS, Principal
from headwater.protocol.principal_serde import read_principal, write_principal

_ANONYMOUS_BYTES = b"\0\0\5User\nANONYMOUS\0\0"


def test_nobody_is_written_as_kafkas_default_builder_writes_it() -> None:
    assert write_principal(ANONYMOUS) == _ANONYMOUS_BYTES


@given(st.text(max_size=200), st.text(max_size=200))
def test_every_principal_comes_back(kind: str, name: str) -> None:
    principal = Principal(kind, name)
    assert read_principal(write_principal(principal)) == principal


@pytest.mark.parametrize("length", range(len(_ANONYMOUS_BYTES)))
def test_a_principal_that_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        read_principal(_ANONYMOUS_BYTES[:length])


@given(st.binary(max_size=40))
def test_no_bytes_do_anything_but_be_read_or_refused(content: bytes) -> None:
    try:
        read_principal(content)
    except ProtocolError:
        return


def test_what_stands_behind_a_principal_is_refused() -> None:
    with pytest.raises(ProtocolError):
        read_principal(_ANONYMOUS_BYTES + b"\0")
