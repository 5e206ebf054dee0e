"""Schemas and helpers for tests of the registry."""

import json
from typing import Any

from headwater.registry.commands import RegistryChange
from headwater.registry.registry_state import State
from headwater.registry.schema_submission import Submitted
from headwater.registry.schemas_topic_records import Reference, key_bytes, read_entry, value_bytes


def record(*fields: dict[str, Any], name: str = "Tea", **others: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **others})


def field(name: str, kind: Any = "string", **others: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **others}


KIND = record(field("kind"))
KIND_AND_GRAMS = record(field("kind"), field("grams", "int", default=0))
KIND_AND_PRICE = record(field("kind"), field("price", "double"))


def submitted(schema: str, *references: Reference, **others: Any) -> Submitted:
    return Submitted(schema=schema, references=references, **others)


def carry_out(state: State, decision: RegistryChange) -> Any:
    """Apply entries as the topic would: serialized, one by one."""
    for entry in decision.entries:
        raw = key_bytes(entry.key)
        read = read_entry(raw, value_bytes(entry.value))
        assert read == entry
        state.apply(read, raw)
    return decision.answer
