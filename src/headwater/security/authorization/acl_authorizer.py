"""Authorize requests by ACLs, and log denials.

`AclIndex` finds the bindings that match a resource with a few look-ups: the literal pattern with
its name, the wildcard, and each prefix of the name whose length some pattern has. The cost does not
depend on the number of bindings, not even on one pattern, since its entries are stored by
principal.

`AclAuthorizer` caches results until an ACL changes, because every request asks. `authorize` is for
an operation that a client requested, and logs denials (see `denial_log`); `allows` only asks what
would be authorized, for lists and bit fields, and logs nothing.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from headwater.common.principal import BROKER_PRINCIPAL, Requester
from headwater.security.authorization.acl_bindings import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclEntry,
    PatternType,
    Permission,
    ResourcePattern,
    kafka_name,
)
from headwater.security.authorization.authorizer import Operation, Resource, ResourceKind
from headwater.security.authorization.denial_log import DenialLog

_DESCRIBE: Final = frozenset(
    {
        Operation.ALL,
        Operation.DESCRIBE,
        Operation.READ,
        Operation.WRITE,
        Operation.DELETE,
        Operation.ALTER,
    }
)

_DESCRIBE_CONFIGS: Final = frozenset(
    {Operation.ALL, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
)

_LITERAL: Final = PatternType.LITERAL

_PREFIXED: Final = PatternType.PREFIXED

_ANY_NAME: Final = "hardcode"
"""Kafka 4.1 asks about this resource to find out whether all resources of a type are allowed."""

EntriesByPrincipal = Mapping[str, tuple[AclEntry, ...]]
"""The entries of one pattern; hosts are canonical."""


class AuthorizationResult(NamedTuple):
    """Whether the operation is allowed, and the deciding binding (may be None)."""

    is_allowed: bool
    binding: AclBinding | None = None


class AclIndex:
    """All ACL bindings, by resource. Pure."""

    def __init__(self, *, everyone_if_no_acl: bool = False) -> None:
        """`everyone_if_no_acl` is the result for resources without any ACL."""
        self._if_no_acl = AuthorizationResult(everyone_if_no_acl)
        self._entries: dict[tuple[ResourceKind, str, PatternType], EntriesByPrincipal] = {}
        # Number of prefixed patterns by resource type and length of their name.
        self._lengths: dict[ResourceKind, dict[int, int]] = {}
        # Patterns with entries for a principal.
        self._mentions: dict[tuple[ResourceKind, str], dict[ResourcePattern, None]] = {}

    def replace(self, pattern: ResourcePattern, entries: tuple[AclEntry, ...]) -> None:
        """Replace all entries of a pattern."""
        before = self._entries.pop(pattern, None)
        for principal in before or ():
            self._mentions[pattern.kind, principal].pop(pattern)
        if entries:
            entries_by_principal = self._entries[pattern] = _by_principal(entries)
            for principal in entries_by_principal:
                self._mentions.setdefault((pattern.kind, principal), {})[pattern] = None
        if pattern.pattern_type is PatternType.PREFIXED:
            self._count(pattern, bool(entries) - (before is not None))

    def authorize(
        self, requester: Requester, operation: Operation, resource: Resource
    ) -> AuthorizationResult:
        """Authorize one operation: DENY over ALLOW, denied without an ALLOW (AC-1)."""
        principals = (str(requester.principal), WILDCARD_PRINCIPAL)
        hosts = (canonical_host(requester.host), WILDCARD)
        implied_by = _implied_by(operation)
        result = self._if_no_acl
        for pattern, entries_by_principal in self._matching(resource):
            if result is self._if_no_acl:
                result = _NO_MATCH
            for entry in _of(entries_by_principal, principals):
                if entry.host not in hosts:
                    continue
                if entry.permission is Permission.DENY:
                    if entry.operation in (operation, Operation.ALL):
                        return AuthorizationResult(False, AclBinding(pattern, entry))
                elif entry.operation in implied_by:
                    result = AuthorizationResult(True, AclBinding(pattern, entry))
        return result

    def authorize_any(
        self, requester: Requester, operation: Operation, kind: ResourceKind
    ) -> AuthorizationResult:
        """Whether the operation is allowed on any existing or future resource of a type.

        Note: implied operations (AC-3) do not count here, as in Kafka 4.1.
        """
        any_name = self.authorize(requester, operation, Resource(kind, _ANY_NAME))
        if any_name.is_allowed:
            return any_name
        allowed: list[AclBinding] = []
        denied: dict[ResourcePattern, None] = {}
        for binding in self._bindings_for(requester, operation, kind):
            if binding.entry.permission is Permission.ALLOW:
                allowed.append(binding)
            elif _is_wildcard(binding.pattern):
                return AuthorizationResult(False, binding)
            else:
                denied[binding.pattern] = None
        return next(
            (
                AuthorizationResult(True, binding)
                for binding in allowed
                if not _is_dominated(binding.pattern, denied)
            ),
            _NO_MATCH,
        )

    def _matching(self, resource: Resource) -> Iterator[tuple[ResourcePattern, EntriesByPrincipal]]:
        """Patterns that match the resource. Plain tuples as keys are cheaper to build."""
        kind, name = resource
        for text in (name, WILDCARD) if name != WILDCARD else (name,):
            found = self._entries.get((kind, text, _LITERAL))
            if found is not None:
                yield ResourcePattern(kind, text, _LITERAL), found
        for length in self._lengths.get(kind, ()):
            if length <= len(name):
                found = self._entries.get((kind, name[:length], _PREFIXED))
                if found is not None:
                    yield ResourcePattern(kind, name[:length], _PREFIXED), found

    def _bindings_for(
        self, requester: Requester, operation: Operation, kind: ResourceKind
    ) -> Iterator[AclBinding]:
        """All bindings of the principal and the wildcard for this operation."""
        hosts = (canonical_host(requester.host), WILDCARD)
        for principal in dict.fromkeys((str(requester.principal), WILDCARD_PRINCIPAL)):
            for pattern in self._mentions.get((kind, principal), ()):
                for entry in self._entries[pattern][principal]:
                    if entry.host in hosts and entry.operation in (operation, Operation.ALL):
                        yield AclBinding(pattern, entry)

    def _count(self, pattern: ResourcePattern, change: int) -> None:
        lengths = self._lengths.setdefault(pattern.kind, {})
        length = len(pattern.name)
        lengths[length] = lengths.get(length, 0) + change
        if not lengths[length]:
            del lengths[length]


_NO_MATCH: Final = AuthorizationResult(False)


def _by_principal(entries: tuple[AclEntry, ...]) -> EntriesByPrincipal:
    entries_by_principal: dict[str, list[AclEntry]] = {}
    for entry in entries:
        canonical = entry._replace(host=canonical_host(entry.host))
        entries_by_principal.setdefault(entry.principal, []).append(canonical)
    return {principal: tuple(found) for principal, found in entries_by_principal.items()}


def _of(
    entries_by_principal: EntriesByPrincipal, principals: tuple[str, ...]
) -> Iterator[AclEntry]:
    for principal in principals:
        yield from entries_by_principal.get(principal, ())


def _implied_by(operation: Operation) -> frozenset[Operation]:
    """Operations that imply this one when they are allowed (AC-3)."""
    if operation is Operation.DESCRIBE:
        return _DESCRIBE
    if operation is Operation.DESCRIBE_CONFIGS:
        return _DESCRIBE_CONFIGS
    return frozenset({operation, Operation.ALL})


def _is_wildcard(pattern: ResourcePattern) -> bool:
    return pattern.name == WILDCARD and pattern.pattern_type is PatternType.LITERAL


def _is_dominated(pattern: ResourcePattern, denied: Mapping[ResourcePattern, None]) -> bool:
    """Whether a denied pattern covers everything that this allowed pattern does."""
    if _is_wildcard(pattern):
        return False
    if pattern.pattern_type is PatternType.LITERAL and pattern in denied:
        return True
    name, prefixed = pattern.name, PatternType.PREFIXED
    return any(
        ResourcePattern(pattern.kind, name[:length], prefixed) in denied
        for length in range(1, len(name) + 1)
    )


@lru_cache(maxsize=1_024)
def canonical_host(text: str) -> str:
    """Spell an address as Python does; return anything else, such as `*`, unchanged.

    Java writes IPv6 addresses in full (`0:0:0:0:0:0:0:1`), and a dual-stack socket reports an IPv4
    peer as `::ffff:192.0.2.1`. A DENY in a different spelling than the peer's address would have no
    effect.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


_log: Final = logging.getLogger("headwater.authorizer")

CACHE_ENTRIES_MAX: Final = 20_000
"""Maximum number of cached results; the cache is cleared when it is full."""

NAME_CHARACTERS_MAX: Final = 255
"""Results for longer names are not cached, and logs shorten them: names may have megabytes."""

_SUPER_USER: Final = AuthorizationResult(True)

CacheKey = tuple[Requester, Operation, Resource | ResourceKind]


class AclAuthorizer:
    """`Authorizer` with an `AclIndex`, super users and a cache of results."""

    def __init__(
        self, *, super_users: Iterable[str] = (), everyone_if_no_acl: bool = False
    ) -> None:
        """`super_users` are principals, such as `User:admin`, that bypass ACLs."""
        # A broker's requests to itself use no connection, so ACLs cannot apply to them.
        self._super_users = frozenset((*super_users, str(BROKER_PRINCIPAL)))
        self._index = AclIndex(everyone_if_no_acl=everyone_if_no_acl)
        self._cache: dict[CacheKey, AuthorizationResult] = {}
        self._denials = DenialLog()

    @property
    def allows_everything(self) -> bool:
        return False

    def replace(self, pattern: ResourcePattern, entries: tuple[AclEntry, ...]) -> None:
        """Replace all entries of a pattern and drop the cached results."""
        self._index.replace(pattern, entries)
        self._cache.clear()

    def authorize(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        result = self._cache.get((requester, operation, resource))
        if result is None:
            result = self._decide((requester, operation, resource))
        if result.is_allowed:
            if _log.isEnabledFor(logging.DEBUG):
                _log_result((requester, operation, resource), result)
            return True
        if self._denials.has_room(requester, operation, resource.kind):
            _log_result((requester, operation, resource), result)
        return False

    def allows(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        result = self._cache.get((requester, operation, resource))
        if result is None:
            result = self._decide((requester, operation, resource))
        return result.is_allowed

    def authorize_any(self, requester: Requester, operation: Operation, kind: ResourceKind) -> bool:
        result = self._cache.get((requester, operation, kind))
        if result is None:
            result = self._decide((requester, operation, kind))
        if result.is_allowed:
            if _log.isEnabledFor(logging.DEBUG):
                _log_result((requester, operation, kind), result)
            return True
        if self._denials.has_room(requester, operation, kind):
            _log_result((requester, operation, kind), result)
        return False

    def log_omitted_denials(self) -> None:
        """Log the number of denials that were not logged one by one. Call it regularly."""
        self._denials.log_omitted()

    def _decide(self, key: CacheKey) -> AuthorizationResult:
        requester, operation, target = key
        if str(requester.principal) in self._super_users:
            result = _SUPER_USER
        elif isinstance(target, ResourceKind):
            result = self._index.authorize_any(requester, operation, target)
        else:
            result = self._index.authorize(requester, operation, target)
        if isinstance(target, Resource) and len(target.name) > NAME_CHARACTERS_MAX:
            return result
        if len(self._cache) >= CACHE_ENTRIES_MAX:
            self._cache.clear()
        self._cache[key] = result
        return result


def _log_result(key: CacheKey, result: AuthorizationResult) -> None:
    requester, operation, target = key
    _log.log(
        logging.DEBUG if result.is_allowed else logging.INFO,
        "Authorization %s: principal=%s host=%s operation=%s resource=%s%s",
        "allowed" if result.is_allowed else "denied",
        requester.principal,
        requester.host,
        operation.name,
        _describe(target),
        "" if result.binding is None else f" acl={result.binding}",
    )


def _describe(target: Resource | ResourceKind) -> str:
    if isinstance(target, ResourceKind):
        return f"any {kafka_name(target)}"
    name = target.name
    shown = name if len(name) <= NAME_CHARACTERS_MAX else f"{name[:NAME_CHARACTERS_MAX]}..."
    return f"{kafka_name(target.kind)}:{shown}"
