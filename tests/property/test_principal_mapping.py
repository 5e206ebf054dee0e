"""SslPrincipalMapper rules, for any text."""

import re

from hypothesis import given
from hypothesis import strategies as st

from headwater.common.exceptions import InvalidSetting, ProtocolError
from headwater.security.authentication.distinguished_name import subject_of
from headwater.security.authentication.ssl_principal_mapper import Rule, mapped, parse_rules

SIDES = st.text(alphabet="ab,=$/\\ \n1", max_size=8)


def escaped(side: str) -> str:
    return side.replace("\\", "\\\\").replace("/", "\\/").replace("$", "\\$")


@given(st.text(alphabet="RULE:DFAT/$1(.*)\\, LU", max_size=40))
def test_arbitrary_text_is_parsed_as_rules_or_rejected(text: str) -> None:
    try:
        rules = parse_rules(text)
    except InvalidSetting:
        return
    assert all(isinstance(rule, Rule) for rule in rules)


@given(st.lists(st.tuples(SIDES, SIDES, st.sampled_from(["", "L", "U"])), min_size=1, max_size=4))
def test_rule_for_one_name_gives_its_replacement(sides: list[tuple[str, str, str]]) -> None:
    """Whatever the name contains, commas or slashes."""
    texts = [
        f"RULE:{re.escape(name).replace('/', chr(92) + '/')}/{escaped(new)}/{flag}"
        for name, new, flag in sides
    ]
    rules = parse_rules(" , ".join(texts))
    assert len(rules) == len(sides)
    name, new, flag = sides[0]
    expected = {"": new, "L": new.lower(), "U": new.upper()}[flag]
    assert mapped(rules, name) == expected


@given(st.binary(max_size=200))
def test_arbitrary_bytes_have_a_name_or_are_rejected(certificate: bytes) -> None:
    try:
        assert isinstance(subject_of(certificate), str)
    except ProtocolError:
        return
