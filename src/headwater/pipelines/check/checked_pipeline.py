"""Read and check a pipeline file, for `check`, `run` and tests."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headwater.pipelines.check.avro_check import Registries
from headwater.pipelines.check.connector_port import Connectors
from headwater.pipelines.check.pipeline_check import Grammar, Topics, check_pipeline
from headwater.pipelines.spec.document import Document, InvalidPipeline, PipelineProblem
from headwater.pipelines.spec.load_document import load_document
from headwater.pipelines.spec.pipeline_reader import read_pipeline
from headwater.pipelines.spec.pipeline_spec import PipelineSpec, Trigger
from headwater.pipelines.spec.written_secrets import secret_warnings


def read_file(
    file: Path,
    *,
    bootstrap: str | None = None,
    settings: Path | None = None,
    master: str | None = None,
) -> tuple[Document, PipelineSpec, list[PipelineProblem]]:
    """Read a pipeline; arguments override the file. Raises `InvalidPipeline`."""
    document = load_document(file)
    spec, problems = read_pipeline(document)
    if bootstrap is not None:
        spec = replace(spec, bootstrap=bootstrap)
    if settings is not None:
        spec = replace(spec, settings=settings.resolve())
    if master is not None:
        spec = replace(spec, master=master)
    return document, spec, problems


def checked(
    file: Path,
    *,
    bootstrap: str | None,
    connectors: Connectors,
    grammar: Grammar | None,
    topics: Topics | None,
    registries: Registries | None = None,
    settings: Path | None = None,
    master: str | None = None,
    warn: Callable[[PipelineProblem], None] = lambda _: None,
) -> PipelineSpec:
    """Read and check a pipeline. `InvalidPipeline` has all problems that were found.

    `warn` is called with each problem that does not prevent a run.
    """
    document, spec, problems = read_file(
        file, bootstrap=bootstrap, settings=settings, master=master
    )
    for each in secret_warnings(document):
        warn(each)
    problems += check_pipeline(
        document,
        spec,
        connectors=connectors,
        grammar=grammar,
        topics=topics,
        registries=registries,
    )
    if problems:
        raise InvalidPipeline(sorted(problems, key=lambda each: each.line))
    return spec


def only_once(spec: PipelineSpec) -> PipelineSpec:
    """Return the pipeline with triggers that end when all available data is written."""
    return replace(spec, sinks=tuple(replace(each, trigger=Trigger()) for each in spec.sinks))
