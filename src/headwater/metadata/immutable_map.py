"""A mapping that never changes and whose successors are cheap.

A successor shares the large base with its predecessor and copies only a small layer of changes on
top. When the layer has outgrown the square root of the base, both are folded into a new base; so a
single change among n entries costs about √n steps, and the old mapping stays as it was.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_SMALLEST_FOLD: Final = 64


class _Gone:
    __slots__ = ()


_GONE: Final = _Gone()


class ImmutableMap(Mapping[K, V], Generic[K, V]):
    """Read it as any mapping; `changed` gives the successor."""

    __slots__ = ("_base", "_layer", "_length")

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = dict(entries or {})
        self._layer: dict[K, V | _Gone] = {}
        self._length = len(self._base)

    def changed(self, changes: Mapping[K, V | None]) -> "ImmutableMap[K, V]":
        """The same mapping with other values; None removes an entry, or removes nothing."""
        if not changes:
            return self
        layer = self._layer.copy()
        length = self._length
        for key, value in changes.items():
            length += (value is not None) - (key in self)
            layer[key] = _GONE if value is None else value
        successor: ImmutableMap[K, V] = ImmutableMap.__new__(ImmutableMap)
        successor._base, successor._layer = self._base, layer
        successor._length = length
        if len(layer) > _SMALLEST_FOLD and len(layer) ** 2 > len(self._base):
            successor._fold()
        return successor

    def _fold(self) -> None:
        base = self._base.copy()
        for key, value in self._layer.items():
            if isinstance(value, _Gone):
                base.pop(key, None)
            else:
                base[key] = value
        self._base, self._layer = base, {}

    def __getitem__(self, key: K) -> V:
        value = self._layer.get(key)
        if value is None:
            return self._base[key]
        if isinstance(value, _Gone):
            raise KeyError(key)
        return value

    # Through the base class the next two would cost an exception for every missing key, and a
    # request may name thousands of topics that do not exist.

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...

    def get(self, key: K, /, default: object = None) -> object:
        value = self._layer.get(key)
        if value is None:
            return self._base.get(key, default)
        return default if value is _GONE else value

    def __contains__(self, key: object) -> bool:
        value = self._layer.get(cast(K, key))
        return key in self._base if value is None else value is not _GONE

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        """The order of insertion, except that a key removed and put back may keep its old place."""
        layer = self._layer
        for key in self._base:
            if layer.get(key) is not _GONE:
                yield key
        for key, value in layer.items():
            if value is not _GONE and key not in self._base:
                yield key

    def __repr__(self) -> str:
        return f"LayeredMap({dict(self)!r})"
