"""A request of a client with a quota.

Its cost is known when it is answered; its connection may then be muted.

Note: while a request waits in a purgatory or for the controller, it uses no request time. It is
charged for the time until it began to wait.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any, cast

from headwater.broker.requests.call import Call, CallCounters
from headwater.broker.requests.quota_managers import LONGEST_MS, QuotaKind, QuotaManagers
from headwater.network.request_service import ResponseSlot
from headwater.protocol import send_parts as wire_parts
from headwater.protocol.api_key import ApiKey
from headwater.protocol.codec import Encoded, read, response_class, write_response
from headwater.protocol.headers import RequestHeader, response_body_position, response_frame
from headwater.protocol.older_versions import Message
from headwater.security.quotas.rate_quota import QuotaClient


class ThrottledCall(Call):
    """A `Call` that is charged to its client's quotas."""

    __slots__ = ("_is_charged", "_size_bytes", "_throttling", "_work_ns", "quota_client")

    def __init__(
        self,
        header: RequestHeader,
        slot: ResponseSlot,
        counters: CallCounters,
        started_ns: int,
        *,
        throttling: QuotaManagers,
        quota_client: QuotaClient,
        size_bytes: int,
    ) -> None:
        super().__init__(header, slot, counters, started_ns)
        self.quota_client = quota_client
        self._throttling = throttling
        self._size_bytes = size_bytes
        self._work_ns: int | None = None
        self._is_charged = False

    def waits(self) -> None:
        """The handler has returned; time until a later response is not charged."""
        self._work_ns = perf_counter_ns() - self._started_ns

    def exempt(self) -> None:
        """Charge nothing: the request is from an authorized broker."""
        self._is_charged = True

    def fetch_limit_bytes(self, max_bytes: int) -> int:
        """Limit a consumer's max_bytes to its quota (FT-1)."""
        most = self._throttling.clients.fetch.max_burst(self.quota_client)
        return max_bytes if most is None else min(max_bytes, int(most))

    def throttle_fetch(self, size_bytes: int) -> int:
        """Return 0 if a consumer may fetch this much now, else its throttle time.

        The response to a throttled fetch must be empty.
        """
        self._is_charged = True
        now_ms = self._throttling.now_ms()
        quotas = self._throttling.clients
        of_bytes_ms = quotas.fetch.charge_if_within(self.quota_client, size_bytes, now_ms)
        return self._worst(QuotaKind.FETCH, of_bytes_ms, now_ms)

    def run_steps(self, steps: Iterator[None], size_bytes: int = 0) -> None:
        super().run_steps(self._measured(steps), size_bytes)

    def _measured(self, steps: Iterator[None]) -> Iterator[None]:
        """Measure the time of the steps as the request's time."""
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
        return cast("Message", _with_throttle_time(response, self.version, throttle_ms))

    def answer(self, response: Message | Encoded) -> None:
        throttle_ms = self._charge(_throttle_of(response))
        super().answer(
            _with_throttle_time(response, self.version, throttle_ms) if throttle_ms else response
        )

    def answer_content(self, content: bytes) -> None:
        """Answer with the controller's response, which may have its own throttle time."""
        api, version = self.header.api, self.version
        frame = memoryview(content)
        body = frame[response_body_position(api, version, frame) :]
        response = read(response_class(api.key), version, body)
        response_throttle_ms = _throttle_of(response)
        throttle_ms = self._charge(response_throttle_ms)
        if throttle_ms > response_throttle_ms:
            encoded = write_response(_with_throttle_time(response, version, throttle_ms), version)
            self.answer_frame(response_frame(api, version, self.header.correlation_id, encoded))
        else:
            super().answer_content(content)

    def answer_frame(self, frame: Sequence[wire_parts.Part]) -> None:
        self._charge(0)
        super().answer_frame(frame)

    def finish(self) -> None:
        self._charge(0)
        super().finish()

    def _charge(self, response_throttle_ms: int) -> int:
        """Charge the request once and return its throttle time.

        `response_throttle_ms` is the throttle time that the response already has.
        """
        if self._is_charged:
            return response_throttle_ms
        self._is_charged = True
        now_ms = self._throttling.now_ms()
        if self.header.api.key is not ApiKey.PRODUCE:
            return self._worst(QuotaKind.CONTROLLER_MUTATION, response_throttle_ms, now_ms)
        produce = self._throttling.clients.produce
        of_bytes_ms = produce.charge(self.quota_client, self._size_bytes, now_ms)
        return self._worst(QuotaKind.PRODUCE, of_bytes_ms, now_ms)

    def _worst(self, kind: QuotaKind, throttle_ms: int, now_ms: int) -> int:
        """Charge the request time too; mute the connection for the longer throttle time."""
        work_ns = self._work_ns
        if work_ns is None:
            work_ns = perf_counter_ns() - self._started_ns
        of_time_ms = self._throttling.clients.worked(self.quota_client, work_ns, now_ms)
        if of_time_ms > throttle_ms:
            kind, throttle_ms = QuotaKind.REQUEST, of_time_ms
        throttle_ms = min(throttle_ms, LONGEST_MS)
        if throttle_ms > 0:
            self._throttling.mute(self._slot.connection, kind, throttle_ms)
        return throttle_ms


def _throttle_of(response: Message | Encoded) -> int:
    return 0 if isinstance(response, Encoded) else getattr(response, "throttle_time_ms", 0)


def _with_throttle_time(
    response: Message | Encoded, version: int, throttle_ms: int
) -> Message | Encoded:
    """Set the throttle time of a response, if it has that field."""
    if isinstance(response, Encoded):
        # ApiVersions of an unknown version is answered in version 0, which lacks the field.
        if response.version != version:
            return response
        shape = response_class(response.api)
        return _with_throttle_time(
            read(shape, version, memoryview(response.body)), version, throttle_ms
        )
    if not hasattr(response, "throttle_time_ms"):
        return response
    return cast("Message", replace(cast("Any", response), throttle_time_ms=throttle_ms))
