"""Run a pipeline's file on given records and compare what its sinks got.

Start with `pipeline_test`, the class behind the fixture of the same name; `sink_rows` has the
result. Imported on first use, because it needs pyspark.
"""
