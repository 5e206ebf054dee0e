"""Topic patterns compared with Python's regular expressions, where both mean the same."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.exceptions import InvalidPattern
from headwater.coordinator.topic_regex.topic_pattern import TopicPattern

ATOMS = ["a", "b", "-", r"\.", ".", "[ab]", "[^a]", r"\d", r"\w", r"\W", "[a-c1]", "^", "$", r"\b"]


def expressions() -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(ATOMS),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=4).map("".join),
            st.lists(inner, min_size=2, max_size=3).map("|".join).map("(?:{})".format),
            st.tuples(
                inner.map("({})".format),
                st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{0,}"]),
            ).map("".join),
        ),
        max_leaves=8,
    )


@settings(max_examples=300)
@given(expressions(), st.lists(st.text("ab1-._", max_size=6), min_size=1, max_size=8))
def test_names_match_as_in_python(regex: str, names: list[str]) -> None:
    pattern, judge = TopicPattern(regex), re.compile(regex, re.ASCII)
    for name in names:
        # Python's \b is wrong about the empty text before 3.14.
        if name or r"\b" not in regex:
            assert pattern.matches(name) == bool(judge.fullmatch(name)), name


@settings(max_examples=300)
@given(st.text("ab(|)[]{}^$*+?\\.,-12:?PQEpdx<>imsU", max_size=12))
def test_arbitrary_text_is_a_pattern_or_rejected(regex: str) -> None:
    try:
        TopicPattern(regex).matches("ab-1")
    except InvalidPattern:
        return
