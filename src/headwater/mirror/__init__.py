"""Mirrors: topics of one cluster copied to another, whole batches at a time, by Spark tasks.

Start with `mirror` and `partition_copy`. Progress is committed to the target cluster in the same
transaction as the records (`checkpoints`), so a mirror can be restarted on any machine.
"""
