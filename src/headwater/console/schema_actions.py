"""Changes to the schema registry that users can make from the console.

The registry client blocks, so its calls run in threads.
"""

import asyncio
from typing import Final

from headwater.console.actions import Done
from headwater.console.console_errors import ConsoleError, FormAnswer, bad_request
from headwater.console.context import ConsoleRequest
from headwater.console.html import link_to
from headwater.console.views.schemas import LEVELS, SCHEMA_TYPES, expect_registry

REASONS_MAX: Final = 20


async def register_subject(call: ConsoleRequest) -> Done:
    return await _register(call, call.field("subject"))


async def register_version(call: ConsoleRequest) -> Done:
    return await _register(call, call.parts[0])


async def set_compatibility(call: ConsoleRequest) -> Done:
    registry, level = expect_registry(call.console.connections.registry), call.field("level")
    if level not in LEVELS:
        raise bad_request(f"'level' must be one of {', '.join(LEVELS)}, not '{level[:40]}'.")
    await asyncio.to_thread(registry.set_compatibility, level, call.parts[0])
    return Done(done="compatibility-set", where=link_to("schemas", call.parts[0]))


async def _register(call: ConsoleRequest, subject: str) -> Done:
    """Check a schema, and register it unless the form only asks for the check."""
    registry = expect_registry(call.console.connections.registry)
    schema, kind = call.field("schema"), call.fields.get("type", "") or SCHEMA_TYPES[0]
    if kind not in SCHEMA_TYPES:
        raise bad_request(f"'type' must be one of {', '.join(SCHEMA_TYPES)}, not '{kind[:40]}'.")

    def check() -> list[str]:
        return registry.incompatibilities(subject, schema, schema_type=kind)

    if call.fields.get("check"):
        reasons = await asyncio.to_thread(check)
        if reasons:
            shown = "; ".join(reasons[:REASONS_MAX])
            raise ConsoleError(409, f"The schema is incompatible: {shown}")
        raise FormAnswer("The schema is compatible. Nothing was registered.")
    await asyncio.to_thread(lambda: registry.register(subject, schema, schema_type=kind))
    return Done(done="schema-registered", where=link_to("schemas", subject))
