"""Topics are found among the names of a query, and nowhere else."""

from headwater.sql import SqlSession
from headwater.sql.query_names import NamedTopic, QueryToken, named_topics, quoted
from headwater.sql.topic_table import TableView

TOPICS = ["orders", "shop.orders", "or-ders", "Mixed", "date"]


def names(*words: str) -> list[NamedTopic]:
    keywords = {"select", "from", "join", "where"}
    tokens = [
        QueryToken(each, is_name=each[0].isalpha() or each[0] == '"', is_keyword=False)
        if each not in keywords
        else QueryToken(each, is_name=False, is_keyword=True)
        for each in words
    ]
    return named_topics(tokens, TOPICS)


def test_names_are_topics_in_any_case() -> None:
    assert [each.topic for each in names("from", "ORDERS", "join", "mixed")] == ["orders", "Mixed"]


def test_a_qualified_name_is_a_topic_with_a_dot() -> None:
    found = names("from", "shop", ".", "orders")
    assert found == [NamedTopic("shop.orders", "shop.orders", TableView.TYPED, is_qualified=True)]


def test_a_quoted_name_may_have_any_character() -> None:
    assert [each.topic for each in names("from", '"or-ders"', '"shop.orders"')] == [
        "or-ders",
        "shop.orders",
    ]


def test_a_column_of_an_alias_names_its_table_once() -> None:
    found = names("select", "orders", ".", "id", "from", "orders")
    assert [each.topic for each in found] == ["orders"]


def test_views_are_suffixes() -> None:
    found = names("from", "orders$raw", "join", '"orders$errors"')
    assert [(each.topic, each.view) for each in found] == [
        ("orders", TableView.RAW),
        ("orders", TableView.ERRORS),
    ]


def test_names_are_quoted_where_sql_needs_it() -> None:
    assert [quoted(each) for each in ("orders", "shop.a", 'a"b', "1st")] == [
        "orders",
        '"shop.a"',
        '"a""b"',
        '"1st"',
    ]


def test_strings_and_comments_are_no_names(session: SqlSession) -> None:
    assert session.sql("select 'orders' -- orders\n /* orders */").rows() == [("orders",)]
    assert session.explain("select 'orders' -- orders").startswith("reads no topic")
