"""Copy topics between clusters, whole batches at a time, with Spark tasks.

Start with `mirror` and `partition_copy`. Checkpoints are committed to the target cluster in the
same transaction as the records (`checkpoints`), so a mirror can be restarted on any machine.
"""
