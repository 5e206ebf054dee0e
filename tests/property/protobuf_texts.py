"""Random .proto files: trees that are valid, and text that is not."""

from hypothesis import strategies as st

from headwater.schemas.protobuf.schema import (
    EnumType,
    EnumValue,
    Field,
    FieldType,
    MapType,
    MessageType,
    Oneof,
    ProtoFile,
)

SCALARS = (
    *("bool", "bytes", "double", "float", "int32", "int64", "string", "uint32", "uint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "sint32", "sint64"),
)
KEYS = ("bool", "int32", "int64", "string", "uint32", "uint64", "sint32", "sint64")
_WORDS = (
    "message enum oneof map group option reserved extend extensions service rpc returns stream",
    "import public package syntax edition optional required repeated to max default string int32",
    "A B .a a.b 1 0x1 -1 1.5 { } [ ] ( ) < > ; : , = . + - \" ' \\ // /* */ \n true",
)
WORDS = [word for line in _WORDS for word in line.split(" ")]

word_soup = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)
any_text = st.one_of(st.text(max_size=200), word_soup)


@st.composite
def proto_files(draw: st.DrawFn) -> ProtoFile:
    """A proto3 file whose messages use each other, nested types included."""
    count = draw(st.integers(1, 4))
    names = [f"M{number}" for number in range(count)]
    types = [*names, "Kind", *(f"{name}.Inner" for name in names)]
    return ProtoFile(
        syntax="proto3",
        package=draw(st.sampled_from(["", "shop", "shop.v1"])),
        messages=tuple(
            draw(messages(name, types, [MessageType(name="Inner", fields=draw(fields(types)))]))
            for name in names
        ),
        enums=(EnumType(name="Kind", values=draw(enum_values())),),
    )


@st.composite
def enum_values(draw: st.DrawFn) -> tuple[EnumValue, ...]:
    numbers = draw(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4, unique=True))
    return tuple(
        EnumValue(name=f"VALUE_{at}", number=number)
        for at, number in enumerate([0, *(each for each in numbers if each)])
    )


@st.composite
def messages(draw: st.DrawFn, name: str, types: list[str], inner: list[MessageType]) -> MessageType:
    every = list(draw(fields(types)))
    in_oneof = [
        each for each in every if each.label is None and not isinstance(each.type, MapType)
    ][: draw(st.integers(0, 3))]
    oneofs = (Oneof(name="choice", fields=tuple(in_oneof)),) if in_oneof else ()
    return MessageType(
        name=name,
        fields=tuple(each for each in every if each not in in_oneof),
        oneofs=oneofs,
        messages=tuple(inner),
    )


@st.composite
def fields(draw: st.DrawFn, types: list[str]) -> tuple[Field, ...]:
    numbers = draw(
        st.lists(
            st.one_of(st.integers(1, 40), st.integers(20_000, 2**29 - 1)), max_size=6, unique=True
        )
    )
    kinds: st.SearchStrategy[FieldType] = st.one_of(
        st.sampled_from(SCALARS),
        st.sampled_from(types),
        st.builds(MapType, st.sampled_from(KEYS), st.sampled_from([*SCALARS, *types])),
    )
    found = []
    for at, number in enumerate(numbers):
        kind = draw(kinds)
        label = None
        if not isinstance(kind, MapType):
            label = draw(st.sampled_from([None, "optional", "repeated"]))
        found.append(Field(name=f"field_{at}", number=number, type=kind, label=label))
    return tuple(found)
