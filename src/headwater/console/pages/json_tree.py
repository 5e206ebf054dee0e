"""Colour JSON texts, and let objects and arrays in them be folded.

Works on indented text, not on parsed values: numbers, repeated names and the end of a truncated
text stay as they were produced.
"""

import re
from typing import Final

from headwater.console.html import Child, Html, tag

LINES_MAX: Final = 2_000
CHARS_MAX: Final = 200_000
DEPTH_MAX: Final = 40

_TOKEN: Final = re.compile(
    r'(?P<text>"(?:\\.|[^"\\])*")(?P<colon>\s*:)?'
    r"|(?P<number>-?\d[\d.eE+-]*)"
    r"|(?P<word>true|false|null)"
)
_OPENING: Final = ("{", "[")


def json_tree(text: str, *, label: str = "JSON") -> Html:
    """A block of JSON; plain if it is long.

    `label` is its name for screen readers, unique on the page.
    """
    lines = text.split("\n")
    if len(lines) > LINES_MAX or len(text) > CHARS_MAX:
        return tag("pre", text, tabindex="0", class_="json")
    return tag(
        "div", _folded(lines), tabindex="0", class_="json tree", role="region", aria_label=label
    )


def coloured(line: str) -> list[Child]:
    """A line with its names, texts, numbers and words marked."""
    found: list[Child] = []
    end = 0
    for token in _TOKEN.finditer(line):
        found.append(line[end : token.start()])
        end = token.end()
        if token["text"] is not None:
            kind = "json-name" if token["colon"] else "json-text"
            found += [tag("span", token["text"], class_=kind), token["colon"]]
        else:
            kind = "json-number" if token["number"] else "json-word"
            found.append(tag("span", token[0], class_=kind))
    found.append(line[end:])
    return found


def _folded(lines: list[str]) -> list[Child]:
    """Nest the lines between an opening bracket and the closing one."""
    root: list[Child] = []
    # The blocks that are open: indentation, first line and content.
    stack: list[tuple[int, str, list[Child]]] = []
    for line in lines:
        content = stack[-1][2] if stack else root
        indent = len(line) - len(line.lstrip(" "))
        if stack and indent == stack[-1][0] and line.lstrip().startswith(("}", "]")):
            _, first, inner = stack.pop()
            outer = stack[-1][2] if stack else root
            outer += [_block(first, inner), tag("div", coloured(line))]
        elif line.endswith(_OPENING) and len(stack) < DEPTH_MAX:
            stack.append((indent, line, []))
        else:
            content.append(tag("div", coloured(line)))
    while stack:
        # The text is truncated.
        _, first, inner = stack.pop()
        outer = stack[-1][2] if stack else root
        outer.append(_block(first, inner))
    return root


def _block(first: str, inner: list[Child]) -> Html:
    # Open from the start, so it does not pause the live reload as a block that a user opened does.
    return tag("details", tag("summary", coloured(first)), inner, open=True, data_open=True)
