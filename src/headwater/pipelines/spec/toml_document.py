"""Read pipelines in TOML.

Python's TOML parser reports no lines, so they are searched in the text: the header of each table,
and each key at the beginning of a line. The values come from the parser.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headwater.pipelines.spec.document import Document, Place, fail_parsing

_AT: Final = re.compile(r"\(at line (\d+)")
_NAME: Final = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_NAMES: Final = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER: Final = re.compile(rf"\s*(\[\[?)\s*({_NAMES})\s*\]\]?")
_KEY: Final = re.compile(rf"\s*({_NAMES})\s*=")
_ONE_NAME: Final = re.compile(_NAME)
# Lines of a multi-line string may look like keys, so they are skipped.
_LONG_TEXTS: Final = re.compile(r'"""(?:\\.|[^\\])*?"""' + r"|'''.*?'''", re.DOTALL)


def read_toml(file: Path, text: str) -> Document:
    """Parse TOML. Raises `InvalidPipeline` with the line of an error."""
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT.search(str(error))
        line = int(found[1]) if found is not None else text.count("\n") + 1
        raise fail_parsing(file, line, f"invalid TOML: {error}") from None
    return Document(file=file, value=value, lines=dict(_lines(text)))


def _lines(text: str) -> Iterator[tuple[Place, int]]:
    table: Place = ()
    counts: dict[Place, int] = {}
    blanked = _LONG_TEXTS.sub(lambda found: '""' + "\n" * found[0].count("\n"), text)
    for number, line in enumerate(blanked.splitlines(), 1):
        header = _HEADER.match(line)
        if header is not None:
            table = _inside_lists(_names(header[2]), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                yield table, number
                table = (*table, counts[table])
            yield table, number
        elif (key := _KEY.match(line)) is not None:
            names = _names(key[1])
            for length in range(1, len(names) + 1):
                yield (*table, *names[:length]), number


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip("\"'") for name in _ONE_NAME.findall(text))


def _inside_lists(names: tuple[str, ...], counts: dict[Place, int]) -> Place:
    """A table below a list of tables belongs to the last one of them."""
    place: Place = ()
    for at, name in enumerate(names):
        place = (*place, name)
        if place in counts and at < len(names) - 1:
            place = (*place, counts[place])
    return place
