# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How Spack builds tutti. tests/architecture/spack.py compares this file with the CMake files."""

import pathlib

from spack_repo.builtin.build_systems.cmake import CMakeBuilder, CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Tutti(CMakePackage, CudaPackage):
    """Header-only C++20 library for collective communication between processes or threads
    of one machine, the ranks of an MPI job, and GPUs."""

    # Spack clones the copy of the repository in which it has found this file.
    git = pathlib.Path(__file__).resolve().parents[6].as_uri()

    test_requires_compiler = True

    license("Apache-2.0 WITH LLVM-exception")

    version("main", branch="main")

    variant("shared", default=False, description="Build tutti::compiled as a shared library")
    variant("tools", default=True, description="Build tutti-run and the other tools")
    variant("mpi", default=False, description="Tools and libtutti-mpi.so for an MPI")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("mpi", when="+mpi")
    depends_on("cuda@13:", when="+cuda")
    with when("+tools"):
        depends_on("cli11")
        depends_on("fmt")
        depends_on("nlohmann-json")

    requires("platform=linux", msg="tutti needs Linux")
    conflicts("%gcc@:11", msg="tutti needs g++ 12 or later")
    conflicts("%llvm@:15", msg="tutti needs clang 16 or later")
    conflicts("cuda_arch=none", when="+cuda", msg="name a GPU: cuda_arch=90, for example")
    conflicts("%llvm", when="+cuda", msg="nvcc miscompiles tutti if its host compiler is clang")

    def cmake_args(self):
        args = [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("TUTTI_TOOLS", "tools"),
            self.define_from_variant("TUTTI_CUDA", "cuda"),
        ]
        if self.spec.satisfies("+tools"):
            args += [
                self.define("TUTTI_REQUIRE_PACKAGES", True),
                self.define_from_variant("TUTTI_TOOLS_OVER_MPI", "mpi"),
                self.define_from_variant("TUTTI_INTERPOSE", "mpi"),
            ]
        if self.spec.satisfies("+tools+mpi"):
            mpi = self.spec["mpi"]
            args += [
                self.define("TUTTI_MPIS", mpi.name),
                self.define(f"TUTTI_MPICXX_{mpi.name}", mpi.mpicxx),
            ]
        if self.spec.satisfies("+cuda"):
            args.append(CMakeBuilder.define_cuda_architectures(self))
        return args

    @run_after("install")
    def keep_hello(self):
        cache_extra_test_sources(self, join_path("examples", "01_hello.cpp"))

    def test_hello(self):
        """build the first example with CMake, and run it on one and on two ranks"""
        hello = join_path(self.test_suite.current_test_cache_dir, "examples", "01_hello.cpp")
        cmake = self.spec["cmake"].command
        cmake(
            self.test_suite.current_test_data_dir,
            self.define("CMAKE_CXX_COMPILER", self.spec["cxx"].package.cxx),
            self.define("CMAKE_PREFIX_PATH", self.prefix),
            self.define("HELLO", hello),
        )
        cmake("--build", ".")
        Executable("./hello")()
        if self.spec.satisfies("+tools"):
            Executable(self.prefix.bin.join("tutti-run"))("-n", "2", "./hello")
