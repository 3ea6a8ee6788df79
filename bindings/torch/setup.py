# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the extension against the PyTorch of this environment, so install it by `pip install --no-build-isolation bindings/torch`."""
import pathlib
import sys

from setuptools import setup

try:
    from torch.utils import cpp_extension
except ImportError:
    sys.exit("tutti-torch is compiled against the PyTorch that will load it: install torch, and setuptools and ninja beside it, then\n"
             "  pip install --no-build-isolation bindings/torch")

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = [f"src/{source.name}" for source in sorted((HERE / "src").glob("*.cpp"))]  # setuptools demands relative paths

setup(
    ext_modules=[
        cpp_extension.CppExtension(
            "tutti_torch._backend",
            SOURCES,
            include_dirs=[str(ROOT / "include")],
            define_macros=[("TUTTI_COMPILED", None)],
            extra_compile_args=["-std=c++20", "-O2", "-g0", f"-ffile-prefix-map={ROOT}/="],  # errors name the place
            extra_link_args=["-pthread"],
        )
    ],
    cmdclass={"build_ext": cpp_extension.BuildExtension},
)
