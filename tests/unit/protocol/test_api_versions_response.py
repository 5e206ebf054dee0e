"""ApiVersions responses."""

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_versions_response import Feature, api_versions_responses
from headwater.protocol.codec import read
from headwater.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

GROUPS = Feature(name="group.version", lowest=0, highest=1, finalized=1)
TRANSACTIONS = Feature(name="transaction.version", lowest=1, highest=2, finalized=2)
OFF = Feature(name="share.version", lowest=0, highest=1, finalized=0)
SERVED = [ApiKey.API_VERSIONS, ApiKey.OFFSET_COMMIT, ApiKey.PRODUCE]


def answer(version: int, *, unstable: bool = False) -> ApiVersionsResponse:
    answers = api_versions_responses(
        SERVED, [GROUPS, TRANSACTIONS, OFF], unstable=unstable, finalized_epoch=9
    )
    encoded = answers.answer(version)
    return read(ApiVersionsResponse, encoded.version, memoryview(encoded.body))


def ranges(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


def test_only_served_apis_are_announced_and_unstable_versions_on_request() -> None:
    assert ranges(answer(4)) == {0: (0, 13), 8: (2, 9), 18: (0, 4)}
    assert ranges(answer(4, unstable=True)) == {0: (0, 13), 8: (2, 10), 18: (0, 4)}


def test_features_are_announced_since_version_3() -> None:
    assert answer(2).finalized_features == ()
    newest = answer(4)
    assert newest.finalized_features_epoch == 9
    assert newest.finalized_features == (
        FinalizedFeatureKey(name="group.version", max_version_level=1, min_version_level=1),
        FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2),
    )
    assert [each.name for each in newest.supported_features] == [
        "group.version",
        "transaction.version",
        "share.version",
    ]


def test_version_3_hides_features_whose_levels_start_at_zero() -> None:
    """As in Kafka (KAFKA-17011): older clients cannot read them."""
    assert answer(3).supported_features == (
        SupportedFeatureKey(name="transaction.version", min_version=1, max_version=2),
    )
    assert len(answer(3).finalized_features) == 2


def test_unknown_version_is_answered_in_version_0_with_an_error() -> None:
    answers = api_versions_responses(SERVED)
    assert answers.answer(5).version == 0
    assert answer(5) == ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(ApiVersion(api_key=18, min_version=0, max_version=4),),
    )
