"""Mirrors: topics of one cluster copied to another, whole batches at a time, by Spark's tasks.

What a reader would get wrong: there is no checkpoint. How far a mirror is, it notes in the cluster
that it writes to, in the same transaction as the records; whoever starts it again, on whichever
machine, goes on from there.
"""
