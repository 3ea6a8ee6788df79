# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A virtual environment with PyTorch, which tools share."""

import pathlib
import shutil
import subprocess
import sys

DOCUMENTATION = """PyTorch comes from PyPI into a virtual environment of its own, once: up to 3 GB to download and 6 GB on disk.
Pass --pip-option='--index-url=https://download.pytorch.org/whl/cpu' for a version without CUDA that takes 1 GB."""


def add_options(parser):
    parser.add_argument("--environment", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "tutti" / "torch",
                        help="the virtual environment, created if it is missing (default: %(default)s)")
    parser.add_argument("--pip-option", action="append", default=[], help="passed to pip install")


def existing_parent(path):
    while not path.exists():
        path = path.parent
    return path


def python_of(options):
    return options.environment / "bin" / "python"


def has_torch(options):
    python = python_of(options)
    return python.exists() and subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode == 0


def install(options, *words):
    subprocess.run([python_of(options), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options.pip_option, *words],
                   check=True)


def python_with_torch(options):
    """Returns the Python of the virtual environment, which is created if it is missing."""
    if has_torch(options):
        return python_of(options)
    free = shutil.disk_usage(existing_parent(options.environment)).free
    if free < 7 << 30:
        sys.exit(f"PyTorch takes up to 6 GB, but {options.environment} has {free >> 20} MB left; pass --environment")
    print(f"installing PyTorch into {options.environment}: up to 3 GB to download", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", options.environment], check=True)
    install(options, "torch", "numpy")
    return python_of(options)


def install_backend(options, root):
    """Compiles the backend of torch.distributed, which takes some minutes, and installs it."""
    install(options, "setuptools>=64", "ninja")
    print("compiling the backend: about 5 minutes on 2 cores", file=sys.stderr)
    install(options, "--no-build-isolation", "--no-deps", "--force-reinstall", str(root / "bindings" / "torch"))
