"""A problem that `headwater doctor` found, why it matters, and what fixes it."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is; notes do not change the exit code."""

    ERROR = "error"
    """Data is lost or unavailable, or will be with the next failure."""
    WARNING = "warning"
    """Works now, but slower or less safe than it could."""
    NOTE = "note"
    """Worth knowing; a newer kernel would do better, for example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One problem of some partitions, groups, brokers, directories or settings."""

    check: str
    severity: Severity
    subjects: tuple[str, ...]
    problem: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A check that could not be made, and the reason."""

    check: str
    reason: str
