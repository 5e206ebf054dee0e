"""Makes the topics that a pipeline says may be made: of its sinks, and of its dead letters."""

from collections.abc import Iterator

from headwater.client import Admin, NewTopic
from headwater.client.errors import TopicAlreadyExists
from headwater.client.settings import shared_settings
from headwater.pipeline.jobs.spec import NewTopicSpec, PipelineSpec
from headwater.pipeline.jobs.topic_options import topic_options
from headwater.pipeline.sink_options import read_sink_options


def create_topics(spec: PipelineSpec) -> None:
    """Those that are not there yet."""
    for options, new in _wanted(spec):
        read = read_sink_options(topic_options(spec, options), is_streaming=True)
        assert read.topic is not None, "refused when the pipeline was checked"
        with Admin(shared_settings(read.client)) as admin:
            if read.topic in admin.list_topics():
                continue
            topic = NewTopic(
                name=read.topic,
                partitions=new.partitions,
                replication_factor=new.replication_factor,
                configs=dict(new.configs),
            )
            try:
                admin.create_topics([topic])
            except TopicAlreadyExists:
                continue


def _wanted(spec: PipelineSpec) -> Iterator[tuple[dict[str, str], NewTopicSpec]]:
    for sink in spec.sinks:
        if sink.create is not None:
            yield dict(sink.options), sink.create
    if spec.dead_letter is not None:
        yield {"topic": spec.dead_letter}, NewTopicSpec()
