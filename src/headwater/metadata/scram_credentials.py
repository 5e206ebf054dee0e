"""Decide AlterUserScramCredentials, answer DescribeUserScramCredentials.

KIP-554. Credentials are configs of users; other configs, such as quotas, stay as they are.

Note: a user is changed as a whole or not at all: one invalid mechanism rejects both.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headwater.common.api_error import ApiError
from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import InvalidSetting
from headwater.metadata.changes import ConfigsReplaced, MetadataChange
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.config_entities import entity_of, user_resource
from headwater.metadata.controller_result import ControllerResult
from headwater.protocol.messages import alter_user_scram_credentials as alter
from headwater.protocol.messages import describe_user_scram_credentials as describe
from headwater.security.authentication.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    read_credential,
)
from headwater.security.quotas.quota_entities import DEFAULT

_NO_NAME: Final = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
_NO_MECHANISM: Final = ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_FEW: Final = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
_MANY: Final = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
_NO_SALT: Final = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Neither salt nor password are there")
_TWICE: Final = ApiError(
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)
_NOT_FOUND: Final = ApiError(
    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
)

Alteration = alter.ScramCredentialDeletion | alter.ScramCredentialUpsertion


def credential(image: ClusterImage, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
    """Return a user's stored credential; None if missing or unreadable."""
    text = image.configs.get(user_resource(user), {}).get(mechanism.mechanism_name)
    if text is None:
        return None
    try:
        return read_credential(text)
    except InvalidSetting:
        return None


def users(image: ClusterImage) -> Iterator[tuple[str, Mapping[ScramMechanism, ScramCredential]]]:
    """Yield all users with credentials."""
    for resource in image.configs:
        entity = entity_of(resource) if resource.resource_type is ResourceType.USER else None
        if entity is None or entity.client_id is not None or entity.user in (None, DEFAULT):
            continue
        assert entity.user is not None
        stored = _stored(image, entity.user)
        if stored:
            yield entity.user, stored


def describe_users(
    image: ClusterImage, requested: Sequence[describe.UserName] | None
) -> tuple[describe.DescribeUserScramCredentialsResult, ...]:
    """Describe credentials without secrets; an empty list of names means all users."""
    if not requested:
        return tuple(_description(user, stored) for user, stored in sorted(users(image)))
    times = Counter(each.name for each in requested)
    return tuple(
        _twice(name) if count > 1 else _description(name, _stored(image, name))
        for name, count in times.items()
    )


def alter_users(
    image: ClusterImage, request: alter.AlterUserScramCredentialsRequest
) -> ControllerResult[tuple[alter.AlterUserScramCredentialsResult, ...]]:
    """Change each user as a whole or not at all."""
    alterations: dict[str, list[Alteration]] = {}
    for each in _wanted(request):
        alterations.setdefault(each.name, []).append(each)
    changes: list[MetadataChange] = []
    results = []
    for name, wanted in alterations.items():
        error = _check(image, name, wanted)
        if error is None:
            changes.append(_changed(image, name, wanted))
            results.append(alter.AlterUserScramCredentialsResult(user=name))
        else:
            results.append(_error_result(name, error))
    return ControllerResult(changes, tuple(results))


def reject_all(
    request: alter.AlterUserScramCredentialsRequest, error: ApiError
) -> tuple[alter.AlterUserScramCredentialsResult, ...]:
    """Return the same error for every user in the request."""
    names = dict.fromkeys(each.name for each in _wanted(request))
    return tuple(_error_result(name, error) for name in names)


def _wanted(request: alter.AlterUserScramCredentialsRequest) -> list[Alteration]:
    return [*request.deletions, *request.upsertions]


def _stored(image: ClusterImage, user: str) -> dict[ScramMechanism, ScramCredential]:
    found = ((each, credential(image, each, user)) for each in ScramMechanism)
    return {mechanism: stored for mechanism, stored in found if stored is not None}


def _description(
    user: str, stored: Mapping[ScramMechanism, ScramCredential]
) -> describe.DescribeUserScramCredentialsResult:
    if not stored:
        return describe.DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
        )
    infos = tuple(
        describe.CredentialInfo(mechanism=mechanism, iterations=each.iterations)
        for mechanism, each in stored.items()
    )
    return describe.DescribeUserScramCredentialsResult(user=user, credential_infos=infos)


def _twice(user: str) -> describe.DescribeUserScramCredentialsResult:
    return describe.DescribeUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.DUPLICATE_RESOURCE,
        error_message="Cannot describe SCRAM credentials for the same user twice "
        f"in a single request: {user}",
    )


def _error_result(user: str, error: ApiError) -> alter.AlterUserScramCredentialsResult:
    return alter.AlterUserScramCredentialsResult(
        user=user, error_code=error.code, error_message=error.reason
    )


def _check(image: ClusterImage, name: str, wanted: Sequence[Alteration]) -> ApiError | None:
    if not name:
        return _NO_NAME
    if max(Counter(each.mechanism for each in wanted).values()) > 1:
        return _TWICE
    return next(filter(None, (_check_one(image, each) for each in wanted)), None)


def _check_one(image: ClusterImage, wanted: Alteration) -> ApiError | None:
    if wanted.mechanism not in list(ScramMechanism):
        return _NO_MECHANISM
    if isinstance(wanted, alter.ScramCredentialDeletion):
        stored = credential(image, ScramMechanism(wanted.mechanism), wanted.name)
        return _NOT_FOUND if stored is None else None
    if wanted.iterations < MIN_ITERATIONS:
        return _FEW
    if wanted.iterations > MAX_ITERATIONS:
        return _MANY
    return None if wanted.salt and wanted.salted_password else _NO_SALT


def _changed(image: ClusterImage, name: str, wanted: Sequence[Alteration]) -> ConfigsReplaced:
    resource = user_resource(name)
    values = dict(image.configs.get(resource, {}))
    for each in wanted:
        mechanism = ScramMechanism(each.mechanism)
        if isinstance(each, alter.ScramCredentialDeletion):
            values.pop(mechanism.mechanism_name, None)
        else:
            stored = credential_of(
                mechanism,
                bytes(each.salted_password),
                salt=bytes(each.salt),
                iterations=each.iterations,
            )
            values[mechanism.mechanism_name] = str(stored)
    return ConfigsReplaced(resource, values)
