"""The process of a task: copy between one connector and topics, without Spark.

Start with `connector_task`, then `source_task` or `sink_task`.
"""
