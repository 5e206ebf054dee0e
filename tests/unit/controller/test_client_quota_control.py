"""AlterClientQuotas and DescribeClientQuotas (KIP-546)."""

import pytest

from headwater.common.api_error import ApiError
from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.controller.client_quota_control import alter_client_quotas, describe_client_quotas
from headwater.metadata.changes import ConfigsReplaced
from headwater.metadata.cluster_image import ClusterImage, ConfigResource
from headwater.metadata.config_entities import resource_of, user_resource
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.quota_configs import quotas_in
from headwater.metadata_store.standalone.metadata_change_json import (
    change_from_json,
    change_to_json,
)
from headwater.protocol.messages import alter_client_quotas as alter
from headwater.protocol.messages import describe_client_quotas as describe
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity
from tests.simulation.labs.cluster_lab import after, lone_broker

EXACT, ANY_DEFAULT, ANY = 0, 1, 2

Entity = dict[str, str | None]
Ops = dict[str, float | None]


def entry(entity: Entity, ops: Ops) -> alter.EntryData:
    return alter.EntryData(
        entity=tuple(
            alter.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ),
        ops=tuple(
            alter.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in ops.items()
        ),
    )


def quota_change(
    image: ClusterImage, *entries: alter.EntryData, validate_only: bool = False
) -> ControllerResult[tuple[alter.EntryResult, ...]]:
    request = alter.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    return alter_client_quotas(image, request)


def altered(entity: Entity, ops: Ops) -> ConfigsReplaced | tuple[ErrorCode, str | None]:
    """The result of one change in an empty cluster."""
    decision = quota_change(lone_broker(), entry(entity, ops))
    (result,) = decision.answer
    if result.error_code:
        assert decision.changes == []
        return result.error_code, result.error_message
    (change,) = decision.changes
    assert isinstance(change, ConfigsReplaced)
    return change


def test_quotas_are_stored_as_kafka_stores_them() -> None:
    assert altered(
        {"user": "alice b~*", "client-id": None},
        {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
    ) == ConfigsReplaced(
        ConfigResource(ResourceType.USER, "alice%20b%7E%2A/clients/<default>"),
        {"producer_byte_rate": "1024", "request_percentage": "12.5"},
    )
    assert altered({"client-id": "app"}, {"controller_mutation_rate": 3.0}) == ConfigsReplaced(
        ConfigResource(ResourceType.CLIENT, "app"), {"controller_mutation_rate": "3.0"}
    )
    assert altered({"ip": "10.0.0.1"}, {"connection_creation_rate": 7.0}) == ConfigsReplaced(
        ConfigResource(ResourceType.IP, "10.0.0.1"), {"connection_creation_rate": "7"}
    )


@pytest.mark.parametrize(
    ("entity", "ops", "word"),
    [
        ({}, {"producer_byte_rate": 1.0}, "an entity needs"),
        ({"group": "g"}, {"producer_byte_rate": 1.0}, "'group'"),
        ({"user": ""}, {"producer_byte_rate": 1.0}, "empty"),
        ({"ip": "10.0.0.1", "user": "a"}, {"connection_creation_rate": 1.0}, "combined"),
        ({"ip": "no-address"}, {"connection_creation_rate": 1.0}, "address"),
        ({"ip": "10.0.0.1"}, {"producer_byte_rate": 1.0}, "producer_byte_rate"),
        ({"user": "a"}, {"connection_creation_rate": 1.0}, "connection_creation_rate"),
        ({"user": "a"}, {"SCRAM-SHA-256": 1.0}, "SCRAM"),
        ({"user": "a"}, {"producer_byte_rate": 0.0}, "greater"),
        ({"user": "a"}, {"producer_byte_rate": -1.0}, "greater"),
        ({"user": "a"}, {"producer_byte_rate": 1.5}, "whole"),
        ({"user": "a"}, {"producer_byte_rate": 1e30}, "large"),
        ({"user": "a"}, {"request_percentage": float("nan")}, "greater"),
        ({"user": "a"}, {"request_percentage": float("inf")}, "greater"),
    ],
)
def test_an_invalid_entity_or_quota_is_rejected_with_a_reason(
    entity: Entity, ops: Ops, word: str
) -> None:
    outcome = altered(entity, ops)
    assert isinstance(outcome, tuple)
    assert outcome[0] is ErrorCode.INVALID_REQUEST
    assert word in (outcome[1] or "")


def test_credentials_of_a_user_are_neither_changed_nor_described_nor_removed() -> None:
    alice = user_resource("alice")
    secret = {"SCRAM-SHA-256": "salt=...", "consumer_byte_rate": "5"}
    image = after(lone_broker(), ConfigsReplaced(alice, secret))
    ops: Ops = {"producer_byte_rate": 9.0, "consumer_byte_rate": None, "SCRAM-SHA-256": None}
    decision = quota_change(image, entry({"user": "alice"}, ops))
    kept = {"SCRAM-SHA-256": "salt=...", "producer_byte_rate": "9"}
    assert decision.changes == [ConfigsReplaced(alice, kept)]
    image = after(image, *decision.changes)
    assert list(quotas_in(image)) == [(QuotaEntity(user="alice"), {"producer_byte_rate": 9.0})]


def test_each_entity_has_its_own_result_and_a_duplicate_is_not_changed() -> None:
    decision = quota_change(
        lone_broker(),
        entry({"user": "good"}, {"producer_byte_rate": 1.0}),
        entry({"user": "twice", "client-id": "a"}, {"producer_byte_rate": 1.0}),
        entry({"user": "bad"}, {"producer_byte_rate": 1.0, "nonsense": 1.0}),
        entry({"client-id": "a", "user": "twice"}, {"producer_byte_rate": 2.0}),
    )
    codes = [each.error_code for each in decision.answer]
    invalid = ErrorCode.INVALID_REQUEST
    assert codes == [ErrorCode.NONE, invalid, invalid, invalid]
    assert decision.changes == [ConfigsReplaced(user_resource("good"), {"producer_byte_rate": "1"})]
    assert decision.answer[0].entity == (alter.EntityData(entity_type="user", entity_name="good"),)


def test_validate_only_changes_nothing() -> None:
    entries = (entry({"user": "a"}, {"producer_byte_rate": 1.0}), entry({}, {}))
    decision = quota_change(lone_broker(), *entries, validate_only=True)
    assert decision.changes == ()
    assert [each.error_code for each in decision.answer] == [0, ErrorCode.INVALID_REQUEST]


def test_a_quota_survives_the_file_of_a_standalone_broker() -> None:
    change = ConfigsReplaced(resource_of(QuotaEntity(user=DEFAULT, client_id="ü")), {"a": "1"})
    assert change_from_json(change_to_json(change)) == change


# DescribeClientQuotas.


def quota_image() -> ClusterImage:
    entities = [
        QuotaEntity(user="alice"),
        QuotaEntity(user=DEFAULT),
        QuotaEntity(user="alice", client_id="app"),
        QuotaEntity(user="alice", client_id=DEFAULT),
        QuotaEntity(client_id="app"),
        QuotaEntity(client_id=DEFAULT),
    ]
    changes = [ConfigsReplaced(resource_of(each), {"producer_byte_rate": "1"}) for each in entities]
    rate = {"connection_creation_rate": "2"}
    changes += [
        ConfigsReplaced(resource_of(QuotaEntity(ip="10.0.0.1")), rate),
        ConfigsReplaced(user_resource("scrammed"), {"SCRAM-SHA-256": "..."}),
        ConfigsReplaced(user_resource("broken"), {"producer_byte_rate": "many"}),
    ]
    return after(lone_broker(), *changes)


def described(
    components: list[tuple[str, int, str | None]], *, strict: bool = False
) -> list[Entity] | ErrorCode:
    request = describe.DescribeClientQuotasRequest(
        components=tuple(
            describe.ComponentData(entity_type=kind, match_type=how, match=match)
            for kind, how, match in components
        ),
        strict=strict,
    )
    found = describe_client_quotas(quota_image(), request)
    if isinstance(found, ApiError):
        return found.code
    return [{part.entity_type: part.entity_name for part in each.entity} for each in found]


def test_a_filter_matches_entities_with_its_components_and_a_strict_one_no_others() -> None:
    alice, app = {"user": "alice"}, {"client-id": "app"}
    both, any_client = {**alice, **app}, {**alice, "client-id": None}
    assert described([("user", EXACT, "alice")]) == [alice, any_client, both]
    assert described([("user", EXACT, "alice")], strict=True) == [alice]
    assert described([("user", ANY_DEFAULT, None)]) == [{"user": None}]
    assert described([("user", ANY, None)], strict=True) == [{"user": None}, alice]
    assert described([("client-id", EXACT, "app")]) == [app, both]
    assert described([("client-id", ANY, None), ("user", ANY, None)]) == [any_client, both]
    assert described([("ip", ANY, None)]) == [{"ip": "10.0.0.1"}]
    assert described([("ip", ANY_DEFAULT, None)]) == []
    assert described([("user", EXACT, "")]) == []
    assert described([("user", EXACT, "scrammed")]) == []


def test_an_empty_filter_matches_all_and_a_strict_empty_one_nothing() -> None:
    everything = described([])
    assert isinstance(everything, list)
    assert len(everything) == 7
    assert described([], strict=True) == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", ANY, None), ("user", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY_DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_filter_is_rejected(
    components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    assert described(components) is code
