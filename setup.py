"""Builds the compiled record kernel, where a C compiler is at hand.

The extension is optional: without a compiler the install goes on and the pure twin serves.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "headwater.records._kernel",
            ["src/headwater/records/_kernel.pyx"],
            extra_compile_args=["-O3", "-fno-strict-aliasing"],
            optional=True,
        )
    ]
)
