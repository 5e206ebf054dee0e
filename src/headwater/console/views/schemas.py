"""Subjects and schemas of the registry.

The registry client blocks, so its calls run in threads.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Final

from headwater.client.errors import KafkaError
from headwater.client.schema_registry import RegisteredSchema, SchemaRegistry
from headwater.console.console_errors import ConsoleError
from headwater.console.views.paging import Page, page_of
from headwater.console.views.record_decoder import indented

VERSIONS_SHOWN_MAX: Final = 100
SCHEMA_TYPES: Final = ("AVRO", "JSON", "PROTOBUF")
LEVELS: Final = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectList:
    """A page of the matching subjects."""

    subjects: Page[str]
    search: str
    compatibility: str | None
    all_subjects: int
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReferenceRow:
    """A schema that this one references."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDetail:
    """One version of a subject, and the numbers of all versions, newest first."""

    subject: str
    version: int
    id: int
    type: str
    compatibility: str | None
    versions: tuple[int, ...]
    references: tuple[SchemaReferenceRow, ...]
    schema: str


def expect_registry(registry: SchemaRegistry | None) -> SchemaRegistry:
    if registry is None:
        raise ConsoleError(
            404, "No schema registry is configured. Start the console with --registry URL."
        )
    return registry


async def subject_list(
    registry: SchemaRegistry, url: str, *, search: str, page: int, size: int
) -> SubjectList:
    def ask() -> tuple[list[str], str | None]:
        return registry.subjects(), _compatibility(registry, None)

    subjects, compatibility = await asyncio.to_thread(ask)
    found = [each for each in sorted(subjects) if search.lower() in each.lower()]
    return SubjectList(
        subjects=page_of(found, page=page, size=size),
        search=search,
        compatibility=compatibility,
        all_subjects=len(subjects),
        url=_without_password(url),
    )


async def schema_detail(registry: SchemaRegistry, subject: str, version: str) -> SchemaDetail:
    def ask() -> tuple[RegisteredSchema, list[int], str | None]:
        found = registry.version(subject, version)
        return found, registry.versions(subject), _compatibility(registry, subject)

    found, versions, compatibility = await asyncio.to_thread(ask)
    return SchemaDetail(
        subject=subject,
        version=found.version or 0,
        id=found.id,
        type=found.schema_type,
        compatibility=compatibility,
        versions=tuple(sorted(versions, reverse=True)[:VERSIONS_SHOWN_MAX]),
        references=tuple(
            SchemaReferenceRow(name=each.name, subject=each.subject, version=each.version)
            for each in found.references
        ),
        schema=_pretty(found.schema),
    )


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _compatibility(registry: SchemaRegistry, subject: str | None) -> str | None:
    try:
        return registry.compatibility(subject)
    except KafkaError:
        # Not essential for this page.
        return None


def _pretty(schema: str) -> str:
    try:
        json.loads(schema)
    except (ValueError, RecursionError):
        # Protobuf schemas are not JSON.
        return schema
    return indented(schema)
