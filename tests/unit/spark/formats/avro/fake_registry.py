"""A registry in memory, behind the same door as one in reach."""

import json
from typing import Any

from headwater.client.schema_registry import RegisteredSchema, RegistryUnreachable
from headwater.spark.formats.avro.avro_options import RegistryAccess
from headwater.spark.formats.avro.registry_cache import RetryingRegistry


class FakeRegistry(RetryingRegistry):
    """Subjects with their versions; ids are counted over all of them."""

    def __init__(self, **subjects: Any) -> None:
        super().__init__(RegistryAccess("http://127.0.0.1:1"), pauses_s=())
        self.is_away = False
        self.incompatible: list[str] = []
        self._versions: list[RegisteredSchema] = []
        for subject, schema in subjects.items():
            self.register(subject.replace("_", "-"), json.dumps(schema))

    def at(self, access: RegistryAccess) -> RetryingRegistry:
        del access
        return self

    def latest(self, subject: str) -> RegisteredSchema | None:
        self._answer()
        return next((each for each in reversed(self._versions) if each.subject == subject), None)

    def register(self, subject: str, text: str) -> int:
        self._answer()
        known = self.look_up(subject, text)
        if known is not None:
            return known.id
        number = len(self._versions) + 1
        self._versions.append(RegisteredSchema(id=number, schema=text, subject=subject))
        return number

    def look_up(self, subject: str, text: str) -> RegisteredSchema | None:
        self._answer()
        found = [each for each in self._versions if (each.subject, each.schema) == (subject, text)]
        return next(iter(found), None)

    def incompatibilities(self, subject: str, text: str) -> list[str]:
        del subject, text
        self._answer()
        return self.incompatible

    def _answer(self) -> None:
        if self.is_away:
            raise RegistryUnreachable("the schema registry at 127.0.0.1:1 does not answer: away")
