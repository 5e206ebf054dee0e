"""Finalized feature levels."""

import pytest

from headwater.common.api_error import NO_ERROR
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.controller.feature_control import update_features
from headwater.metadata.changes import BrokerRegistered, FeatureFinalized
from headwater.metadata.cluster_image import BrokerRegistration, ClusterImage, SupportedFeature
from headwater.metadata.features import (
    GROUP_VERSION,
    TRANSACTION_VERSION,
    level_of,
    of_new_cluster,
)
from headwater.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from tests.simulation.labs.cluster_lab import after, lone_broker

UNSAFE_DOWNGRADE = 3
NEW = after(lone_broker(), *of_new_cluster())


def key(feature: str, level: int, kind: int = UPGRADE) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)


def test_a_feature_that_is_not_finalized_is_at_level_0() -> None:
    """As in Kafka, an operator raises features after an upgrade."""
    assert level_of(lone_broker(), TRANSACTION_VERSION) == 0
    assert level_of(NEW, TRANSACTION_VERSION) == 2
    assert level_of(NEW, GROUP_VERSION) == 1


@pytest.mark.parametrize("kind", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_a_feature_is_lowered_only_by_a_downgrade(kind: int) -> None:
    request = UpdateFeaturesRequest(feature_updates=(key(TRANSACTION_VERSION, 0, kind),))
    decision = update_features(NEW, request)
    assert decision.answer == NO_ERROR
    assert decision.changes == [FeatureFinalized(TRANSACTION_VERSION, 0)]
    assert level_of(after(NEW, *decision.changes), TRANSACTION_VERSION) == 0


@pytest.mark.parametrize(
    ("update", "why"),
    [
        (key("share.version", 1), "not supported"),
        (key(GROUP_VERSION, 2), "supports levels 0 to 1"),
        (key(GROUP_VERSION, -1, SAFE_DOWNGRADE), "supports levels 0 to 1"),
        (key(TRANSACTION_VERSION, 1), "an upgrade cannot lower"),
        (key(TRANSACTION_VERSION, 2, 9), "unknown upgrade type 9"),
    ],
)
def test_one_invalid_update_rejects_the_whole_request(update: FeatureUpdateKey, why: str) -> None:
    good = key(GROUP_VERSION, 0, SAFE_DOWNGRADE)
    decision = update_features(NEW, UpdateFeaturesRequest(feature_updates=(good, update)))
    assert decision.answer.code is ErrorCode.INVALID_UPDATE_VERSION
    assert why in (decision.answer.reason or "")
    assert not decision.changes


def test_a_downgrade_cannot_raise_a_level() -> None:
    update = key(TRANSACTION_VERSION, 2, SAFE_DOWNGRADE)
    decision = update_features(lone_broker(), UpdateFeaturesRequest(feature_updates=(update,)))
    assert decision.answer.code is ErrorCode.INVALID_UPDATE_VERSION


def test_validate_only_changes_nothing() -> None:
    request = UpdateFeaturesRequest(
        feature_updates=(key(GROUP_VERSION, 0, SAFE_DOWNGRADE),), validate_only=True
    )
    decision = update_features(NEW, request)
    assert decision.answer == NO_ERROR
    assert not decision.changes


def node(number: int, *features: SupportedFeature) -> BrokerRegistered:
    broker = BrokerRegistration(
        node_id=NodeId(number), epoch=1, is_fenced=number == 2, features=features
    )
    return BrokerRegistered(broker)


def test_every_node_of_a_kraft_cluster_must_support_the_level() -> None:
    elr = "eligible.leader.replicas.version"
    metadata = SupportedFeature("metadata.version", 7, 27)
    kraft = SupportedFeature("kraft.version", 0, 1)
    image = after(
        ClusterImage(cluster_id="a-cluster"),
        FeatureFinalized("metadata.version", 25),
        node(1, metadata, kraft, SupportedFeature(elr, 0, 1)),
        node(2, metadata, kraft, SupportedFeature(elr, 0, 2)),
    )

    def outcome(name: str, level: int, kind: int = UPGRADE) -> ErrorCode:
        request = UpdateFeaturesRequest(feature_updates=(key(name, level, kind),))
        return update_features(image, request).answer.code

    assert outcome(elr, 1) is ErrorCode.NONE
    # The second broker is fenced, but may come back.
    assert outcome(elr, 2) is ErrorCode.INVALID_UPDATE_VERSION
    assert outcome("metadata.version", 27) is ErrorCode.NONE
    assert outcome("metadata.version", 24, SAFE_DOWNGRADE) is ErrorCode.INVALID_UPDATE_VERSION
    assert outcome("kraft.version", 0, SAFE_DOWNGRADE) is ErrorCode.INVALID_UPDATE_VERSION
    assert outcome(GROUP_VERSION, 1) is ErrorCode.INVALID_UPDATE_VERSION
