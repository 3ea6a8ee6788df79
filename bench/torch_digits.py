#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the network of examples/train_digits by PyTorch's DistributedDataParallel over Gloo, with the initial weights and the order of
images that `train_digits --record` has written. Writes the same files of results. tools/compare-torch runs it."""

import argparse
import csv
import gzip
import os
import pathlib
import tempfile
import time

import numpy
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

PIXELS, CLASSES, MOMENTUM = 64, 10, 0.9


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--from", dest="source", required=True, help="a folder that train_digits --record has written")
    p.add_argument("--record", required=True, help="a folder for the results")
    p.add_argument("--file", required=True, help="lines of 64 pixels and a label, compressed")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--batch", type=int, default=128, help="images a step, of all ranks together")
    p.add_argument("--hidden", type=int, default=512, help="units of each hidden layer")
    p.add_argument("--hook", choices=["none", "bf16", "power_sgd"], default="none")
    return p.parse_args()


def read_digits(path):
    """Returns images and labels to train on, and those held out: every fifth."""
    with gzip.open(path, "rt") as file:
        rows = numpy.loadtxt(file, delimiter=",", dtype=numpy.float32)
    images, labels = torch.from_numpy(rows[:, :PIXELS] / 16), torch.from_numpy(rows[:, PIXELS].astype(numpy.int64))
    held_out = torch.arange(len(rows)) % 5 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def network(hidden, path):
    sizes = [PIXELS, hidden, hidden, CLASSES]
    layers = [torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
    weights, at = torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32)), 0
    with torch.no_grad():
        for layer in layers:
            count = layer.weight.numel()
            layer.weight.copy_(weights[at:at + count].reshape(layer.in_features, layer.out_features).T)
            layer.bias.copy_(weights[at + count:at + count + layer.out_features])
            at += count + layer.out_features
    return torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1], torch.nn.Tanh(), layers[2])


def part(count, parts, index):
    """Returns the share of a rank, as tutti::part divides."""
    small, larger = divmod(count, parts)
    begin = index * small + min(index, larger)
    return begin, begin + small + (index < larger)


def install(model, hook):
    if hook == "bf16":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif hook == "power_sgd":
        # PyTorch demands that the first two steps are not compressed.
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2,
                                            min_compression_rate=1, random_seed=1)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def train(rank, options, meeting):
    torch.set_num_threads(1)  # ranks are the parallelism, as in train_digits
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=options.ranks)
    images, labels, held_out, held_labels = read_digits(options.file)
    source = pathlib.Path(options.source)
    orders = torch.from_numpy(numpy.fromfile(source / "order.i32", dtype=numpy.int32).astype(numpy.int64))
    orders = orders.reshape(-1, len(images))
    # PowerSGD's hook starts further calls when one has ended. With several buckets, ranks start these in different orders, and Gloo
    # fails with "Received data size doesn't match expected size". So it gets one bucket, and the others as many as train_digits.
    model = DistributedDataParallel(network(options.hidden, source / "weights.f32"),
                                    bucket_cap_mb=100 if options.hook == "power_sgd" else 1,
                                    gradient_as_bucket_view=True)
    install(model, options.hook)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1 * min(options.batch, 128) / 128, momentum=MOMENTUM)

    def learn_all(order):
        """Returns the sum of losses on this rank."""
        learned = torch.zeros(())
        for at in range(0, len(order), options.batch):
            batch = order[at:at + options.batch]
            begin, end = part(len(batch), options.ranks, rank)
            chosen = batch[begin:end]
            loss = torch.nn.functional.cross_entropy(model(images[chosen]), labels[chosen], reduction="sum")
            optimiser.zero_grad()
            (loss * (options.ranks / len(batch))).backward()
            optimiser.step()
            learned += loss.detach()
        return learned

    steps_of_epoch = -(-len(images) // options.batch)
    rows, learning = [], 0.0
    for epoch, order in enumerate(orders, 1):
        begin = time.perf_counter()
        learned = learn_all(order)
        took = time.perf_counter() - begin
        learning += took
        first, last = part(len(held_out), options.ranks, rank)
        with torch.no_grad():
            right = (model.module(held_out[first:last]).argmax(1) == held_labels[first:last]).sum()
        sums = torch.tensor([learned.item(), right.item()], dtype=torch.float64)
        dist.all_reduce(sums)
        rows.append([epoch, sums[0].item() / len(images), sums[1].item() / len(held_out), len(images) / took])
    dist.barrier()
    begin = time.perf_counter()
    with model.no_sync():  # what a step takes without communication
        learn_all(orders[-1])
    alone = (time.perf_counter() - begin) / steps_of_epoch
    dist.barrier()
    if rank == 0:
        folder = pathlib.Path(options.record)
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / "epochs.csv", ["epoch", "loss", "held_out", "images_per_second"], rows)
        write(folder / "step.csv", ["step_us", "alone_us"], [[1e6 * learning / steps_of_epoch / len(orders), 1e6 * alone]])
    dist.destroy_process_group()


def write(path, head, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


if __name__ == "__main__":
    given = arguments()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as temporary:
        torch.multiprocessing.spawn(train, (given, os.path.join(temporary, "meeting")), nprocs=given.ranks)
