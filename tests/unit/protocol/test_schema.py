"""Message classes as values: shared equality, hash and repr."""

from headwater.protocol.schema import one, protocol_message


@protocol_message
class Cup:
    tea: str = one("string", default="green")
    size_ml: int = one("int32", default=200)


@protocol_message
class Pot:
    tea: str = one("string", default="green")
    size_ml: int = one("int32", default=200)


def test_messages_with_equal_fields_are_equal() -> None:
    assert Cup(tea="oolong") == Cup(tea="oolong", size_ml=200)
    assert Cup() != Cup(size_ml=1)


def test_messages_of_different_classes_are_not_equal() -> None:
    kinds: list[object] = [Cup(), Pot(), "Cup"]
    assert [each == kinds[0] for each in kinds] == [True, False, False]


def test_equal_messages_have_equal_hashes() -> None:
    assert {Cup(tea="oolong"): 1}[Cup(tea="oolong")] == 1
    assert hash(Cup()) != hash(Cup(size_ml=1))


def test_repr_shows_the_fields() -> None:
    assert repr(Cup(tea="oolong")) == "Cup(tea='oolong', size_ml=200)"
