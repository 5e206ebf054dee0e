"""Publish a run's state to a topic; watch the topic for stop requests.

Runs in its own thread. Unreachable brokers must not stop the pipeline: a failure is logged once,
and the next heartbeat is another attempt.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final, Self

from headwater.common.exceptions import HeadwaterError
from headwater.pipelines.run.run_files import RunReport
from headwater.pipelines.run.run_records import HEARTBEAT_MS
from headwater.pipelines.run.run_topic import RunTopic

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 1.0
_LAST_REPORT_S: Final = 10.0


class RunPublisher:
    """Publishes the state: changes at once, otherwise with each heartbeat."""

    def __init__(
        self,
        client: Mapping[str, str],
        *,
        request_stop: Callable[[], None],
        steady_ms: Callable[[], int],
        open_topic: Callable[[Mapping[str, str]], RunTopic] = RunTopic,
    ) -> None:
        self._client = client
        self._open_topic = open_topic
        self._ask_to_stop = request_stop
        self._steady_ms = steady_ms
        self._changed = threading.Condition()
        self._report: RunReport | None = None
        self._published: RunReport | None = None
        self._published_ms = 0
        self._is_over = False
        self._has_asked = False
        self._thread = threading.Thread(target=self._run, name="run-publisher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join(_LAST_REPORT_S)

    def publish(self, report: RunReport) -> None:
        with self._changed:
            is_new = self._report is None or self._report.state != report.state
            self._report = report
            if is_new:
                self._changed.notify()

    def _run(self) -> None:
        topic: RunTopic | None = None
        is_over = False
        failure: str | None = None
        while not is_over:
            with self._changed:
                if not self._is_over:
                    self._changed.wait(_LOOK_EVERY_S if failure is None else HEARTBEAT_MS / 1000)
                is_over, report = self._is_over, self._report
            try:
                if topic is None:
                    topic = self._open_topic(self._client)
                    topic.create()
                self._publish(topic, report)
                self._look_for_stop(topic, report)
                failure = None
            except HeadwaterError as error:
                if str(error) != failure:
                    failure = str(error)
                    _log.warning("Could not publish the state of the run: error=%s", failure)
        if topic is not None:
            topic.__exit__()

    def _publish(self, topic: RunTopic, report: RunReport | None) -> None:
        if report is None or report == self._published:
            return
        is_due = self._steady_ms() - self._published_ms >= HEARTBEAT_MS
        if is_due or self._published is None or report.state != self._published.state:
            topic.publish(report)
            self._published, self._published_ms = report, self._steady_ms()

    def _look_for_stop(self, topic: RunTopic, report: RunReport | None) -> None:
        if report is None or self._has_asked:
            return
        if topic.refresh().is_stop_requested(report.name, report.started_ms):
            self._has_asked = True
            self._ask_to_stop()
