"""The source: options, offsets, batch planning, reading in tasks.

Start with `readers` (what Spark calls) and `batch_plan` (which offsets a batch reads).
`range_task` runs in Spark's workers.
"""
