"""Find the types that a schema's fields name, in its file and in what it imports.

A name is looked up in the innermost scope first, then further out. A file sees the types of its
own imports, and of what these import publicly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.protobuf.schema import (
    EnumType,
    Extend,
    MessageType,
    ProtoFile,
)
from headwater.schemas.protobuf.tokens import invalid_protobuf
from headwater.schemas.protobuf.well_known import well_known_file

MAIN = ""
"""The name of the schema's own file, which has none in a registry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A message or an enum, and where it is defined."""

    full_name: str
    element: MessageType | EnumType
    package: str
    file: str

    @property
    def local_name(self) -> str:
        """The name without the package."""
        return self.full_name[len(self.package) + 1 :] if self.package else self.full_name


@dataclass(frozen=True, slots=True, eq=False)
class ProtobufSchema:
    """A parsed schema with the files that it imports, dependencies first."""

    files: Mapping[str, ProtoFile]
    definitions: Mapping[str, Definition]
    _visible: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def file(self) -> ProtoFile:
        return self.files[MAIN]

    def find(self, name: str, scope: str, file: str = MAIN) -> Definition | None:
        """The type that a name in a scope (a full name) of a file stands for."""
        visible = self._visible_files(file)
        for full_name in _candidates(name, scope):
            found = self.definitions.get(full_name)
            if found is not None and found.file in visible:
                return found
        return None

    def resolve(self, name: str, scope: str, file: str = MAIN) -> Definition:
        """Like `find`; raises `InvalidSchema` for a name without a type."""
        found = self.find(name, scope, file)
        if found is None:
            raise unresolved(name)
        return found

    def _visible_files(self, file: str) -> frozenset[str]:
        known = self._visible.get(file)
        if known is None:
            known = frozenset(_visible_from(self.files, file))
            self._visible[file] = known
        return known


def unresolved(name: str) -> InvalidSchema:
    return invalid_protobuf(f"Could not resolve type: {name}")


def link(file: ProtoFile, referred: Mapping[str, ProtoFile]) -> ProtobufSchema:
    """Join a file with its imports.

    `referred` are the files of references, by their names; well-known files are added. Raises
    `InvalidSchema` if an import is missing or imports itself.
    """
    files: dict[str, ProtoFile] = {}
    _add_imports(file, referred, files, [])
    files[MAIN] = file
    definitions: dict[str, Definition] = {}
    for name, each in files.items():
        for found in _defined(each, name):
            if found.full_name in definitions:
                raise invalid_protobuf(f"{found.full_name} is defined twice")
            definitions[found.full_name] = found
    return ProtobufSchema(files, definitions)


def _add_imports(
    file: ProtoFile, referred: Mapping[str, ProtoFile], into: dict[str, ProtoFile], path: list[str]
) -> None:
    for name in file.all_imports:
        if name in path:
            raise invalid_protobuf(f"{name} imports itself")
        if name in into:
            continue
        found = referred.get(name) or well_known_file(name)
        if found is None:
            raise invalid_protobuf(f'no reference for the import "{name}"')
        _add_imports(found, referred, into, [*path, name])
        into[name] = found


def _visible_from(files: Mapping[str, ProtoFile], name: str) -> Iterator[str]:
    yield name
    waiting = list(files[name].all_imports)
    seen: set[str] = set()
    while waiting:
        each = waiting.pop()
        if each not in seen and each in files:
            seen.add(each)
            yield each
            waiting += files[each].public_imports


def _candidates(name: str, scope: str) -> Iterator[str]:
    if name.startswith("."):
        yield name[1:]
        return
    while scope:
        yield f"{scope}.{name}"
        scope = scope.rpartition(".")[0]
    yield name


def _defined(file: ProtoFile, name: str) -> Iterator[Definition]:
    waiting: list[tuple[str, MessageType | EnumType]] = []
    waiting += [(file.package, each) for each in file.messages]
    waiting += [(file.package, each) for each in file.enums]
    while waiting:
        scope, element = waiting.pop()
        full_name = joined(scope, element.name)
        yield Definition(full_name=full_name, element=element, package=file.package, file=name)
        if isinstance(element, MessageType):
            waiting += [(full_name, each) for each in element.messages]
            waiting += [(full_name, each) for each in element.enums]


def joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def walk_messages(file: ProtoFile) -> Iterator[tuple[str, MessageType]]:
    """All messages of a file with their full names, outer ones first."""
    waiting = [(file.package, each) for each in reversed(file.messages)]
    while waiting:
        scope, message = waiting.pop()
        full_name = joined(scope, message.name)
        yield full_name, message
        waiting += [(full_name, each) for each in reversed(message.messages)]


def walk_extends(file: ProtoFile) -> Iterator[tuple[str, Extend]]:
    """All extensions of a file with the scopes in which they are declared."""
    for each in file.extends:
        yield file.package, each
    for scope, message in walk_messages(file):
        for each in message.extends:
            yield scope, each
