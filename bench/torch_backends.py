#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times calls of torch.distributed over tutti and over Gloo, in turns within the same processes, and prints a Markdown table. Run it on an
idle machine, with PyTorch and the backend installed (tools/test-torch does so):

  OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 bench/torch_backends.py

Times are medians over the turns, on the rank that takes longest. Ratios are medians of the ratios of single turns; the spread is their
first and third quartile."""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import tutti_torch  # registers the backend

BACKENDS = ["gloo", "tutti"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--turns", type=int, default=15, help="default: 15")
    p.add_argument("--seconds", type=float, default=0.2, help="about how long a turn of a backend takes (default: 0.2)")
    return p.parse_args()


def calls(group, ranks):
    """What is timed: a name, and a function without arguments."""
    for count in (2, 512, 8192, 131_072, 2_097_152):
        data, blocks = torch.zeros(count), torch.zeros(ranks * count)
        size = f"{4 * count:,} B" if count < 8192 else f"{count // 256:,} KiB"
        yield f"all_reduce, {size}", lambda data=data: dist.all_reduce(data, group=group)
        yield f"all_gather_into_tensor, {size} a rank", lambda data=data, blocks=blocks: dist.all_gather_into_tensor(blocks, data, group=group)
    data = torch.zeros(131_072)
    yield "broadcast, 512 KiB", lambda: dist.broadcast(data, 0, group=group)
    yield "barrier", lambda: dist.barrier(group=group)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512), torch.nn.Tanh(), torch.nn.Linear(512, 10))
    net = torch.nn.parallel.DistributedDataParallel(net, process_group=group, bucket_cap_mb=1, gradient_as_bucket_view=True)
    images, labels = torch.randn(128 // ranks, 64), torch.randint(10, (128 // ranks,))

    def step():
        net.zero_grad()
        torch.nn.functional.cross_entropy(net(images), labels).backward()

    yield "a step of DistributedDataParallel, 1.2 MB of gradients", step


def slowest(seconds):
    longest = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    return longest.item()


def time_of(call, repeats):
    call()
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return slowest((time.perf_counter() - begin) / repeats)


def main():
    options = arguments()
    torch.set_num_threads(1)  # ranks are the parallelism
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    contests = {}
    for backend in BACKENDS:
        for name, call in calls(dist.new_group(backend=backend), ranks):
            contests.setdefault(name, {})[backend] = call
    if dist.get_rank() == 0:
        print(f"{ranks} ranks, {os.cpu_count()} cores, PyTorch {torch.__version__}, {options.turns} turns\n")
        print("| call | Gloo us | tutti us | ratio | spread |\n|---|---:|---:|---:|---:|")
    for name, contest in contests.items():
        repeats = {b: max(1, round(options.seconds / time_of(call, 3))) for b, call in contest.items()}
        times = {b: [] for b in BACKENDS}
        for turn in range(options.turns):
            for backend in BACKENDS if turn % 2 == 0 else reversed(BACKENDS):
                times[backend].append(time_of(contest[backend], repeats[backend]) * 1e6)
        ratios = [g / t for g, t in zip(times["gloo"], times["tutti"])]
        low, _, high = statistics.quantiles(ratios, n=4)
        if dist.get_rank() == 0:
            print(f"| {name} | {statistics.median(times['gloo']):,.0f} | {statistics.median(times['tutti']):,.0f} | "
                  f"{statistics.median(ratios):.1f} | {low:.1f} to {high:.1f} |", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
