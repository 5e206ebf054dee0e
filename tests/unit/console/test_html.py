"""Escaping of HTML."""

from headwater.console.html import Html, link_to, tag, visible


def test_text_is_escaped_everywhere() -> None:
    text = """<script>"&'"""
    made = tag("p", text, title=text)
    assert made == (
        '<p title="&lt;script&gt;&quot;&amp;&#x27;">&lt;script&gt;&quot;&amp;&#x27;</p>'
    )


def test_nested_elements_are_escaped_once() -> None:
    assert tag("p", ["1 < 2", tag("b", "3 > 2")], 7, None) == ("<p>1 &lt; 2<b>3 &gt; 2</b>7</p>")


def test_only_html_values_are_not_escaped() -> None:
    assert tag("p", Html("<b>").upper()) == "<p>&lt;B&gt;</p>"


def test_attributes_that_are_false_or_none_are_omitted() -> None:
    assert tag("input", required=True, checked=False, value=None, class_="x", aria_label="y") == (
        '<input required class="x" aria-label="y">'
    )


def test_invisible_characters_are_escaped() -> None:
    """A name must not look like another one by changing the direction of text."""
    assert visible("a\u202eb\x00c\x1b\n\td") == "a\\u202eb\\x00c\\x1b\n\td"
    assert tag("p", "\ud800") == "<p>\\ud800</p>"


def test_link_parts_are_percent_encoded() -> None:
    assert link_to("groups", "a/b?c#d é", query={"x": "1&2", "y": None, "z": ""}) == (
        "/groups/a%2Fb%3Fc%23d%20%C3%A9?x=1%262"
    )
    # No name can make a link point to another site.
    assert link_to("topics", "javascript:alert(1)").startswith("/topics/javascript%3A")
