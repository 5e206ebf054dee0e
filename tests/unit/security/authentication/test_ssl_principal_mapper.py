"""Rules that map certificate subjects to principals."""

import pytest

from headwater.common.exceptions import InvalidSetting, TlsHandshakeFailed
from headwater.security.authentication.ssl_principal_mapper import mapped, parse_rules

RULES = ", ".join(
    [
        r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("CN=Ann,OU=ServiceUsers,O=Shop,C=DE", "ann"),
        ("CN=Ann,OU=Till,O=Shop,L=Ulm,ST=BW,C=DE", "ann@till"),
        ("cn=ann,ou=till,dc=shop,dc=example", "ANN@TILL"),
        ("cN=ann,OU=Till,O=Tea Shop", "ANN"),
        ("OU=Till,O=Tea Shop,C=DE", "OU=Till,O=Tea Shop,C=DE"),
    ],
)
def test_first_rule_that_matches_the_whole_name_applies(name: str, principal: str) -> None:
    assert mapped(parse_rules(RULES), name) == principal


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tea\, Ann,OU=X", r"Tea\, Ann"),
        (r"RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/", "CN=bob,O=x", "bob"),
        ("RULE:a\\/b/x\\/y/", "a/b", "x/y"),
        # With one group, $12 is group 1 followed by a literal 2.
        ("RULE:(a)b/$1@$4/", "ab", "a@$4"),
        ("RULE:(a)b/$12/", "ab", "a2"),
        ("RULE:ab/[$0]/", "ab", "[ab]"),
        # The pattern matches the name, and then the empty rest.
        ("RULE:(.*)/<$1>/", "ab", "<ab><>"),
        (",, RULE:   /     / ,  DEFAULT ,", "   ", "     "),
        # In Java, \w matches ASCII only; this is a Cyrillic a.
        (r"RULE:^CN=(\w+)$/$1/, DEFAULT", "CN=\N{CYRILLIC SMALL LETTER A}nn", "CN=\u0430nn"),
    ],
)
def test_unusual_rules_behave_as_in_kafka(rules: str, name: str, principal: str) -> None:
    assert mapped(parse_rules(rules), name) == principal


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?)$/$1/",
        "RULE:^CN=(.*?)$/$1/L/U",
        "RULE:^CN=(.*?)$/L",
        "RULE:^CN=(.*?)$/LU",
        "RULE:^CN=(.*?$/$1/",
        "RULE:a/b/X",
    ],
)
def test_malformed_rule_is_rejected(rules: str) -> None:
    with pytest.raises(InvalidSetting, match="mapping"):
        parse_rules(rules)


def test_name_without_a_matching_rule_is_rejected() -> None:
    with pytest.raises(TlsHandshakeFailed, match="no rule"):
        mapped(parse_rules("RULE:CN=a/a/"), "CN=b")
    assert parse_rules(" , ,") == ()
