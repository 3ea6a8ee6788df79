# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Registers the backend "tutti" of torch.distributed, for CPU tensors of ranks on one machine:

    import torch.distributed as dist
    import tutti_torch

    dist.init_process_group("tutti")  # in place of "gloo"
"""
import atexit
import datetime

import torch.distributed

from . import _backend


def _create(of, options):
    if not datetime.timedelta(0) < of.timeout <= datetime.timedelta(days=36500):  # timedelta.max arrives here as a negative time
        raise ValueError(f"tutti: the timeout of a process group is {of.timeout}; pass a positive one of at most 36500 days")
    return _backend.create(of.store, of.group_rank, of.group_size, of.timeout, of.global_ranks_in_group)


torch.distributed.Backend.register_backend("tutti", _create, extended_api=True, devices=["cpu"])
atexit.register(_backend.stop_driving)
