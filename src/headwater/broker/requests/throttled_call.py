"""A request of a client that has a quota.

What it has used is known when it is answered, and then its client may have to wait. What a reader
would get wrong: a request that waits, for other replicas or for the controller, uses no time
meanwhile. It is charged for what it took until it began to wait.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any, cast

from headwater.broker.requests.call import Account, Call
from headwater.broker.requests.quota_managers import LONGEST_MS, QuotaKind, QuotaManagers
from headwater.network.request_service import ReplySlot
from headwater.protocol import send_parts as wire_parts
from headwater.protocol.api_key import ApiKey
from headwater.protocol.codec import Encoded, read, response_class, write_response
from headwater.protocol.headers import RequestHeader, response_body_position, response_frame
from headwater.protocol.older_versions import Message
from headwater.security.quotas.rate_quota import QuotaClient


class ThrottledCall(Call):
    """See the module."""

    __slots__ = ("_is_charged", "_size_bytes", "_throttling", "_work_ns", "who")

    def __init__(
        self,
        header: RequestHeader,
        slot: ReplySlot,
        account: Account,
        started_ns: int,
        *,
        throttling: QuotaManagers,
        who: QuotaClient,
        size_bytes: int,
    ) -> None:
        super().__init__(header, slot, account, started_ns)
        self.who = who
        self._throttling = throttling
        self._size_bytes = size_bytes
        self._work_ns: int | None = None
        self._is_charged = False

    def waits(self) -> None:
        """Its handler has returned; if it is not answered yet, it takes no more time."""
        self._work_ns = perf_counter_ns() - self._started_ns

    def exempt(self) -> None:
        """It is from a broker that may do this, and nothing is charged for it."""
        self._is_charged = True

    def most_fetched_bytes(self, max_bytes: int) -> int:
        """What the quota allows of what a consumer asks for (FT-1)."""
        most = self._throttling.clients.fetch.most_at_once(self.who)
        return max_bytes if most is None else min(max_bytes, int(most))

    def throttle_fetch(self, size_bytes: int) -> int:
        """For a consumer that would get so much: 0 if it may, else for how long it must wait.

        The answer to one that must wait has to say so, and nothing else.
        """
        self._is_charged = True
        now_ms = self._throttling.now_ms()
        quotas = self._throttling.clients
        of_bytes_ms = quotas.fetch.charge_if_within(self.who, size_bytes, now_ms)
        return self._worst(QuotaKind.FETCH, of_bytes_ms, now_ms)

    def work(self, steps: Iterator[None], size_bytes: int = 0) -> None:
        super().work(self._measured(steps), size_bytes)

    def _measured(self, steps: Iterator[None]) -> Iterator[None]:
        """The same steps; what they take is what the request took."""
        while True:
            began_ns = perf_counter_ns()
            self._work_ns = self._work_ns or 0
            try:
                next(steps)
            except StopIteration:
                return
            finally:
                self._work_ns += perf_counter_ns() - began_ns
            yield

    def complete(self, response: Message) -> Message:
        throttle_ms = self._charge(_throttle_of(response))
        if not throttle_ms:
            return response
        return cast("Message", _saying(response, self.version, throttle_ms))

    def answer(self, response: Message | Encoded) -> None:
        throttle_ms = self._charge(_throttle_of(response))
        super().answer(_saying(response, self.version, throttle_ms) if throttle_ms else response)

    def answer_content(self, content: bytes) -> None:
        """What another broker has written may say that its client shall wait, for partitions."""
        api, version = self.header.api, self.version
        frame = memoryview(content)
        body = frame[response_body_position(api, version, frame) :]
        response = read(response_class(api.key), version, body)
        said_ms = _throttle_of(response)
        throttle_ms = self._charge(said_ms)
        if throttle_ms > said_ms:
            told = write_response(_saying(response, version, throttle_ms), version)
            self.answer_frame(response_frame(api, version, self.header.correlation_id, told))
        else:
            super().answer_content(content)

    def answer_frame(self, frame: Sequence[wire_parts.Part]) -> None:
        self._charge(0)
        super().answer_frame(frame)

    def finish(self) -> None:
        self._charge(0)
        super().finish()

    def _charge(self, said_ms: int) -> int:
        """Once, and how long the client shall wait. `said_ms` is what the answer says already."""
        if self._is_charged:
            return said_ms
        self._is_charged = True
        now_ms = self._throttling.now_ms()
        if self.header.api.key is not ApiKey.PRODUCE:
            return self._worst(QuotaKind.CONTROLLER_MUTATION, said_ms, now_ms)
        produce = self._throttling.clients.produce
        of_bytes_ms = produce.charge(self.who, self._size_bytes, now_ms)
        return self._worst(QuotaKind.PRODUCE, of_bytes_ms, now_ms)

    def _worst(self, kind: QuotaKind, throttle_ms: int, now_ms: int) -> int:
        """Charge the time too, and mute the connection for the longer of both waits."""
        work_ns = self._work_ns
        if work_ns is None:
            work_ns = perf_counter_ns() - self._started_ns
        of_time_ms = self._throttling.clients.worked(self.who, work_ns, now_ms)
        if of_time_ms > throttle_ms:
            kind, throttle_ms = QuotaKind.REQUEST, of_time_ms
        throttle_ms = min(throttle_ms, LONGEST_MS)
        if throttle_ms > 0:
            self._throttling.mute(self._slot.connection, kind, throttle_ms)
        return throttle_ms


def _throttle_of(response: Message | Encoded) -> int:
    return 0 if isinstance(response, Encoded) else getattr(response, "throttle_time_ms", 0)


def _saying(response: Message | Encoded, version: int, throttle_ms: int) -> Message | Encoded:
    """The same answer, with the time that its client shall wait, if it has a place for it."""
    if isinstance(response, Encoded):
        # An ApiVersions from the future is answered in version 0, which has no place for it.
        if response.version != version:
            return response
        shape = response_class(response.api)
        return _saying(read(shape, version, memoryview(response.body)), version, throttle_ms)
    if not hasattr(response, "throttle_time_ms"):
        return response
    return cast("Message", replace(cast("Any", response), throttle_time_ms=throttle_ms))
