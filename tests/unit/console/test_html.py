"""Tests for the one place where texts become HTML."""

from headwater.console.html import Html, link_to, tag, visible


def test_a_text_is_escaped_wherever_it_stands() -> None:
    text = """<script>"&'"""
    made = tag("p", text, title=text)
    assert made == (
        '<p title="&lt;script&gt;&quot;&amp;&#x27;">&lt;script&gt;&quot;&amp;&#x27;</p>'
    )


def test_elements_within_elements_are_escaped_once() -> None:
    assert tag("p", ["1 < 2", tag("b", "3 > 2")], 7, None) == ("<p>1 &lt; 2<b>3 &gt; 2</b>7</p>")


def test_only_what_was_made_here_counts_as_html() -> None:
    assert tag("p", Html("<b>").upper()) == "<p>&lt;B&gt;</p>"


def test_attributes_that_are_false_or_none_are_left_out() -> None:
    assert tag("input", required=True, checked=False, value=None, class_="x", aria_label="y") == (
        '<input required class="x" aria-label="y">'
    )


def test_what_cannot_be_seen_is_written_out() -> None:
    """A name must not pass for another one by turning the direction of writing around."""
    assert visible("a\u202eb\x00c\x1b\n\td") == "a\\u202eb\\x00c\\x1b\n\td"
    assert tag("p", "\ud800") == "<p>\\ud800</p>"


def test_names_in_links_may_have_anything_in_them() -> None:
    assert link_to("groups", "a/b?c#d é", query={"x": "1&2", "y": None, "z": ""}) == (
        "/groups/a%2Fb%3Fc%23d%20%C3%A9?x=1%262"
    )
    # No name can make a link lead elsewhere.
    assert link_to("topics", "javascript:alert(1)").startswith("/topics/javascript%3A")
