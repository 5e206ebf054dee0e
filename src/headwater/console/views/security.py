"""ACLs, SCRAM users and quotas as rows.

A cluster may have no authorizer, or not allow the console to ask. The page then says why.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from headwater.client.admin.descriptions import Acl
from headwater.client.aio import Admin
from headwater.client.errors import BrokerNotAvailable, KafkaError, KafkaTimeout, NetworkException
from headwater.console.views.paging import Page, page_of
from headwater.security.authorization.acl_bindings import kafka_name
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity

DEFAULT_ENTITY: Final = "<default>"
"""The default of users, client ids or addresses, as kafka-configs shows it."""

T = TypeVar("T")

_UNREACHABLE = (BrokerNotAvailable, KafkaTimeout, NetworkException)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRow:
    """An ACL binding under Kafka's names."""

    principal: str
    permission: str
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AclList:
    """A page of the matching bindings; `problem` if they cannot be listed."""

    acls: Page[AclRow]
    search: str
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismRow:
    """A SCRAM credential of a user."""

    name: str
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    name: str
    mechanisms: tuple[MechanismRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserList:
    """A page of the matching SCRAM users; `problem` if they cannot be listed."""

    users: Page[UserRow]
    search: str
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaValue:
    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """The quotas of an entity. None: the entity does not have that part."""

    user: str | None
    client_id: str | None
    ip: str | None
    quotas: tuple[QuotaValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaList:
    """A page of the matching entities; `problem` if they cannot be listed."""

    entities: Page[QuotaRow]
    search: str
    problem: str | None


async def acl_list(admin: Admin, *, search: str, page: int, size: int) -> AclList:
    found, problem = await listed(admin.describe_acls)
    rows = sorted(
        map(acl_row, found or []),
        key=lambda each: (each.principal, each.resource_type, each.resource_name, each.operation),
    )
    wanted = [each for each in rows if _matches(search, each.principal, each.resource_name)]
    return AclList(acls=page_of(wanted, page=page, size=size), search=search, problem=problem)


async def user_list(admin: Admin, *, search: str, page: int, size: int) -> UserList:
    found, problem = await listed(admin.describe_user_scram_credentials)
    rows = [
        UserRow(
            name=name,
            mechanisms=tuple(
                MechanismRow(name=each, iterations=iterations)
                for each, iterations in sorted(mechanisms.items())
            ),
        )
        for name, mechanisms in sorted((found or {}).items())
        if _matches(search, name)
    ]
    return UserList(users=page_of(rows, page=page, size=size), search=search, problem=problem)


async def quota_list(admin: Admin, *, search: str, page: int, size: int) -> QuotaList:
    found, problem = await listed(admin.describe_client_quotas)
    rows = [
        _quota_row(entity, quotas)
        for entity, quotas in sorted(
            (found or {}).items(), key=lambda each: tuple(map(str, each[0]))
        )
        if _matches(search, *(part for part in entity if part is not None))
    ]
    return QuotaList(entities=page_of(rows, page=page, size=size), search=search, problem=problem)


async def listed(ask: Callable[[], Awaitable[T]]) -> tuple[T | None, str | None]:
    """The answer, or the reason if the cluster refuses."""
    try:
        return await ask(), None
    except _UNREACHABLE:
        raise
    except KafkaError as error:
        return None, str(error)


def acl_row(acl: Acl) -> AclRow:
    return AclRow(
        principal=acl.principal or "",
        permission=kafka_name(acl.permission_type),
        operation=kafka_name(acl.operation),
        resource_type=kafka_name(acl.resource_type),
        resource_name=acl.resource_name or "",
        pattern_type=kafka_name(acl.pattern_type),
        host=acl.host or "",
    )


def _quota_row(entity: QuotaEntity, quotas: dict[str, float]) -> QuotaRow:
    return QuotaRow(
        user=_part(entity.user),
        client_id=_part(entity.client_id),
        ip=_part(entity.ip),
        quotas=tuple(QuotaValue(name=each, value=value) for each, value in sorted(quotas.items())),
    )


def _part(name: str | None) -> str | None:
    return DEFAULT_ENTITY if name == DEFAULT else name


def _matches(search: str, *texts: str) -> bool:
    wanted: Sequence[str] = [each.lower() for each in texts]
    return any(search.lower() in each for each in wanted) or not search
