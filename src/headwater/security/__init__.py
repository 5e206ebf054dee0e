"""Who you are, what you may do, and how much of it.

Today everybody is anonymous and may do everything; but everybody is asked.
"""
