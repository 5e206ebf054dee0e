"""The authorizer that goes by ACLs, and its log.

An answer is remembered until the rules change, so that the question costs little on the way of
every request. `authorize` is for an operation that a client asked for, and a denial is written to
the log (see `denial_log`); `allows` finds out what could be done, and writes nothing.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from headwater.common.principal import OURSELVES, Requester
from headwater.security.authorization.acl_bindings import (
    EVERYBODY,
    WILDCARD,
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
"""A resource as good as any: Kafka asks about this one (4.1) to find out who may do all."""

Rights = Mapping[str, tuple[AclEntry, ...]]
"""The entries of one pattern by their principal; hosts are in one spelling."""


# All rules, found by the resource that somebody asks about. Pure.
#
# A question is answered from a few look-ups: the pattern of just this name, the wildcard, and
# each prefix of the name whose length some pattern has. What a reader would get wrong: the number
# of rules does not matter, not even the number on one pattern, since these are kept by principal.
class AuthorizationResult(NamedTuple):
    """An answer, and the rule that gave it; None where no rule did."""

    is_allowed: bool
    rule: AclBinding | None = None


class AclIndex:
    """See the module. Changed by `replace`, which takes all rules of one pattern at once."""

    def __init__(self, *, everyone_if_no_acl: bool = False) -> None:
        """`everyone_if_no_acl` is the answer where no rule is about the resource."""
        self._if_no_acl = AuthorizationResult(everyone_if_no_acl)
        self._rights: dict[tuple[ResourceKind, str, PatternType], Rights] = {}
        # How many prefixed patterns of a kind have which length of name.
        self._lengths: dict[ResourceKind, dict[int, int]] = {}
        # Where somebody is mentioned.
        self._mentions: dict[tuple[ResourceKind, str], dict[ResourcePattern, None]] = {}

    def replace(self, pattern: ResourcePattern, entries: tuple[AclEntry, ...]) -> None:
        before = self._rights.pop(pattern, None)
        for principal in before or ():
            self._mentions[pattern.kind, principal].pop(pattern)
        if entries:
            rights = self._rights[pattern] = _by_principal(entries)
            for principal in rights:
                self._mentions.setdefault((pattern.kind, principal), {})[pattern] = None
        if pattern.pattern_type is PatternType.PREFIXED:
            self._count(pattern, bool(entries) - (before is not None))

    def judge(
        self, requester: Requester, operation: Operation, resource: Resource
    ) -> AuthorizationResult:
        """DENY wins over ALLOW, and silence is no ALLOW (AC-1)."""
        principals = (str(requester.principal), EVERYBODY)
        hosts = (canonical_host(requester.host), WILDCARD)
        granting = _granting(operation)
        verdict = self._if_no_acl
        for pattern, rights in self._applying(resource):
            if verdict is self._if_no_acl:
                verdict = _SILENCE
            for entry in _of(rights, principals):
                if entry.host not in hosts:
                    continue
                if entry.permission is Permission.DENY:
                    if entry.operation in (operation, Operation.ALL):
                        return AuthorizationResult(False, AclBinding(pattern, entry))
                elif entry.operation in granting:
                    verdict = AuthorizationResult(True, AclBinding(pattern, entry))
        return verdict

    def judge_any(
        self, requester: Requester, operation: Operation, kind: ResourceKind
    ) -> AuthorizationResult:
        """Whether there is, or could be, some resource of a kind that this is allowed on.

        What is implied does not count here: Kafka does this (4.1).
        """
        at_large = self.judge(requester, operation, Resource(kind, _ANY_NAME))
        if at_large.is_allowed:
            return at_large
        allowed: list[AclBinding] = []
        denied: dict[ResourcePattern, None] = {}
        for rule in self._about(requester, operation, kind):
            if rule.entry.permission is Permission.ALLOW:
                allowed.append(rule)
            elif _is_wildcard(rule.pattern):
                return AuthorizationResult(False, rule)
            else:
                denied[rule.pattern] = None
        return next(
            (
                AuthorizationResult(True, rule)
                for rule in allowed
                if not _is_dominated(rule.pattern, denied)
            ),
            _SILENCE,
        )

    def _applying(self, resource: Resource) -> Iterator[tuple[ResourcePattern, Rights]]:
        """What is kept here is looked for with plain tuples: to make a named one costs more."""
        kind, name = resource
        for text in (name, WILDCARD) if name != WILDCARD else (name,):
            found = self._rights.get((kind, text, _LITERAL))
            if found is not None:
                yield ResourcePattern(kind, text, _LITERAL), found
        for length in self._lengths.get(kind, ()):
            if length <= len(name):
                found = self._rights.get((kind, name[:length], _PREFIXED))
                if found is not None:
                    yield ResourcePattern(kind, name[:length], _PREFIXED), found

    def _about(
        self, requester: Requester, operation: Operation, kind: ResourceKind
    ) -> Iterator[AclBinding]:
        """The rules about somebody, wherever they are, that name this operation."""
        hosts = (canonical_host(requester.host), WILDCARD)
        for principal in dict.fromkeys((str(requester.principal), EVERYBODY)):
            for pattern in self._mentions.get((kind, principal), ()):
                for entry in self._rights[pattern][principal]:
                    if entry.host in hosts and entry.operation in (operation, Operation.ALL):
                        yield AclBinding(pattern, entry)

    def _count(self, pattern: ResourcePattern, change: int) -> None:
        lengths = self._lengths.setdefault(pattern.kind, {})
        length = len(pattern.name)
        lengths[length] = lengths.get(length, 0) + change
        if not lengths[length]:
            del lengths[length]


_SILENCE: Final = AuthorizationResult(False)


def _by_principal(entries: tuple[AclEntry, ...]) -> Rights:
    rights: dict[str, list[AclEntry]] = {}
    for entry in entries:
        spelled = entry._replace(host=canonical_host(entry.host))
        rights.setdefault(entry.principal, []).append(spelled)
    return {principal: tuple(found) for principal, found in rights.items()}


def _of(rights: Rights, principals: tuple[str, ...]) -> Iterator[AclEntry]:
    for principal in principals:
        yield from rights.get(principal, ())


def _granting(operation: Operation) -> frozenset[Operation]:
    """Which operations, when they are allowed, allow this one too (AC-3)."""
    if operation is Operation.DESCRIBE:
        return _DESCRIBE
    if operation is Operation.DESCRIBE_CONFIGS:
        return _DESCRIBE_CONFIGS
    return frozenset({operation, Operation.ALL})


def _is_wildcard(pattern: ResourcePattern) -> bool:
    return pattern.name == WILDCARD and pattern.pattern_type is PatternType.LITERAL


def _is_dominated(pattern: ResourcePattern, denied: Mapping[ResourcePattern, None]) -> bool:
    """Whether a DENY covers all that an ALLOW does."""
    if _is_wildcard(pattern):
        return False
    if pattern.pattern_type is PatternType.LITERAL and pattern in denied:
        return True
    name, prefixed = pattern.name, PatternType.PREFIXED
    return any(
        ResourcePattern(pattern.kind, name[:length], prefixed) in denied
        for length in range(1, len(name) + 1)
    )


# Addresses in one spelling, so that a rule about an address meets whoever comes from there.
#
# Java spells IPv6 addresses out (`0:0:0:0:0:0:0:1`), and everybody else shortens them; and a
# socket that listens for both families calls an IPv4 peer `::ffff:192.0.2.1`. A DENY that is
# spelled otherwise than the peer's address would be no DENY at all.
@lru_cache(maxsize=1_024)
def canonical_host(text: str) -> str:
    """The address as Python spells it; what is no address, as `*`, stays as it is."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


_log: Final = logging.getLogger("headwater.authorizer")

REMEMBERED_MOST: Final = 20_000
"""Answers that are kept at one time; whoever asks for more names than that pays for each."""

LONGEST_NAME: Final = 255
"""Of names that are longer no answer is kept, nor all of it logged: they may have megabytes."""

_SUPER_USER: Final = AuthorizationResult(True)

Question = tuple[Requester, Operation, Resource | ResourceKind]


class AclAuthorizer:
    """See the module: `headwater.security.authorization.authorizer.Authorizer`."""

    def __init__(
        self, *, super_users: Iterable[str] = (), everyone_if_no_acl: bool = False
    ) -> None:
        """`super_users` are principals, as `User:admin`, to whom no rule applies."""
        # A broker that asks itself does so by no connection that rules could be about.
        self._super_users = frozenset((*super_users, str(OURSELVES)))
        self._index = AclIndex(everyone_if_no_acl=everyone_if_no_acl)
        self._answers: dict[Question, AuthorizationResult] = {}
        self._denials = DenialLog()

    @property
    def allows_everything(self) -> bool:
        return False

    def replace(self, pattern: ResourcePattern, entries: tuple[AclEntry, ...]) -> None:
        """These are all rules of a pattern from now on."""
        self._index.replace(pattern, entries)
        self._answers.clear()

    def authorize(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        verdict = self._answers.get((requester, operation, resource))
        if verdict is None:
            verdict = self._find((requester, operation, resource))
        if verdict.is_allowed:
            if _log.isEnabledFor(logging.DEBUG):
                _write_down((requester, operation, resource), verdict)
            return True
        if self._denials.has_room(requester, operation, resource.kind):
            _write_down((requester, operation, resource), verdict)
        return False

    def allows(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        verdict = self._answers.get((requester, operation, resource))
        if verdict is None:
            verdict = self._find((requester, operation, resource))
        return verdict.is_allowed

    def authorize_any(self, requester: Requester, operation: Operation, kind: ResourceKind) -> bool:
        verdict = self._answers.get((requester, operation, kind))
        if verdict is None:
            verdict = self._find((requester, operation, kind))
        if verdict.is_allowed:
            if _log.isEnabledFor(logging.DEBUG):
                _write_down((requester, operation, kind), verdict)
            return True
        if self._denials.has_room(requester, operation, kind):
            _write_down((requester, operation, kind), verdict)
        return False

    def tell_denials(self) -> None:
        """Write the count of denials that were not written one by one; to be called regularly."""
        self._denials.tell()

    def _find(self, question: Question) -> AuthorizationResult:
        requester, operation, target = question
        if str(requester.principal) in self._super_users:
            verdict = _SUPER_USER
        elif isinstance(target, ResourceKind):
            verdict = self._index.judge_any(requester, operation, target)
        else:
            verdict = self._index.judge(requester, operation, target)
        if isinstance(target, Resource) and len(target.name) > LONGEST_NAME:
            return verdict
        if len(self._answers) >= REMEMBERED_MOST:
            self._answers.clear()
        self._answers[question] = verdict
        return verdict


def _write_down(question: Question, verdict: AuthorizationResult) -> None:
    requester, operation, target = question
    _log.log(
        logging.DEBUG if verdict.is_allowed else logging.INFO,
        "%s from %s is %s %s on %s%s",
        requester.principal,
        requester.host,
        "allowed" if verdict.is_allowed else "denied",
        operation.name,
        _named(target),
        "" if verdict.rule is None else f", by the rule: {verdict.rule}",
    )


def _named(target: Resource | ResourceKind) -> str:
    if isinstance(target, ResourceKind):
        return f"any {kafka_name(target)}"
    name = target.name
    shown = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
    return f"{kafka_name(target.kind)}:{shown}"
