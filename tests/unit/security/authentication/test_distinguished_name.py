"""Subjects of certificates as Java spells them. The expected texts were written by Java 17."""

import pytest
from cryptography.x509 import NameAttribute, RelativeDistinguishedName
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier

from headwater.common.exceptions import ProtocolError
from headwater.security.authentication.distinguished_name import subject_of
from tests.certificates import certificate_for


def part(*names: tuple[ObjectIdentifier, str]) -> RelativeDistinguishedName:
    return RelativeDistinguishedName([NameAttribute(kind, value) for kind, value in names])


@pytest.mark.parametrize(
    ("parts", "spelled"),
    [
        (
            [
                part((NameOID.COUNTRY_NAME, "DE")),
                part((NameOID.STATE_OR_PROVINCE_NAME, "Berlin")),
                part((NameOID.LOCALITY_NAME, "Berlin")),
                part((NameOID.ORGANIZATION_NAME, "Tea, Shop")),
                part((NameOID.ORGANIZATIONAL_UNIT_NAME, 'a+b=c <d>;#"e"\\f')),
                part((NameOID.COMMON_NAME, " alice# ")),
            ],
            r"CN=\ alice\#\ ,OU=a\+b\=c \<d\>\;\#\"e\"\\f,O=Tea\, Shop,L=Berlin,ST=Berlin,C=DE",
        ),
        (
            [
                part((NameOID.EMAIL_ADDRESS, "a@b.de")),
                part((NameOID.COMMON_NAME, "bob"), (NameOID.USER_ID, "b7")),
                part((NameOID.DOMAIN_COMPONENT, "example")),
                part((NameOID.STREET_ADDRESS, "Wall 1")),
                part((NameOID.SERIAL_NUMBER, "42")),
                part((NameOID.TITLE, "Dr")),
            ],
            "2.5.4.12=#0c024472,2.5.4.5=#13023432,STREET=Wall 1,DC=example,CN=bob+UID=b7,"
            "1.2.840.113549.1.9.1=#16066140622e6465",
        ),
        (
            [
                part((NameOID.COMMON_NAME, "Gr\u00fc\u00dfe \u65e5\u672c")),
                part((NameOID.SURNAME, "\u00d6mer")),
            ],
            "2.5.4.4=#0c05c3966d6572,CN=Gr\u00fc\u00dfe \u65e5\u672c",
        ),
        ([part((NameOID.COMMON_NAME, "n\0l  mid   "))], "CN=n\\00l  mid\\ \\ \\ "),
    ],
)
def test_subject_is_spelled_as_in_java(
    parts: list[RelativeDistinguishedName], spelled: str
) -> None:
    assert subject_of(certificate_for(parts)) == spelled


def test_utf_16_strings_are_decoded_as_utf_8_as_in_java() -> None:
    odd = NameAttribute(NameOID.ORGANIZATION_NAME, "x", _type=_ASN1Type.BMPString)
    assert subject_of(certificate_for([RelativeDistinguishedName([odd])])) == "O=\\00x"


def test_truncated_certificate_is_rejected_or_has_a_subject() -> None:
    whole = certificate_for([part((NameOID.COMMON_NAME, "alice"))])
    for length in range(len(whole)):
        with pytest.raises(ProtocolError):
            subject_of(whole[:length])
