"""Shapes as values: what they share instead of having it compiled for each."""

from headwater.protocol.schema import one, protocol_message


@protocol_message
class Cup:
    tea: str = one("string", default="green")
    size_ml: int = one("int32", default=200)


@protocol_message
class Pot:
    tea: str = one("string", default="green")
    size_ml: int = one("int32", default=200)


def test_two_messages_are_equal_when_all_their_fields_are() -> None:
    assert Cup(tea="oolong") == Cup(tea="oolong", size_ml=200)
    assert Cup() != Cup(size_ml=1)


def test_messages_of_two_kinds_are_never_equal() -> None:
    kinds: list[object] = [Cup(), Pot(), "Cup"]
    assert [each == kinds[0] for each in kinds] == [True, False, False]


def test_equal_messages_are_one_key() -> None:
    assert {Cup(tea="oolong"): 1}[Cup(tea="oolong")] == 1
    assert hash(Cup()) != hash(Cup(size_ml=1))


def test_a_message_is_shown_with_its_fields() -> None:
    assert repr(Cup(tea="oolong")) == "Cup(tea='oolong', size_ml=200)"
