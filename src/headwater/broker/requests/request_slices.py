"""Answer large requests in slices; other connections are served in between.

A request about many groups, topics or resources is split into requests about a few, which its
handler answers one after the other; their responses are joined into one. Decoding the request and
encoding the response are done in steps as well (see `headwater.protocol.stepwise_codec`).

Only requests whose elements are independent of each other can be split. Others are only decoded in
steps; `request_limits` allows them fewer elements. Fetch, Produce and OffsetCommit have their own
steps.

Note: duplicate elements are dropped before the request is split. Kafka answers a group, topic or
config resource as often as a request repeats it, so that a few bytes each make a response of any
size; here it is answered once. Clients send sets.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.broker.requests.request_handler import answer
from headwater.common.ids import NO_TOPIC_ID
from headwater.protocol.api_key import ApiKey
from headwater.protocol.codec import Encoded
from headwater.protocol.messages.metadata import MetadataRequestTopic
from headwater.protocol.older_versions import Message
from headwater.protocol.stepwise_codec import write_in_steps

_READ_WHOLE_BYTES: Final = 16_384
"""Requests that cannot be split are still decoded in steps if they are larger than this."""

_FRAME_BYTES: Final = 512
"""Smaller frames are answered whole, whatever they contain, except for DescribeConfigs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slicing:
    """How requests of an API are split and their responses joined."""

    # Names of the array fields in request and response.
    request_array: str
    response_array: str
    # Elements per slice: a few milliseconds of work.
    count: int
    # Inner arrays that are split too, and the field that identifies the outer element.
    inner_request_array: str | None = None
    inner_response_array: str | None = None
    name: str = "name"
    # Key of elements that need only one answer; None to answer all.
    identity: Callable[[Any], Hashable] | None = None
    # Key of elements that contradict each other: the handler must see two of them in one slice, to
    # reject both.
    conflict: Callable[[Any], Hashable] | None = None
    # The same for elements of the inner array.
    conflict_within: Callable[[Any], Hashable] | None = None
    # Selects the elements to answer.
    relevant: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    whole_bytes: int = _FRAME_BYTES

    def is_large(self, request: Message) -> bool:
        return self._size_of(getattr(request, self.request_array)) > self.count

    def split(self, request: Message) -> Iterator[Message]:
        """Split into requests about a few elements each; at least one."""
        slice_: list[Any] = []
        size = slices = 0
        elements = getattr(request, self.request_array) or ()
        for unit in self._units(elements if self.relevant is None else self.relevant(elements)):
            slice_ += unit
            size += self._size_of(unit)
            if size >= self.count:
                yield _with(request, **{self.request_array: tuple(slice_)})
                slice_, size, slices = [], 0, slices + 1
        if slice_:
            yield _with(request, **{self.request_array: tuple(slice_)})
        elif not slices:
            yield request

    def join(self, responses: Sequence[Message]) -> Generator[None, None, Message]:
        """Join the responses, in steps. An error of one slice is an error of the whole."""
        joined = _Joined(self)
        for response in responses:
            joined.add(getattr(response, self.response_array))
            yield
        base = next((each for each in responses if getattr(each, "error_code", 0)), responses[0])
        fields: dict[str, object] = {self.response_array: joined.elements()}
        if hasattr(base, "throttle_time_ms"):
            fields["throttle_time_ms"] = max(each.throttle_time_ms for each in _any(responses))
        whole: Message = _with(base, **fields)
        return whole

    def _size_of(self, elements: Sequence[Any] | None) -> int:
        count = len(elements or ())
        if self.inner_request_array is not None:
            count += sum(
                len(getattr(each, self.inner_request_array) or ()) for each in elements or ()
            )
        return count

    def _units(self, elements: Iterable[Any]) -> Iterator[list[Any]]:
        """Group elements that must stay together and drop duplicates."""
        if self.conflict is not None:
            yield from _together(elements, self.conflict)
            return
        seen: set[Hashable] = set()
        for each in elements:
            if self.identity is not None:
                key = self.identity(each)
                if key in seen:
                    continue
                if key is not None:
                    seen.add(key)
            for piece in self._pieces(each):
                yield [piece]

    def _pieces(self, element: Any) -> Iterator[Any]:
        inner = (
            ()
            if self.inner_request_array is None
            else getattr(element, self.inner_request_array) or ()
        )
        if len(inner) <= self.count:
            yield element
            return
        part: list[Any] = []
        for unit in _together(inner, self.conflict_within) if self.conflict_within else zip(inner):
            part += unit
            if len(part) >= self.count:
                yield _with(element, **{str(self.inner_request_array): tuple(part)})
                part = []
        if part:
            yield _with(element, **{str(self.inner_request_array): tuple(part)})


class _Joined:
    """Elements of a joined response; neighbours with the same name are merged."""

    def __init__(self, slicing: Slicing) -> None:
        self._within = slicing.inner_response_array
        self._name = slicing.name
        self._done: list[Any] = []
        self._last: Any = None
        self._inner: list[Any] = []

    def add(self, elements: Iterable[Any]) -> None:
        if self._within is None:
            self._done += elements
            return
        for each in elements:
            if self._last is None or getattr(each, self._name) != getattr(self._last, self._name):
                self._end()
                self._last = each
            self._inner += getattr(each, self._within)

    def elements(self) -> tuple[Any, ...]:
        self._end()
        return tuple(self._done)

    def _end(self) -> None:
        if self._last is not None:
            self._done.append(_with(self._last, **{str(self._within): tuple(self._inner)}))
            self._last, self._inner = None, []


def _together(elements: Iterable[Any], key: Callable[[Any], Hashable]) -> Iterator[list[Any]]:
    """Group elements by key, at most two per group."""
    found: dict[Hashable, list[Any]] = {}
    for each in elements:
        unit = found.setdefault(key(each), [])
        if len(unit) < 2:
            unit.append(each)
    yield from found.values()


def _with(message: Any, **fields: object) -> Any:
    return replace(message, **fields)


def _any(messages: Sequence[Message]) -> Sequence[Any]:
    return messages


def _identity(element: Hashable) -> Hashable:
    return element


def _by_id_if_any(topics: Sequence[MetadataRequestTopic]) -> Sequence[MetadataRequestTopic]:
    """Drop topics by name if there are topics by id, as Kafka 4.1 does."""
    return [each for each in topics if each.topic_id != NO_TOPIC_ID] or topics


SLICED: Final = {
    ApiKey.METADATA: Slicing(
        request_array="topics",
        response_array="topics",
        count=100,
        identity=lambda each: (each.topic_id, each.name),
        relevant=_by_id_if_any,
    ),
    ApiKey.DESCRIBE_GROUPS: Slicing(
        request_array="groups", response_array="groups", count=100, identity=_identity
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Slicing(
        request_array="group_ids", response_array="groups", count=100, identity=_identity
    ),
    ApiKey.DELETE_GROUPS: Slicing(
        request_array="groups_names", response_array="results", count=100, identity=_identity
    ),
    ApiKey.FIND_COORDINATOR: Slicing(
        request_array="coordinator_keys",
        response_array="coordinators",
        count=50,
        identity=_identity,
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Slicing(
        request_array="transactional_ids",
        response_array="transaction_states",
        count=50,
        identity=_identity,
    ),
    ApiKey.DESCRIBE_CONFIGS: Slicing(
        request_array="resources",
        response_array="results",
        count=2,
        identity=lambda each: (
            each.resource_type,
            each.resource_name,
            each.configuration_keys,
        ),
        whole_bytes=0,
    ),
    ApiKey.OFFSET_FETCH: Slicing(
        request_array="groups",
        response_array="groups",
        count=50,
        inner_request_array="topics",
        inner_response_array="topics",
        name="group_id",
        # Requests for all offsets of a group are answered once, others as often as they occur.
        identity=lambda each: each.group_id if each.topics is None else None,
    ),
    ApiKey.LIST_OFFSETS: Slicing(
        request_array="topics",
        response_array="topics",
        count=50,
        inner_request_array="partitions",
        inner_response_array="partitions",
        conflict_within=lambda each: each.partition_index,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Slicing(
        request_array="topics",
        response_array="topics",
        count=100,
        inner_request_array="partitions",
        inner_response_array="partitions",
        name="topic",
    ),
    ApiKey.DELETE_RECORDS: Slicing(
        request_array="topics",
        response_array="topics",
        count=100,
        inner_request_array="partitions",
        inner_response_array="partitions",
    ),
    ApiKey.CREATE_TOPICS: Slicing(
        request_array="topics", response_array="topics", count=100, conflict=lambda each: each.name
    ),
    ApiKey.CREATE_PARTITIONS: Slicing(
        request_array="topics", response_array="results", count=100, conflict=lambda each: each.name
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Slicing(
        request_array="resources",
        response_array="responses",
        count=100,
        conflict=lambda each: (each.resource_type, each.resource_name),
    ),
    ApiKey.ALTER_CONFIGS: Slicing(
        request_array="resources",
        response_array="responses",
        count=100,
        conflict=lambda each: (each.resource_type, each.resource_name),
    ),
}


def whole_bytes(key: ApiKey) -> int:
    """Return the size up to which a request is decoded in one piece."""
    slicing = SLICED.get(key)
    return _READ_WHOLE_BYTES if slicing is None else slicing.whole_bytes


def answer_in_steps(broker: ControllerContext, call: Call, request: Message) -> Iterator[None]:
    """Serve a request, slice by slice if it is large and can be split.

    The last step, or a later callback, answers the call.
    """
    slicing = SLICED.get(request.api)
    if slicing is None or not slicing.is_large(request):
        response = answer(broker, call, request)
        if response is not None:
            call.answer(response)
        return
    answers = _Answers(call, slicing)
    for part in slicing.split(request):
        of_part = _SliceCall(call, answers.expect())
        response = answer(broker, of_part, part)
        if response is not None:
            of_part.answer(response)
        if call.is_disconnected:
            return
        yield
    yield from answers.finish()


class _Answers:
    """The responses to all slices, some of which may come later."""

    def __init__(self, call: Call, slicing: Slicing) -> None:
        self._call = call
        self._slicing = slicing
        self._responses: list[Message | None] = []
        self._missing = 0
        self._has_all_slices = False

    def expect(self) -> Callable[[Message], None]:
        index = len(self._responses)
        self._responses.append(None)
        self._missing += 1

        def put(response: Message) -> None:
            self._responses[index] = response
            self._missing -= 1
            if self._has_all_slices and not self._missing and not self._call.is_disconnected:
                self._call.run_steps(self._answer())

        return put

    def finish(self) -> Iterator[None]:
        self._has_all_slices = True
        if not self._missing:
            yield from self._answer()

    def _answer(self) -> Iterator[None]:
        call = self._call
        responses = [each for each in self._responses if each is not None]
        joined = yield from self._slicing.join(responses)
        body = yield from write_in_steps(call.complete(joined), call.version)
        call.answer_body(body)


class _SliceCall(Call):
    """The call of one slice; its response becomes part of the whole call's response."""

    __slots__ = ("_is_put", "_put", "_whole")

    def __init__(self, whole: Call, put: Callable[[Message], None]) -> None:
        super().__init__(whole.header, whole._slot, whole._counters, whole._started_ns)
        self._whole = whole
        self._put = put
        self._is_put = False

    @property
    def is_answered(self) -> bool:
        return self._is_put

    def answer(self, response: Message | Encoded) -> None:
        assert not self._is_put, "a request is answered once"
        assert not isinstance(response, Encoded), "slices have no cached response"
        self._is_put = True
        self._count_errors(response)
        self._put(response)

    def answer_frame(self, frame: object) -> None:
        raise AssertionError(f"{self} is a slice and has no frame: {frame!r}")

    def hold(self) -> None:
        """Ignored: the whole call is held."""
