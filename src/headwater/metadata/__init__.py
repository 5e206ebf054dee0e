"""Cluster metadata as pure code: the image, its changes, configs, features.

Start with `cluster_image` and `changes` (every change to the image and how it is applied).
`metadata_cache` is what a broker learns from its controller; `ports` are interfaces that other
layers implement.
"""
