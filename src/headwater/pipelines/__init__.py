"""Pipelines from YAML, TOML or Python files: read, check, run.

    from headwater.pipelines import pipeline

Start with `spec.pipeline_spec`, then `check.pipeline_check` and `run.pipeline_run`.
"""

from headwater.pipelines.spec.python_document import pipeline

__all__ = ["pipeline"]
