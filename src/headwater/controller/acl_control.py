"""Rules that come and go: what CreateAcls and DeleteAcls do. Pure.

What a reader would get wrong: a rule that is there already may be created again, and a filter that
finds nothing is no error. Each rule of a request is judged for itself, as is each filter; two
filters that mean the same rule both tell of it.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.metadata.changes import AclsReplaced, MetadataChange
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.controller_result import DONE, ApiError, ControllerResult
from headwater.security.authorization.acl_bindings import (
    AclBinding,
    AclEntry,
    AclSet,
    PatternType,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.acl_filters import AclFilter
from headwater.security.authorization.authorizer import CLUSTER, Operation, ResourceKind

CHANGES_MOST: Final = 10_000
"""Rules that one request may create or remove: Kafka has this limit (4.1)."""

PATTERN_BYTES_MOST: Final = 800_000
"""What all rules of a pattern may take in ZooKeeper, which keeps them in one node."""

_OTHER_BYTES: Final = 80
"""What a rule takes besides its principal and its host."""

Removed = tuple[AclBinding, ...]


def create_acls(
    image: ClusterImage, bindings: Sequence[AclBinding]
) -> ControllerResult[tuple[ApiError, ...]]:
    """The answer has an outcome for each rule, in the same order."""
    additions = _Additions(image)
    outcomes = []
    for binding in bindings:
        refusal = check_binding(binding) or _refuse_name(image, binding.pattern)
        outcomes.append(refusal or additions.add(binding))
    if additions.count > CHANGES_MOST:
        reason = f"more than {CHANGES_MOST} rules cannot be created at once"
        too_many = ApiError(ErrorCode.POLICY_VIOLATION, reason)
        return ControllerResult((), tuple(too_many for _ in bindings))
    return ControllerResult(additions.changes(), tuple(outcomes))


def delete_acls(
    image: ClusterImage, filters: Sequence[AclFilter]
) -> ControllerResult[tuple[Removed | ApiError, ...]]:
    """The answer has for each filter the rules that it meant, in the same order."""
    outcomes: list[Removed | ApiError] = []
    removed: dict[AclBinding, None] = {}
    for each in filters:
        refusal = check_filter(each)
        found = () if refusal is not None else tuple(acls_of(image, each))
        removed.update(dict.fromkeys(found))
        outcomes.append(found if refusal is None else refusal)
    if len(removed) > CHANGES_MOST:
        reason = f"more than {CHANGES_MOST} rules cannot be removed at once"
        too_many = ApiError(ErrorCode.INVALID_REQUEST, reason)
        return ControllerResult((), tuple(too_many for _ in filters))
    patterns = dict.fromkeys(binding.pattern for binding in removed)
    changes = [
        _replaced(
            image,
            pattern,
            tuple(
                entry
                for entry in _entries(image, pattern)
                if AclBinding(pattern, entry) not in removed
            ),
        )
        for pattern in patterns
    ]
    return ControllerResult(changes, tuple(outcomes))


def acls_of(image: ClusterImage, wanted: AclFilter) -> Iterable[AclBinding]:
    """The rules that a filter means, those of one pattern together."""
    for pattern, found in image.acls.items():
        if wanted.takes_pattern(pattern):
            for entry in found.entries:
                if wanted.takes_entry(entry):
                    yield AclBinding(pattern, entry)


def check_binding(binding: AclBinding) -> ApiError | None:
    """Why this can be no rule."""
    pattern, entry = binding
    if pattern.kind in (ResourceKind.UNKNOWN, ResourceKind.ANY):
        return _wrong(f"a rule is about one kind of resource, and not about {pattern.kind.name}")
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return _wrong(f"a rule's pattern is LITERAL or PREFIXED, not {pattern.pattern_type.name}")
    if entry.operation in (Operation.UNKNOWN, Operation.ANY):
        return _wrong(f"a rule is about one operation, or ALL, not about {entry.operation.name}")
    if entry.permission not in (Permission.ALLOW, Permission.DENY):
        return _wrong(f"a rule says ALLOW or DENY, and not {entry.permission.name}")
    if not pattern.name:
        return _wrong("a rule names its resource; * means all")
    if pattern.kind is ResourceKind.CLUSTER and pattern.name != CLUSTER.name:
        return _wrong(f"the only name of the cluster as a resource is {CLUSTER.name}")
    if ":" not in entry.principal:
        return _wrong(f"{entry.principal!r} is no principal, which looks like User:alice")
    return None


def check_filter(wanted: AclFilter) -> ApiError | None:
    """Why this can mean no rules."""
    if wanted.kind is ResourceKind.UNKNOWN or wanted.pattern_type is PatternType.UNKNOWN:
        return _wrong("this kind of resource or of pattern is not known here")
    if wanted.operation is Operation.UNKNOWN or wanted.permission is Permission.UNKNOWN:
        return _wrong("this operation or permission is not known here")
    return None


def _refuse_name(image: ClusterImage, pattern: ResourcePattern) -> ApiError | None:
    """ZooKeeper keeps a pattern as a node of its name, which some names cannot be."""
    if image.is_standalone:
        return None
    if pattern.name in (".", "..") or not all(map(_is_plain, pattern.name)):
        return _wrong(f"ZooKeeper cannot keep rules for a resource with the name {pattern.name!r}")
    return None


def _is_plain(letter: str) -> bool:
    return letter != "/" and letter.isprintable() and not "\ud800" <= letter <= "\uf8ff"


class _Additions:
    """The rules of those patterns that get further ones."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._entries: dict[ResourcePattern, dict[AclEntry, None]] = {}
        self._bytes: dict[ResourcePattern, int] = {}
        self.count = 0

    def add(self, binding: AclBinding) -> ApiError:
        """`DONE`, or why there is no room for it."""
        pattern, entry = binding
        if pattern not in self._entries:
            known = _entries(self._image, pattern)
            self._entries[pattern] = dict.fromkeys(known)
            self._bytes[pattern] = sum(map(_written_bytes, known))
        if entry in self._entries[pattern]:
            return DONE
        taken = self._bytes[pattern] + _written_bytes(entry)
        if taken > PATTERN_BYTES_MOST and not self._image.is_standalone:
            return _wrong(f"{pattern} has too many rules; a prefix or User:* would take fewer")
        self._entries[pattern][entry] = None
        self._bytes[pattern] = taken
        self.count += 1
        return DONE

    def changes(self) -> list[MetadataChange]:
        return [
            _replaced(self._image, pattern, tuple(entries))
            for pattern, entries in self._entries.items()
            if len(entries) > len(_entries(self._image, pattern))
        ]


def _written_bytes(entry: AclEntry) -> int:
    return _OTHER_BYTES + len(json.dumps(entry.principal)) + len(json.dumps(entry.host))


def _entries(image: ClusterImage, pattern: ResourcePattern) -> tuple[AclEntry, ...]:
    known = image.acls.get(pattern)
    return () if known is None else known.entries


def _replaced(
    image: ClusterImage, pattern: ResourcePattern, entries: tuple[AclEntry, ...]
) -> MetadataChange:
    known = image.acls.get(pattern)
    return AclsReplaced(pattern, AclSet(entries, 0 if known is None else known.version + 1))


def _wrong(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, reason)
