"""The nouns and ports that every room shares.

Imports nothing of Headwater, and touches neither clock, disk nor socket: what needs
the world receives it through the ports declared here.
"""
