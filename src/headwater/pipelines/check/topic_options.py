"""Options that all topics of a pipeline share: brokers and client settings."""

from collections.abc import Mapping
from typing import Final

from headwater.pipelines.spec.pipeline_spec import PipelineSpec
from headwater.spark.settings_files import SETTINGS_FILE

BOOTSTRAP: Final = "kafka.bootstrap.servers"


def topic_options(spec: PipelineSpec, options: Mapping[str, str]) -> dict[str, str]:
    """A topic's options, completed with the pipeline's brokers and settings."""
    usual = {
        BOOTSTRAP: spec.bootstrap,
        SETTINGS_FILE: None if spec.settings is None else str(spec.settings),
    }
    named = {name.lower() for name in options}
    default = {
        name: text for name, text in usual.items() if text is not None and name.lower() not in named
    }
    return {**default, **options}
