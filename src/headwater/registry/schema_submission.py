"""Parse submitted schemas with references; check compatibility.

Note: a schema that uses types of other subjects can only be parsed together with them, so earlier
versions are parsed with the references that they were registered with.
"""

from dataclasses import dataclass
from typing import Any, Final

from headwater.registry.registry_errors import (
    INVALID_RULES,
    RestError,
    invalid_schema,
    invalid_schema_of_type,
)
from headwater.registry.registry_state import Identity, State
from headwater.registry.schema_types import SCHEMA_TYPES, Read, Referred
from headwater.registry.schemas_topic_records import Reference, SchemaValue, read_references

_UNSUPPORTED: Final = ("metadata", "ruleSet", "schemaTagsToAdd", "schemaTagsToRemove")
_REFERRED_CHARS_MAX: Final = 10_000_000
"""Limit for the text of all referenced schemas: a small request must not cost much time."""
_OLD_SCHEMA_CHARS: Final = 10 * 1024
"""Number of characters of the earlier schema that an error message quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A schema as a client sends it."""

    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    id: int = -1
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A parsed schema and its canonical text."""

    schema_type: str
    text: str
    references: tuple[Reference, ...]
    root: Any

    @property
    def identity(self) -> Identity:
        return (self.schema_type, self.text, self.references)


def read_submitted(body: dict[str, Any]) -> Submitted:
    """Parse a request body; `RestError` if it is no valid or supported schema."""
    kind = body.get("schemaType") or "AVRO"
    if not isinstance(kind, str) or kind not in SCHEMA_TYPES:
        raise invalid_schema(f"Invalid schema type {kind}")
    for name in _UNSUPPORTED:
        if body.get(name):
            raise RestError(INVALID_RULES, f"{name} is not supported")
    schema = body.get("schema")
    if not isinstance(schema, str) or not schema.strip():
        raise invalid_schema("Empty schema")
    try:
        references = read_references(body.get("references"))
    except ValueError as error:
        raise invalid_schema_of_type(kind, str(error)) from error
    return Submitted(
        schema=schema,
        schema_type=kind,
        references=references,
        id=_number(body, "id", -1),
        version=_number(body, "version", 0),
    )


def _number(body: dict[str, Any], name: str, default: int) -> int:
    found = body.get(name)
    if found is None:
        return default
    if not isinstance(found, int) or isinstance(found, bool) or not -1 <= found < 2**31:
        raise invalid_schema(f"Invalid {name}: a number from 1 to 2^31-1 is expected")
    return found


def resolve(state: State, given: Submitted, *, normalize: bool) -> Resolved:
    """Parse a schema with everything that it refers to."""
    try:
        found = _read(state, given.schema_type, given.schema, given.references)
        text = found.normalized() if normalize else found.canonical()
    except RecursionError as error:
        raise _too_deep(given.schema_type) from error
    references = given.references
    if normalize and SCHEMA_TYPES[given.schema_type].orders_references:
        references = tuple(sorted(set(references), key=_order))
    return Resolved(
        schema_type=given.schema_type, text=text, references=references, root=found.root
    )


def _order(reference: Reference) -> tuple[str, int, str]:
    return (reference.subject, reference.version, reference.name)


def _read(state: State, kind: str, text: str, references: tuple[Reference, ...]) -> Read:
    referred: list[Referred] = []
    _add_referred(state, kind, references, referred, set())
    if sum(len(each.text) for each in referred) > _REFERRED_CHARS_MAX:
        raise invalid_schema_of_type(kind, "the referenced schemas are too large")
    return SCHEMA_TYPES[kind].read(text, referred)


def _add_referred(
    state: State,
    kind: str,
    references: tuple[Reference, ...],
    into: list[Referred],
    done: set[tuple[str, str, int]],
) -> None:
    for each in references:
        found = _referred(state, kind, each)
        if found.schema_type != kind:
            raise invalid_schema_of_type(
                kind, f"the reference {each.name} is a schema of type {found.schema_type}"
            )
        location = (each.name, found.subject, found.version)
        if location in done:
            continue
        done.add(location)
        _add_referred(state, kind, found.references, into, done)
        into.append(Referred(each.name, found.schema))


def _referred(state: State, kind: str, reference: Reference) -> SchemaValue:
    versions = state.versions(reference.subject, deleted=True)
    if reference.version == -1:
        versions = state.versions(reference.subject)[-1:]
    for each in versions:
        if reference.version in (-1, each.version):
            return each
    raise invalid_schema_of_type(
        kind,
        f'No schema reference found for subject "{reference.subject}" and version '
        f"{reference.version}",
    )


def stored_root(state: State, version: SchemaValue) -> Any:
    """Parse a registered version again."""
    return _read(state, version.schema_type, version.schema, version.references).root


def incompatibilities(
    state: State, new: Resolved, versions: list[SchemaValue], level: str
) -> list[str]:
    """Incompatibilities of a schema with earlier versions; empty if it is compatible.

    In Confluent's format: the incompatibilities, then the earlier version and the level.
    """
    if level == "NONE" or not versions:
        return []
    chosen = versions if level.endswith("_TRANSITIVE") else versions[-1:]
    direction = level.removesuffix("_TRANSITIVE")
    found: list[str] = []
    try:
        for old in reversed(chosen):
            found += _incompatibilities_with(state, new, old, direction)
            if found:
                # Report the first incompatible version only.
                break
    except RecursionError as error:
        raise _too_deep(new.schema_type) from error
    return [*found, f"{{validateFields: 'false', compatibility: '{level}'}}"] if found else []


def _incompatibilities_with(
    state: State, new: Resolved, old: SchemaValue, direction: str
) -> list[str]:
    if old.schema_type != new.schema_type:
        return ["Incompatible because of different schema type"]
    try:
        previous = stored_root(state, old)
    except RestError as error:
        # Another registry, which is less strict, has registered it.
        return [f"Version {old.version} cannot be parsed: {error.message}"]
    unreadable = SCHEMA_TYPES[new.schema_type].unreadable
    found: list[str] = []
    if direction in ("FORWARD", "FULL"):
        found += [
            each.described(reader="old", writer="new") for each in unreadable(previous, new.root)
        ]
    if direction in ("BACKWARD", "FULL"):
        found += [
            each.described(reader="new", writer="old") for each in unreadable(new.root, previous)
        ]
    if not found:
        return []
    quoted = old.schema[:_OLD_SCHEMA_CHARS]
    is_whole = len(quoted) == len(old.schema)
    text = f"'{quoted}'" if is_whole else f"<truncated> '{quoted}...'"
    return [*found, f"{{oldSchemaVersion: {old.version}}}", f"{{oldSchema: {text}}}"]


def _too_deep(schema_type: str) -> RestError:
    return invalid_schema_of_type(schema_type, "its types are nested too deeply")
