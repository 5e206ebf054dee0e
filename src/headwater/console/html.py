"""Build HTML with all text escaped.

    tag("p", "1 < 2", class_="note")    gives    <p class="note">1 &lt; 2</p>

Invariant: only this module creates `Html` values. Records, group ids and client ids are untrusted
text, so no other module may mark text as `Html`.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Final
from urllib.parse import quote, urlencode


class Html(str):
    """Text that is already HTML."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]
Attribute = str | int | bool | None

_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
_INVISIBLE: Final = re.compile(
    # Control characters except tab and line feed, zero-width characters, characters that change the
    # direction of text, and unpaired surrogates, which UTF-8 cannot encode.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff]"
)


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element.

    `class_` is `class`, `aria_label` is `aria-label`; None and False omit it.
    """
    opening = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        assert not children, f"{name} cannot have children"
        return Html(f"<{name}{opening}>")
    return Html(f"<{name}{opening}>{joined(children)}</{name}>")


def joined(children: Child) -> Html:
    """Concatenate texts, numbers and elements; None is nothing."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, str):
        return Html(escape(visible(children)))
    if isinstance(children, int):
        return Html(str(children))
    return Html("".join(map(joined, children)))


def document(*children: Child) -> Html:
    return Html(f"<!doctype html>{joined(children)}")


def visible(text: str) -> str:
    """Escape invisible characters, so that a text cannot look like a different one."""
    return _INVISIBLE.sub(lambda found: _escaped_character(found[0]), text)


def link_to(*parts: str | int, query: Mapping[str, str | int | None] | None = None) -> str:
    """A path of the console. Parts may contain slashes and any other character."""
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    chosen = {key: value for key, value in (query or {}).items() if value not in (None, "")}
    return f"{path}?{urlencode(chosen)}" if chosen else path


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def _escaped_character(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
