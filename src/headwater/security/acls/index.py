"""All rules, found by the resource that somebody asks about. Pure.

A question is answered from a few look-ups: the pattern of just this name, the wildcard, and each
prefix of the name whose length some pattern has. What a reader would get wrong: the number of
rules does not matter, not even the number on one pattern, since these are kept by principal.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from headwater.model.requester import Requester
from headwater.security.acls.bindings import (
    EVERYBODY,
    WILDCARD,
    AclBinding,
    AclEntry,
    PatternType,
    Permission,
    ResourcePattern,
)
from headwater.security.acls.hosts import canonical_host
from headwater.security.authorization import Operation, Resource, ResourceKind

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


class Verdict(NamedTuple):
    """An answer, and the rule that gave it; None where no rule did."""

    is_allowed: bool
    rule: AclBinding | None = None


class AclIndex:
    """See the module. Changed by `replace`, which takes all rules of one pattern at once."""

    def __init__(self, *, everyone_if_no_acl: bool = False) -> None:
        """`everyone_if_no_acl` is the answer where no rule is about the resource."""
        self._if_no_acl = Verdict(everyone_if_no_acl)
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

    def judge(self, requester: Requester, operation: Operation, resource: Resource) -> Verdict:
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
                        return Verdict(False, AclBinding(pattern, entry))
                elif entry.operation in granting:
                    verdict = Verdict(True, AclBinding(pattern, entry))
        return verdict

    def judge_any(self, requester: Requester, operation: Operation, kind: ResourceKind) -> Verdict:
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
                return Verdict(False, rule)
            else:
                denied[rule.pattern] = None
        return next(
            (Verdict(True, rule) for rule in allowed if not _is_dominated(rule.pattern, denied)),
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


_SILENCE: Final = Verdict(False)


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
