"""HTML that cannot be forged: every text is escaped, unless it was made here.

    tag("p", "1 < 2", class_="note")    gives    <p class="note">1 &lt; 2</p>

What a reader would get wrong: `Html` is a promise, and `tag` is the only one to make it. Records,
group ids and client ids are written by strangers, so nothing else may call a text `Html`.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Final
from urllib.parse import quote, urlencode


class Html(str):
    """A text that is HTML already."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]
Attribute = str | int | bool | None

_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
_UNSEEN: Final = re.compile(
    # Controls but for tab and line feed; what has no width; what turns the direction of writing;
    # halves of surrogate pairs, which are no UTF-8.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff]"
)


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. `class_` is `class`, `aria_label` is `aria-label`; None and False leave out."""
    opening = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        assert not children, f"{name} holds nothing"
        return Html(f"<{name}{opening}>")
    return Html(f"<{name}{opening}>{joined(children)}</{name}>")


def joined(children: Child) -> Html:
    """Texts, numbers and elements, one after the other; None is nothing."""
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
    """A text whose unseen characters are written out, so that it cannot pass for another one."""
    return _UNSEEN.sub(lambda found: _written_out(found[0]), text)


def link_to(*parts: str | int, query: Mapping[str, str | int | None] | None = None) -> str:
    """A path of the console. Names may hold slashes and anything else."""
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    chosen = {key: value for key, value in (query or {}).items() if value not in (None, "")}
    return f"{path}?{urlencode(chosen)}" if chosen else path


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def _written_out(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
