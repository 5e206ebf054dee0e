"""Select ACL bindings to list or delete.

Note: pattern type ANY selects patterns of either type with exactly this name. MATCH selects all
patterns that match a resource of this name, including prefixes and the wildcard.
"""

from dataclasses import dataclass

from headwater.security.authorization.acl_bindings import (
    WILDCARD,
    AclBinding,
    AclEntry,
    PatternType,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.authorizer import Operation, ResourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Fields that are None or ANY match anything. The default selects every binding."""

    kind: ResourceKind = ResourceKind.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @classmethod
    def of(cls, binding: AclBinding) -> "AclFilter":
        """Select exactly this binding."""
        pattern, entry = binding
        return cls(
            kind=pattern.kind,
            name=pattern.name,
            pattern_type=pattern.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission=entry.permission,
        )

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.kind not in (ResourceKind.ANY, pattern.kind):
            return False
        match self.pattern_type:
            case PatternType.ANY:
                return self.name in (None, pattern.name)
            case PatternType.MATCH:
                return self.name is None or applies(pattern, self.name)
            case _:
                return self.pattern_type is pattern.pattern_type and (
                    self.name in (None, pattern.name)
                )

    def matches_entry(self, entry: AclEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def matches(self, binding: AclBinding) -> bool:
        return self.matches_pattern(binding.pattern) and self.matches_entry(binding.entry)


def applies(pattern: ResourcePattern, name: str) -> bool:
    """Whether a pattern matches a resource name of its type (AC-2)."""
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)
