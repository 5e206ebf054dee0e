"""Immutable mapping with cheap modified copies.

A copy shares the large base with its predecessor and has its own small layer of changes. When the
layer outgrows the square root of the base, both are merged into a new base. So one change among n
entries costs about √n steps, and the old mapping stays as it was.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_SMALLEST_FOLD: Final = 64


class _Removed:
    __slots__ = ()


_REMOVED: Final = _Removed()


class ImmutableMap(Mapping[K, V], Generic[K, V]):
    """A read-only mapping; `changed` returns a modified copy."""

    __slots__ = ("_base", "_layer", "_length")

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = dict(entries or {})
        self._layer: dict[K, V | _Removed] = {}
        self._length = len(self._base)

    def changed(self, changes: Mapping[K, V | None]) -> "ImmutableMap[K, V]":
        """Return a copy with other values; None removes an entry if it exists."""
        if not changes:
            return self
        layer = self._layer.copy()
        length = self._length
        for key, value in changes.items():
            length += (value is not None) - (key in self)
            layer[key] = _REMOVED if value is None else value
        successor: ImmutableMap[K, V] = ImmutableMap.__new__(ImmutableMap)
        successor._base, successor._layer = self._base, layer
        successor._length = length
        if len(layer) > _SMALLEST_FOLD and len(layer) ** 2 > len(self._base):
            successor._fold()
        return successor

    def _fold(self) -> None:
        base = self._base.copy()
        for key, value in self._layer.items():
            if isinstance(value, _Removed):
                base.pop(key, None)
            else:
                base[key] = value
        self._base, self._layer = base, {}

    def __getitem__(self, key: K) -> V:
        value = self._layer.get(key)
        if value is None:
            return self._base[key]
        if isinstance(value, _Removed):
            raise KeyError(key)
        return value

    # The base class raises an exception for every missing key, and a request may name thousands of
    # topics that do not exist.

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...

    def get(self, key: K, /, default: object = None) -> object:
        value = self._layer.get(key)
        if value is None:
            return self._base.get(key, default)
        return default if value is _REMOVED else value

    def __contains__(self, key: object) -> bool:
        value = self._layer.get(cast(K, key))
        return key in self._base if value is None else value is not _REMOVED

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        """In order of insertion; a key removed and added again may keep its place."""
        layer = self._layer
        for key in self._base:
            if layer.get(key) is not _REMOVED:
                yield key
        for key, value in layer.items():
            if value is not _REMOVED and key not in self._base:
                yield key

    def __repr__(self) -> str:
        return f"ImmutableMap({dict(self)!r})"
