"""Pipelines from a file: read, checked before Spark starts, run and watched over.

What a reader would get wrong: most of it needs no Spark. Reading and checking a file are pure, and
`headwater pipeline check` never starts a session.
"""
