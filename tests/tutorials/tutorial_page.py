"""Read the fenced blocks of a tutorial in order, as a user would type them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SAVED_AS: Final = re.compile(r"Save this as `([^`]+)`:\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block: its language, its text and the file that the page tells to save it in."""

    language: str
    text: str
    saved_as: str | None


def blocks(page: str) -> list[Block]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        named = _SAVED_AS.search(text[: match.start()])
        found.append(
            Block(
                language=match[1], text=match[2], saved_as=None if named is None else named.group(1)
            )
        )
    return found


def commands(block: Block) -> list[str]:
    """The commands of a shell block; a here document and a continued line belong to one command."""
    found: list[str] = []
    until: str | None = None
    for line in block.text.splitlines():
        if until is not None or (found and found[-1].endswith("\\")):
            found[-1] += "\n" + line
            until = None if line == until else until
            continue
        if line.strip():
            found.append(line)
            here = re.search(r"<<'?(\w+)'?$", line)
            until = here[1] if here is not None else None
    return found
