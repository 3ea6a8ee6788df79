# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The teams: how each is started, and how one is given a turn while the others sleep."""

import json
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

OPEN_MPI = ["mpirun.openmpi", "--bind-to", "none"]
MPIS = {
    "openmpi": OPEN_MPI,
    "openmpi-eager": OPEN_MPI + ["--mca", "btl_vader_eager_limit", "32768"],
    "openmpi-ucx": OPEN_MPI + ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"],
    "mpich": ["mpirun.mpich"],
}
# With a thread that drives progress of started calls.
THREADED = {"mpich-thread": MPIS["mpich"] + ["-genv", "MPICH_ASYNC_PROGRESS", "1"]}
# The launcher of each team; None: the conductor starts each rank itself. Ranks bind themselves to cores in the same way in every team.
LAUNCHERS = {"tutti": None, **{f"tutti-{mpi}": words for mpi, words in MPIS.items()}, **MPIS, **THREADED,
             "gloo": None, "memcpy": None}
PEERS = [name for name in LAUNCHERS if not name.startswith("tutti") and name not in THREADED]
LIMIT = "memcpy"  # no peer: to read the others by


class Lost(Exception):
    """A team did not start, has ended, or did not answer in time. The text is for the user."""


def program(name):
    """Returns the program of a team. Variants of an MPI share one: tutti-openmpi-ucx runs bench_team_tutti_openmpi."""
    words = name.split("-")
    return "_".join(["bench_team", *words[: 2 if words[0] == "tutti" else 1]])


class Team:
    def __init__(self, name, ranks, build, folder, timeout):
        self.name, self.ranks, self.timeout = name, ranks, timeout
        self.ours = name.startswith("tutti")
        self.folder = os.path.join(folder, f"{name}-{ranks}")
        os.makedirs(os.path.join(self.folder, "store"))
        self.cores = sorted(os.sched_getaffinity(0))
        self.crowded = ranks > len(self.cores)
        self.log = os.path.join(self.folder, "log")
        self.processes, self.sockets, self.killed = [], {}, False
        try:
            self._start(build)
        except BaseException:
            self.kill()
            raise

    def _start(self, build):
        path = os.path.join(build, program(self.name))
        if not os.path.exists(path):
            raise Lost(f"{path} does not exist: build the target bench_teams with -DTUTTI_BENCH=ON, or name the folder with --build")
        launcher = LAUNCHERS[self.name]
        if launcher and not shutil.which(launcher[0]):
            raise Lost(f"{launcher[0]} is not installed")
        if "mpich" in self.name and self.crowded:
            raise Lost("MPICH spins for ever where ranks share cores")

        door = socket.socket(socket.AF_UNIX)
        address = os.path.join(self.folder, "door")
        door.bind(address)
        door.listen(self.ranks)
        cores = "-" if self.crowded else ",".join(map(str, self.cores[: self.ranks]))
        command = [path, address, os.path.join(self.folder, "start"), cores]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("TUTTI_RANK", "TUTTI_SIZE", "OMPI_COMM"))}
        environment.setdefault("TUTTI_TIMEOUT", str(self.timeout))
        if launcher:
            # Open MPI refuses to start as root unless it is told to.
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            words = list(launcher) + ["-n", str(self.ranks)]
            if launcher[0] == OPEN_MPI[0]:
                words += ["--oversubscribe"]
                words += ["--mca", "mpi_yield_when_idle", "1" if self.crowded else "0"]
            self._spawn(words + command, environment)
        else:
            for rank in range(self.ranks):
                self._spawn(command, environment | {
                    "TUTTI_RANK": str(rank), "TUTTI_SIZE": str(self.ranks), "TUTTI_JOB": self.folder,
                    "TUTTI_BENCH_STORE": os.path.join(self.folder, "store")})
        self._admit(door)
        door.close()

    def _spawn(self, command, environment):
        # A process group of its own, but no session: Linux divides time among sessions, and ranks could not yield to each other.
        with open(self.log, "ab") as log:
            self.processes.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                   preexec_fn=os.setpgrp))

    def _admit(self, door):
        door.settimeout(0.1)
        until = time.monotonic() + min(self.timeout, 30)
        streams = {}
        while len(streams) < self.ranks:
            try:
                stream = door.accept()[0]
            except TimeoutError:
                if any(p.poll() is not None for p in self.processes):
                    raise Lost(f"ended while it started: {self._last_words()}") from None
                if time.monotonic() > until:
                    raise Lost(f"{len(streams)} of {self.ranks} ranks started in time: {self._last_words()}") from None
                continue
            stream.settimeout(30)
            hello = json.loads(stream.makefile("r").readline())
            streams[hello["rank"]] = stream
            self.version, self.sleeps = hello["version"], hello["sleeps"]
        self.sockets = streams

    def _last_words(self):
        with open(self.log, errors="replace") as log:
            lines = [line.strip() for line in log if line.strip(" \n-")]
        return " ... ".join(lines[:3])[:400] or "without a word"

    def ask(self, **message):
        """Returns every rank's answer. The caller sleeps meanwhile."""
        line = (json.dumps(message) + "\n").encode()
        answers = {}
        until = time.monotonic() + self.timeout
        with selectors.DefaultSelector() as waiting:
            try:
                for rank, stream in self.sockets.items():
                    stream.sendall(line)
                    waiting.register(stream, selectors.EVENT_READ, (rank, bytearray()))
                while len(answers) < self.ranks:
                    ready = waiting.select(until - time.monotonic())
                    if not ready and time.monotonic() >= until:
                        raise Lost(f"no answer within {self.timeout} s")
                    for key, _ in ready:
                        rank, text = key.data
                        got = key.fileobj.recv(65536)
                        if not got:
                            raise Lost(f"rank {rank} has ended: {self._last_words()}")
                        text += got
                        if text.endswith(b"\n"):
                            answers[rank] = json.loads(text)
                            waiting.unregister(key.fileobj)
                            if "error" in answers[rank]:
                                raise Lost(f"rank {rank}: {answers[rank]['error']}")
            except (OSError, Lost) as reason:
                self.kill()
                raise Lost(str(reason) if isinstance(reason, Lost) else f"a rank has ended: {self._last_words()}") from None
        return [answers[rank] for rank in range(self.ranks)]

    def stop(self):
        """Ends the ranks by closing their sockets."""
        for stream in self.sockets.values():
            stream.close()
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self):
        if self.killed:
            return
        self.killed = True
        for stream in self.sockets.values():
            try:
                # A launcher may leave its ranks behind, so each is killed by its own process ID.
                pid = struct.unpack("3i", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
            stream.close()
        for process in self.processes:
            process.terminate()
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def folder():
    """A folder in memory for sockets and start lines, so that no pages are written to a disk. It is removed on SIGTERM too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return tempfile.TemporaryDirectory(prefix="tutti-bench-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
