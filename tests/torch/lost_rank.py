# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rank 1 is killed while the others train; each of them gets an error that names it, also where it waits for a future or creates a
group."""
import os
import signal
import time

import torch
import torch.distributed as dist
import tutti_torch  # registers the backend


def expect_loss(call):
    try:
        call()
    except dist.DistBackendError as error:
        assert "rank 1" in str(error) and "check the output of th" in str(error), error
        assert "shrink" not in str(error), error
        return
    raise AssertionError("rank 1 has died, and nobody has said so")


def train(net):
    for _ in range(1000):
        net(torch.ones(4, 20)).sum().backward()


dist.init_process_group("tutti")
rank = dist.get_rank()
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 20))
second = dist.new_group()
dist.barrier()
if rank == 1:
    net(torch.ones(4, 20)).sum().backward()
    os.kill(os.getpid(), signal.SIGKILL)
expect_loss(lambda: train(net))                                                      # waits for futures
expect_loss(lambda: dist.all_reduce(torch.ones(5)))                                  # the group stays closed
expect_loss(lambda: dist.all_reduce(torch.ones(100_000), group=second))              # another group of the same ranks
expect_loss(lambda: dist.all_reduce(torch.ones(5), group=second, async_op=True).wait())
expect_loss(lambda: dist.new_group())                                                # nobody waits for its timeout
store = dist.distributed_c10d._get_default_store()  # which ends with rank 0
store.add("done", 1)
while rank == 0 and store.add("done", 0) < dist.get_world_size() - 1:
    time.sleep(0.01)
