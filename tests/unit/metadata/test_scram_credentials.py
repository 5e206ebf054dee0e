"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554)."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.metadata.changes import ConfigsReplaced, apply
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.config_entities import user_resource
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.scram_credentials import alter_users, credential, describe_users
from headwater.metadata_store.standalone.metadata_change_json import (
    change_from_json,
    change_to_json,
)
from headwater.protocol.messages import alter_user_scram_credentials as alter
from headwater.protocol.messages import describe_user_scram_credentials as describe
from headwater.security.authentication.scram import ScramMechanism, credential_of, salted_password

SHA_256, SHA_512 = ScramMechanism
SALT = b"0123456789abcdef"


def upsert(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, password: str = "secret"
) -> alter.ScramCredentialUpsertion:
    salted = salted_password(SHA_256, password, SALT, 4096)
    return alter.ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def delete(name: str, mechanism: int = SHA_256) -> alter.ScramCredentialDeletion:
    return alter.ScramCredentialDeletion(name=name, mechanism=mechanism)


def altered(
    image: ClusterImage, *wanted: alter.ScramCredentialUpsertion | alter.ScramCredentialDeletion
) -> tuple[ClusterImage, dict[str, tuple[ErrorCode, str | None]]]:
    request = alter.AlterUserScramCredentialsRequest(
        deletions=tuple(e for e in wanted if isinstance(e, alter.ScramCredentialDeletion)),
        upsertions=tuple(e for e in wanted if isinstance(e, alter.ScramCredentialUpsertion)),
    )
    decision: ControllerResult[tuple[alter.AlterUserScramCredentialsResult, ...]]
    decision = alter_users(image, request)
    told = {each.user: (each.error_code, each.error_message) for each in decision.answer}
    # Through the file of a standalone broker.
    changes = [change_from_json(change_to_json(change)) for change in decision.changes]
    return apply(image, changes, image.version), told


EMPTY = ClusterImage(cluster_id="c")
DONE = (ErrorCode.NONE, None)


def described(image: ClusterImage, *names: str) -> dict[str, object]:
    asked = tuple(describe.UserName(name=name) for name in names) or None
    return {
        each.user: each.error_code
        or {info.mechanism: info.iterations for info in each.credential_infos}
        for each in describe_users(image, asked)
    }


def test_a_user_is_created_changed_described_and_deleted() -> None:
    image, told = altered(EMPTY, upsert("alice"), upsert("alice", SHA_512, 8192), upsert("a b/ö"))
    assert told == {"alice": DONE, "a b/ö": DONE}
    both = {SHA_256: 4096, SHA_512: 8192}
    assert described(image) == {"a b/ö": {SHA_256: 4096}, "alice": both}
    assert described(image, "alice") == {"alice": both}
    image, told = altered(image, delete("alice"), upsert("alice", SHA_512, 16384))
    assert told == {"alice": DONE}
    assert described(image, "alice") == {"alice": {SHA_512: 16384}}
    image, told = altered(image, delete("alice", SHA_512))
    assert described(image, "alice") == {"alice": ErrorCode.RESOURCE_NOT_FOUND}
    assert described(image) == {"a b/ö": {SHA_256: 4096}}


def test_the_stored_credential_is_derived_from_the_password() -> None:
    image, _ = altered(EMPTY, upsert("alice", password="secret"))
    salted = salted_password(SHA_256, "secret", SALT, 4096)
    expected = credential_of(SHA_256, salted, salt=SALT, iterations=4096)
    assert credential(image, SHA_256, "alice") == expected
    assert credential(image, SHA_512, "alice") is None
    assert credential(image, SHA_256, "bob") is None


def test_quotas_of_a_user_stay() -> None:
    quotas = {"producer_byte_rate": "1024"}
    resource = user_resource("alice")
    image = apply(EMPTY, [ConfigsReplaced(resource, quotas)], EMPTY.version)
    assert described(image) == {}
    image, _ = altered(image, upsert("alice"))
    assert image.configs[resource]["producer_byte_rate"] == "1024"
    image, _ = altered(image, delete("alice"))
    assert image.configs[resource] == quotas


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (delete(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsert("a", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (delete("a", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsert("a", 1, 4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsert("a", 1, 16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (
            delete("a"),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_invalid_requests_are_rejected_with_kafkas_messages(
    wanted: alter.ScramCredentialUpsertion | alter.ScramCredentialDeletion,
    code: ErrorCode,
    words: str,
) -> None:
    image, told = altered(EMPTY, wanted, upsert("b"))
    assert told == {wanted.name: (code, words), "b": DONE}
    assert described(image) == {"b": {SHA_256: 4096}}


def test_a_request_changes_a_credential_once_and_a_user_as_a_whole() -> None:
    image, _ = altered(EMPTY, upsert("alice"))
    for wanted in (
        (upsert("alice"), upsert("alice")),
        (delete("alice"), upsert("alice")),
        (delete("alice"), delete("alice"), upsert("alice", SHA_512)),
    ):
        same, told = altered(image, *wanted)
        assert told["alice"][0] is ErrorCode.DUPLICATE_RESOURCE
        assert same == image
    same, told = altered(image, upsert("alice", SHA_512), delete("alice", 9))
    assert told["alice"][0] is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert same == image


def test_describing_a_user_twice_is_rejected() -> None:
    image, _ = altered(EMPTY, upsert("alice"))
    found = described(image, "alice", "bob", "alice")
    assert found == {
        "alice": ErrorCode.DUPLICATE_RESOURCE,
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
    }


def test_an_unreadable_credential_authenticates_no_user() -> None:
    broken = ConfigsReplaced(user_resource("alice"), {"SCRAM-SHA-256": "salt=?"})
    image = apply(EMPTY, [broken], EMPTY.version)
    assert credential(image, SHA_256, "alice") is None
    assert described(image) == {}
