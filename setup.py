"""Build the compiled record kernel if a C compiler is available.

The extension is optional: without a compiler the pure Python kernel is used.
"""

from pathlib import Path

from setuptools import Extension, setup

KERNEL = Path("src/headwater/records/kernel")

setup(
    ext_modules=[
        Extension(
            "headwater.records.kernel._kernel",
            [str(KERNEL / "_kernel.pyx")],
            depends=sorted(map(str, KERNEL.glob("_*.pxi"))),
            extra_compile_args=["-O3", "-fno-strict-aliasing"],
            optional=True,
        )
    ]
)
