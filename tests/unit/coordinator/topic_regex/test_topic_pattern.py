"""NG-9. Whether an expression is accepted is what Apache Kafka 4.1 answered."""

import random
import string

import pytest

from headwater.common.exceptions import InvalidPattern
from headwater.coordinator.topic_regex.topic_pattern import TopicPattern

TAKEN = [
    "\\pL+",
    "(?P<n>c)",
    "(?<n>c)",
    "a{,3}",
    "\\Qa.b\\E",
    "\\x{41}",
    "\\101",
    "(?i)C",
    "(?U)a",
    "(?m)a",
    "[[:alpha:]]",
    "[^\\w]",
    "[]a]",
    "a]",
    "{",
    "a{",
    "a{x",
    "\\z",
    "\\A",
    "\\b",
    "\\B",
    "\\f",
    "a*?",
    "a??",
    "[\\d-a]",
    "\\pN",
    "\\p{^Lu}",
    "\\PL",
    "\\p{Latin}",
    "[[:^alpha:]]",
    "[[:word:]]",
    "\\_",
    "\\é",
    "\\-",
    "(?-i)a",
    "(?i:a)",
    "(?i-s:a)",
    "(?)a",
    "(?:)",
    "()",
    "",
    "|",
    "a||b",
    "^*",
    "$+",
    "\\b+",
    "[a&&b]",
    "[^]]",
    "\\0",
    "\\08",
    "\\07",
    "\\x41",
    "a{0}",
    "a{2,}",
    "a{1000}",
    "(a{2}){600}",
    "é",
    "\\v",
]

REFUSED = [
    "a{1001}",
    "\\p{Foo}",
    "a**",
    "a+*",
    "x{2,1}",
    "\\1",
    "(?x)a",
    "[[:foo:]]",
    "[z-a]",
    "[a",
    "*a",
    "(",
    ")",
    "\\",
    "\\Z",
    "\\C",
    "\\G",
    "\\h",
    "\\R",
    "\\e",
    "(?#c)a",
    "a*+",
    "[a-\\d]",
    "\\cA",
    "\\u0041",
    "[",
    "[^",
    "(?P=n)",
    "(?>a)",
    "(?!a)",
    "(?<=a)b",
    "\\x4",
    "\\x{}",
    "\\x{110000}",
    "[\\Q]\\E]",
    "a{2}{3}",
    "\\V",
    "\\H",
    "\\N",
]

OURS_ALONE = ["(a{100}){100}", "\\p{Greek}", "(" * 200 + ")" * 200]


@pytest.mark.parametrize("regex", TAKEN)
def test_expressions_that_kafka_accepts_are_accepted(regex: str) -> None:
    TopicPattern(regex)


@pytest.mark.parametrize("regex", REFUSED)
def test_expressions_that_kafka_rejects_are_rejected(regex: str) -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern(regex)


@pytest.mark.parametrize("regex", OURS_ALONE)
def test_scripts_without_topic_characters_and_huge_expressions_are_rejected_too(regex: str) -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern(regex)


@pytest.mark.parametrize(
    ("regex", "name", "is_match"),
    [
        ("lick", "clicks", False),
        (".lick.", "clicks", True),
        ("c.*|v.*", "views", True),
        ("", "", True),
        ("(?i)CLICKS", "clicks", True),
        ("(?i:C)licks", "clicks", True),
        ("(?i:c)LICKS", "clicks", False),
        ("[[:lower:]]+", "clicks", True),
        ("[^[:lower:]]+", "clicks", False),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        (r"\x{63}licks", "clicks", True),
        (r"\143licks", "clicks", True),
        (r"\pL+-\d{2}", "log-07", True),
        (r"\PL+", "log", False),
        (r"\p{^Lu}+", "log", True),
        (r"^clicks$", "clicks", True),
        (r"a\b.b", "a.b", True),
        (r"a\b.b", "aab", False),
        (r"a\B.b", "aab", True),
        (r"a$b", "ab", False),
        ("a{,3}", "aa", False),
        ("a{2,3}", "aaaa", False),
        ("a{2,3}", "aaa", True),
        ("(a|b)*abb", "ababb", True),
        ("a{1000}", "a" * 249, False),
        ("(a?){1000}", "a" * 249, True),
        ("[a-cx]+", "abcx", True),
        ("[]a]+", "a", True),
        ("[a-]+", "a-a", True),
        (r"[\w.]+", "a_1.b", True),
        ("a||b", "", True),
    ],
)
def test_a_name_must_match_as_a_whole(regex: str, name: str, is_match: bool) -> None:
    assert TopicPattern(regex).matches(name) is is_match


def test_an_expression_that_makes_others_backtrack_is_matched_at_once() -> None:
    assert not TopicPattern("(a+)+(a+)+(a*)*b").matches("a" * 249)


@pytest.mark.parametrize(
    "regex",
    [
        pytest.param("|".join(["a"] * 5_001), id="too long"),
        pytest.param("((a{10}){100}){11}", id="too many repeats"),
        pytest.param("((a?){1000}|b){1000}", id="too many optional repeats"),
    ],
)
def test_an_expression_that_is_too_large_is_rejected_before_it_costs_much(regex: str) -> None:
    with pytest.raises(InvalidPattern, match="too l"):
        TopicPattern(regex)


def test_an_expression_that_is_slow_on_every_name_is_given_up() -> None:
    """Each name leads through sets of states that no other did."""
    pattern = TopicPattern("(.*[a-m].{14}[n-z]|.)*(.?){249}X")
    rng = random.Random(1)
    names = ["".join(rng.choices(string.ascii_lowercase, k=249)) for _ in range(1_000)]
    with pytest.raises(InvalidPattern, match="too much work"):
        list(map(pattern.matches, names))


def test_many_alternatives_match_many_topics_within_the_limit() -> None:
    names = [f"team-{number}.orders" for number in range(500)]
    pattern = TopicPattern("|".join(names[:400]))
    topics = [*names, *(f"other-{number}" for number in range(20_000))]
    assert sum(map(pattern.matches, topics)) == 400
