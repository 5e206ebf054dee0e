"""The sink: options, at-least-once and exactly-once writes, `write_stream`.

Start with `writers` (what Spark calls) and `task_writer` (what a task does).
`replay_safety` rejects queries whose retries would send rows through other tasks.
"""
