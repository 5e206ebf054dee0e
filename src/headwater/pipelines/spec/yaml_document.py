"""Read pipelines in YAML.

PyYAML's nodes carry their lines. Note: a key that occurs twice is refused. By YAML's rule the last
one would win, which hides a sink that was pasted and not renamed.
"""

from pathlib import Path
from typing import Any, Final

from headwater.pipelines.spec.document import Document, Place, fail_parsing

# Aliases let a small file expand to any size; no pipeline has this many values.
_MOST_VALUES: Final = 100_000
_MERGE: Final = "tag:yaml.org,2002:merge"


def read_yaml(file: Path, text: str) -> Document:
    """Parse YAML. Raises `InvalidPipeline` with the line of an error."""
    try:
        import yaml
    except ImportError:
        raise fail_parsing(
            file, 1, "YAML needs the package pyyaml: pip install 'headwater[spark]'"
        ) from None

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        lines: dict[Place, int] = {}
        value = None if node is None else _Values(file, loader, lines).of(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise fail_parsing(file, line, f"invalid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise fail_parsing(file, 1, f"invalid YAML: {error}") from None
    finally:
        loader.dispose()
    return Document(file=file, value=value, lines=lines)


class _Values:
    """Builds values from nodes, and records their lines."""

    def __init__(self, file: Path, loader: Any, lines: dict[Place, int]) -> None:
        self._file = file
        self._loader = loader
        self._lines = lines
        self._around: list[Any] = []

    def of(self, node: Any, place: Place) -> Any:
        line = node.start_mark.line + 1
        self._lines.setdefault(place, line)
        if any(node is each for each in self._around):
            raise fail_parsing(self._file, line, "a value contains itself")
        if len(self._lines) > _MOST_VALUES:
            raise fail_parsing(self._file, line, f"more than {_MOST_VALUES} values")
        self._around.append(node)
        try:
            return self._value(node, place)
        finally:
            self._around.pop()

    def _value(self, node: Any, place: Place) -> Any:
        match node.id:
            case "mapping":
                return self._mapping(node, place)
            case "sequence":
                return [self.of(each, (*place, at)) for at, each in enumerate(node.value)]
            case _:
                return self._loader.construct_object(node)

    def _mapping(self, node: Any, place: Place) -> dict[str, Any]:
        # A mapping may override keys that `<<` merges into it; its own keys come last.
        has_merged = any(key.tag == _MERGE for key, _ in node.value)
        self._loader.flatten_mapping(node)
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._loader.construct_object(key_node, deep=True)
            # YAML reads a bare `on` as a boolean, but here it is a name.
            name = key_node.value if isinstance(key, bool) else str(key)
            if name in found and not has_merged:
                raise fail_parsing(self._file, line, f"{name} is here twice")
            self._lines[(*place, name)] = line
            found[name] = self.of(value_node, (*place, name))
        return found
