"""JSON in colour, with blocks that can be folded."""

import json
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from headwater.console.html import visible
from headwater.console.pages.json_tree import DEPTH_MAX, LINES_MAX, json_tree

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Texts(HTMLParser):
    """Collects the text of a page and checks that elements are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.lines: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.open.append(tag)
        if tag in ("div", "summary", "pre") and len(self.open) > 1:
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.lines:
            self.lines.append("")
        self.lines[-1] += data


@given(JSON, st.integers(0, 400))
def test_text_is_unchanged_even_if_it_is_truncated(value: object, length: int) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    for shown in (text, text[:length]):
        lines = Texts(json_tree(shown)).lines
        assert lines == ([visible(each) for each in shown.split("\n")] if shown else lines)


def test_values_are_coloured_by_type_and_blocks_can_be_folded() -> None:
    page = json_tree('{\n  "a": [\n    1.5e3,\n    "b: true",\n    null\n  ]\n}')
    for part in (
        '<span class="json-name">&quot;a&quot;</span>:',
        '<span class="json-number">1.5e3</span>',
        '<span class="json-text">&quot;b: true&quot;</span>',
        '<span class="json-word">null</span>',
    ):
        assert part in page
    assert page.count("<details open data-open>") == 2


def test_hostile_texts_are_escaped() -> None:
    page = json_tree(json.dumps({"</div><script>alert(1)</script>": "<img onerror=x>"}, indent=2))
    assert "<script" not in page
    assert "<img" not in page


def test_long_and_deep_texts_are_not_nested_without_bound() -> None:
    assert json_tree("\n".join(["1"] * (LINES_MAX + 1))).startswith("<pre")
    value: list[object] = []
    for _ in range(300):
        value = [value]
    assert json_tree(json.dumps(value, indent=1)).count("<details") == DEPTH_MAX
