"""Describe and alter client quotas."""

from collections.abc import Iterable, Mapping
from typing import Final

from headwater.client.admin.admin_calls import Calls, error_of, outcome, results_of
from headwater.client.errors import KafkaError
from headwater.protocol.messages import alter_client_quotas as alter
from headwater.protocol.messages import describe_client_quotas as describe
from headwater.security.quotas.quota_entities import DEFAULT, EntityType, QuotaEntity

QUOTA_DEFAULT: Final = DEFAULT
"""Entity name of the default quota, for entities without a quota of their own."""

QUOTA_ANY: Final = "\0"
"""Entity name in a filter: any name and the default."""

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


class QuotaCalls(Calls):
    """The quota methods of the admin client."""

    async def describe_client_quotas(
        self,
        wanted: QuotaEntity | None = None,
        *,
        strict: bool = False,
        timeout: float | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """All quotas, or those of entities with the parts named in `wanted`.

        A part is a name, `QUOTA_DEFAULT` or `QUOTA_ANY`. With `strict` an entity must have no
        other parts.
        """
        parts = {} if wanted is None else wanted.parts
        request = describe.DescribeClientQuotasRequest(
            components=tuple(_component(kind, name) for kind, name in parts.items()),
            strict=strict,
        )
        deadline_ms = self._deadline_ms(timeout)
        response = await self._call_any(request, describe.DescribeClientQuotasResponse, deadline_ms)
        if response.error_code:
            raise error_of(response.error_code, response.error_message, "quotas")
        return {
            _entity((each.entity_type, each.entity_name) for each in entry.entity): {
                each.key: each.value for each in entry.values
            }
            for entry in response.entries or ()
        }

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set quotas; None removes a quota."""
        request = alter.AlterClientQuotasRequest(
            entries=tuple(_entry(entity, quotas) for entity, quotas in changes.items()),
            validate_only=validate_only,
        )
        response = await self._call_controller(
            request,
            alter.AlterClientQuotasResponse,
            self._deadline_ms(timeout),
            lambda answer: [each.error_code for each in answer.entries],
        )
        outcomes: dict[QuotaEntity, KafkaError | None] = {}
        for result in response.entries:
            entity = _entity((each.entity_type, each.entity_name) for each in result.entity)
            outcomes[entity] = outcome(
                result.error_code, result.error_message, _words(entity), None
            )
        results_of(outcomes, requested=changes)


def _component(kind: EntityType, name: str) -> describe.ComponentData:
    if name == QUOTA_ANY:
        return describe.ComponentData(entity_type=kind, match_type=_ANY, match=None)
    if name == DEFAULT:
        return describe.ComponentData(entity_type=kind, match_type=_DEFAULT, match=None)
    return describe.ComponentData(entity_type=kind, match_type=_EXACT, match=name)


def _entry(entity: QuotaEntity, quotas: Mapping[str, float | None]) -> alter.EntryData:
    return alter.EntryData(
        entity=tuple(
            alter.EntityData(entity_type=kind, entity_name=None if name == DEFAULT else name)
            for kind, name in entity.parts.items()
        ),
        ops=tuple(
            alter.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in quotas.items()
        ),
    )


def _entity(components: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Build an entity; unknown entity types are left out."""
    parts = dict(components)
    values = [(parts[kind] or DEFAULT) if kind in parts else None for kind in EntityType]
    return QuotaEntity(*values)


def _words(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {name or 'default'}" for kind, name in entity.parts.items())
