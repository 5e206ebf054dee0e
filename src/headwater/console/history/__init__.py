"""What the console's charts show: numbers of the last half hour, kept in memory.

Start with `sampler`, which asks the cluster every few seconds; `series` stores the numbers.
"""
