# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every call of torch.distributed on the backend "tutti", on each rank that torchrun starts."""
import datetime
import itertools
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import tutti_torch  # registers the backend

SIZES = [0, 1, 7, 1000, 300_000]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
FOLDS = {
    dist.ReduceOp.SUM: torch.add, dist.ReduceOp.PRODUCT: torch.mul, dist.ReduceOp.MIN: torch.minimum, dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or, dist.ReduceOp.BXOR: torch.bitwise_xor,
}
BITWISE = [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]


def expect(actual, expected, what):
    if not torch.equal(actual, expected):
        raise AssertionError(f"{what}: {actual.flatten()[:8]} instead of {expected.flatten()[:8]}")


def expect_error(words, call):
    try:
        call()
    except (RuntimeError, ValueError) as error:  # DistBackendError is a RuntimeError
        assert words in str(error), f"expected {words!r}, got {error}"
        return
    raise AssertionError(f"no error, expected {words!r}")


def of_rank(rank, size, dtype=torch.float32):
    """Small numbers, so that sums are exact in every type, and no two neighbours are equal."""
    return ((torch.arange(size) + rank) % 3).to(dtype)


def fold(parts, op):
    out = parts[0].clone()
    for part in parts[1:]:
        out = FOLDS[op](out, part)
    return out


def check_reductions(rank, ranks):
    for size, dtype in itertools.product(SIZES, FLOATS + INTEGERS):
        parts = [of_rank(r, size, dtype) for r in range(ranks)]
        for op in FOLDS:
            if op in BITWISE and dtype in FLOATS:
                continue
            data = parts[rank].clone()
            dist.all_reduce(data, op)
            expect(data, fold(parts, op), f"all_reduce of {size} {dtype} by {op}")
    for op, expected in [(dist.ReduceOp.SUM, ranks > 0), (dist.ReduceOp.BAND, ranks == 1), (dist.ReduceOp.BXOR, True)]:
        flag = torch.tensor([rank == 0])
        dist.all_reduce(flag, op)
        expect(flag, torch.tensor([expected]), f"all_reduce of bool by {op}")
    mean = torch.full((5,), float(rank))
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    expect(mean, torch.full((5,), (ranks - 1) / 2), "all_reduce by AVG")
    scaled = torch.full((5,), float(rank))
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
    expect(scaled, torch.full((5,), ranks * (ranks - 1) / 4), "all_reduce by PREMUL_SUM")
    number = torch.complex(torch.tensor([float(rank)]), torch.tensor([1.0]))
    unsplit = [number.clone()]  # these two do not ask torch.distributed's Python to split it
    dist.group.WORLD.allreduce(unsplit).wait()
    [coalesced] = funcol.all_reduce_coalesced([number], "sum", dist.group.WORLD)
    dist.all_reduce(number)
    expect(number, torch.complex(torch.tensor([ranks * (ranks - 1) / 2]), torch.tensor([float(ranks)])), "all_reduce of complex")
    for of_group in (unsplit[0], coalesced):
        expect(of_group, number, "all_reduce of complex by the group")

    for root in (0, ranks - 1):
        parts = [of_rank(r, 1000) for r in range(ranks)]
        data = parts[rank].clone()
        dist.reduce(data, root, dist.ReduceOp.MAX)
        expect(data, fold(parts, dist.ReduceOp.MAX) if rank == root else parts[rank], "reduce")
        number = torch.full((2,), complex(1, rank))
        dist.reduce(number, root)
        if rank == root:
            expect(number, torch.full((2,), complex(ranks, ranks * (ranks - 1) / 2)), "reduce of complex")

    blocks = [[of_rank(r + q, 50) for q in range(ranks)] for r in range(ranks)]
    mine = fold([row[rank] for row in blocks], dist.ReduceOp.SUM)
    out = torch.empty(50)
    dist.reduce_scatter(out, blocks[rank])
    expect(out, mine, "reduce_scatter")
    out = torch.empty(50)
    dist.reduce_scatter_tensor(out, torch.cat(blocks[rank]))
    expect(out, mine, "reduce_scatter_tensor")

    few = [torch.full((3,), float(rank)), torch.full((2, 2), float(rank))]
    dist.all_reduce_coalesced(few)
    for t in few:
        expect(t, torch.full_like(t, ranks * (ranks - 1) / 2), "all_reduce_coalesced")


def check_sparse(rank, ranks):
    """Each rank has another number of elements, one has none, and some have one twice."""
    def of_rank(r, dtype):
        places = torch.tensor([[0, r, r], [1, 0, 0]])[:, :3 if r != 1 else 0]
        return torch.sparse_coo_tensor(places, torch.ones(places.shape[1], 4).to(dtype) * (r + 1), (ranks + 2, 2, 4), check_invariants=True)

    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        expected = sum(of_rank(r, dtype).to_dense() for r in range(ranks))
        data = of_rank(rank, dtype)
        dist.all_reduce(data)
        assert data.is_sparse and data.is_coalesced()
        expect(data.to_dense(), expected, f"all_reduce of sparse {dtype}")
        data = of_rank(rank, dtype)
        [value] = dist.all_reduce(data, async_op=True).get_future().wait()
        expect(value.to_dense(), expected, f"the future of all_reduce of sparse {dtype}")
    expect_error("sparse tensors are reduced by SUM only", lambda: dist.all_reduce(of_rank(rank, torch.float32), dist.ReduceOp.MAX))
    if ranks > 1:
        of_ranks = [torch.zeros(3, 4).to_sparse(), torch.zeros(4, 3).to_sparse(), torch.zeros(3, 4).double().to_sparse()]
        for other in of_ranks[1:]:
            expect_error("sparse tensors of different types or sizes", lambda: dist.all_reduce(of_ranks[0] if rank == 0 else other))

    def train(wrap):
        torch.manual_seed(1)
        net = wrap(torch.nn.Sequential(torch.nn.Embedding(30, 8, sparse=True), torch.nn.Linear(8, 3)).double())
        sgd = torch.optim.SGD(net.parameters(), 0.1)
        torch.manual_seed(2)
        words = torch.randint(0, 30, (4, ranks, 5))
        for batch in words if net.__class__ is torch.nn.Sequential else words[:, rank:rank + 1]:
            sgd.zero_grad()
            net(batch).pow(2).mean().backward()
            sgd.step()
        return net

    for one, other in zip(train(lambda net: net).parameters(), train(torch.nn.parallel.DistributedDataParallel).module.parameters()):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-12), (one - other).abs().max()


def check_moves(rank, ranks):
    for root in (0, ranks - 1):
        for size, dtype in itertools.product(SIZES, [torch.float32, torch.int64, torch.bool, torch.complex64]):
            data = of_rank(rank, size, dtype)
            dist.broadcast(data, root)
            expect(data, of_rank(root, size, dtype), "broadcast")
        every = [torch.empty(40) for _ in range(ranks)]
        dist.gather(of_rank(rank, 40), every if rank == root else None, root)
        if rank == root:
            for r in range(ranks):
                expect(every[r], of_rank(r, 40), "gather")
        out = torch.empty(40)
        dist.scatter(out, [of_rank(5 * r, 40) for r in range(ranks)] if rank == root else None, root)
        expect(out, of_rank(5 * rank, 40), "scatter")

    every = [torch.empty(40) for _ in range(ranks)]
    dist.all_gather(every, of_rank(rank, 40))
    uneven = [torch.empty(r + 1) for r in range(ranks)]
    dist.all_gather(uneven, of_rank(rank, rank + 1))
    joined = torch.empty(40 * ranks)
    dist.all_gather_into_tensor(joined, of_rank(rank, 40))
    stacked = torch.empty(ranks, 40)
    dist.all_gather_into_tensor(stacked, of_rank(rank, 40))
    for r in range(ranks):
        expect(every[r], of_rank(r, 40), "all_gather")
        expect(uneven[r], of_rank(r, r + 1), "all_gather of different sizes")
        expect(joined[40 * r:40 * (r + 1)], of_rank(r, 40), "all_gather_into_tensor, joined")
        expect(stacked[r], of_rank(r, 40), "all_gather_into_tensor, stacked")

    out = torch.empty(2 * ranks, 3)
    dist.all_to_all_single(out, torch.full((2 * ranks, 3), float(rank)))
    expect(out, torch.arange(float(ranks)).repeat_interleave(2)[:, None].expand(-1, 3), "all_to_all_single")
    sent, received = [q for q in range(ranks)], [rank] * ranks  # q rows to rank q
    out = torch.empty(sum(received), 3)
    dist.all_to_all_single(out, torch.full((sum(sent), 3), float(rank)), received, sent)
    expect(out, torch.arange(float(ranks)).repeat_interleave(rank)[:, None].expand(-1, 3), "all_to_all_single with splits")
    everything = torch.arange(float(ranks))
    dist.all_to_all_single(everything, everything)
    expect(everything, torch.full((ranks,), float(rank)), "all_to_all_single in place")
    out = torch.empty(2 * ranks)  # one rank passes splits
    dist.all_to_all_single(out, torch.full((2 * ranks,), float(rank)), [2] * ranks if rank == 0 else None)
    expect(out, torch.arange(float(ranks)).repeat_interleave(2), "all_to_all_single with splits on one rank")
    overlapping = torch.ones(10 * ranks)
    dist.reduce_scatter_tensor(overlapping[:10], overlapping)
    expect(overlapping[:10], torch.full((10,), float(ranks)), "reduce_scatter_tensor into its input")
    from_numpy = torch.ones(10 * ranks).numpy()  # one memory, two storages
    overlapping = torch.from_numpy(from_numpy[:10])
    dist.reduce_scatter_tensor(overlapping, torch.from_numpy(from_numpy))
    expect(overlapping, torch.full((10,), float(ranks)), "reduce_scatter_tensor into memory of its input")
    number = torch.empty(2, dtype=torch.complex64)
    dist.reduce_scatter_tensor(number, torch.full((2 * ranks,), complex(1, rank)))
    expect(number, torch.full((2,), complex(ranks, ranks * (ranks - 1) / 2)), "reduce_scatter_tensor of complex")
    lists = [[torch.empty(3), torch.empty(2)] for _ in range(ranks)]
    dist.all_gather_coalesced(lists, [torch.full((3,), float(rank)), torch.full((2,), float(-rank))])
    for r in range(ranks):
        expect(lists[r][0], torch.full((3,), float(r)), "all_gather_coalesced")
        expect(lists[r][1], torch.full((2,), float(-r)), "all_gather_coalesced, second")
    out = [torch.empty(rank + 1) for _ in range(ranks)]
    dist.all_to_all(out, [torch.full((q + 1,), float(rank)) for q in range(ranks)])
    for r in range(ranks):
        expect(out[r], torch.full((rank + 1,), float(r)), "all_to_all")


def check_gaps(rank, ranks):
    """Tensors that are not contiguous are written where they are."""
    matrix = torch.zeros(6, 5)
    column = matrix[:, 2]
    column += rank
    dist.all_reduce(column)
    expect(column, torch.full((6,), ranks * (ranks - 1) / 2), "all_reduce of a column")
    expect(matrix[:, 1], torch.zeros(6), "its neighbour")
    turned = torch.full((3, 4), float(rank)).t()
    dist.broadcast(turned, ranks - 1)
    expect(turned, torch.full((4, 3), ranks - 1.0), "broadcast of a transposed matrix")
    negated = torch._neg_view(torch.tensor([1.0 + rank]))  # its memory has the other sign
    every = torch.empty(ranks)
    dist.all_gather_into_tensor(every, negated)
    expect(every, -torch.arange(1.0, ranks + 1), "all_gather of a view that negates")
    wide = torch.zeros(4 * ranks, 2)
    dist.all_gather_into_tensor(wide[:, 1], torch.full((4,), float(rank)))
    expect(wide[:, 1], torch.arange(float(ranks)).repeat_interleave(4), "all_gather into a column")
    expect(wide[:, 0], torch.zeros(4 * ranks), "its neighbour")


def check_async(rank, ranks):
    data = [torch.full((n,), float(rank)) for n in (3, 100_000, 1, 40_000)]
    works = [dist.all_reduce(t, async_op=True) for t in data]
    for work in reversed(works):
        work.wait()
        assert work.is_completed() and work.is_success()
    for t in data:
        expect(t, torch.full_like(t, ranks * (ranks - 1) / 2), "all_reduce, asynchronous")
    data = torch.full((50_000,), float(rank))
    future = dist.all_reduce(data, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    expect(future.wait(), torch.full((50_000,), float(ranks * (ranks - 1))), "the future of all_reduce")
    work = dist.barrier(async_op=True)
    while not work.is_completed():
        pass
    dist.monitored_barrier()


def check_dropped(rank, ranks):
    """A call ends, and its tensors live as long, although nobody keeps its work; its result is there after a later call."""
    if ranks == 1:
        return
    long, matrix = torch.ones(5_000_000), torch.ones(10, 10)
    dist.all_reduce(long, async_op=True)
    dist.all_reduce(matrix.t()[1:], async_op=True)
    del long
    dist.barrier()
    expect(matrix[:, 0], torch.ones(10), "beside a call that was dropped")
    expect(matrix[:, 1:], torch.full((10, 9), float(ranks)), "the result of a call that was dropped")
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    dist.isend(torch.full((100_000,), float(rank)), right)
    got = torch.empty(100_000)
    dist.recv(got, left)
    expect(got, torch.full((100_000,), float(left)), "a message that was dropped")


def check_dropped_moves(rank, ranks):
    """A call whose work nobody keeps goes on while its rank makes no calls: the others need not wait for that."""
    if ranks == 1:
        return
    store = dist.distributed_c10d._get_default_store()
    long, matrix = torch.ones(5_000_000), torch.ones(4, 3)
    begun = dist.all_reduce(long, async_op=True)
    if rank == 0:
        del begun
        dist.all_reduce(matrix.t(), async_op=True)
        store.wait(["the others have its result"], datetime.timedelta(seconds=60))
        until = time.monotonic() + 60
        while matrix[0, 0] == 1 and time.monotonic() < until:
            time.sleep(0.001)
    else:
        begun.wait()
        dist.all_reduce(matrix.t())
        if store.add("have its result", 1) == ranks - 1:
            store.set("the others have its result", "")
    expect(long, torch.full((5_000_000,), float(ranks)), "a call that was dropped")
    expect(matrix, torch.full((4, 3), float(ranks)), "a second call that was dropped")


def check_futures(rank, ranks):
    for _ in range(300):
        work = dist.all_reduce(torch.ones(3), async_op=True)
        future = work.get_future()
        work.wait()
        assert future.done()
        expect(future.value()[0], torch.full((3,), float(ranks)), "the value of a future")
    # Callbacks may wait for further calls.
    within = lambda f: dist.all_reduce(torch.ones(4), async_op=True).get_future().wait()[0] + f.value()[0]
    future = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(within)
    expect(future.wait(), torch.full((4,), 2.0 * ranks), "a future within a callback")
    for _ in range(5):  # a group may be destroyed while there are futures
        group = dist.new_group()
        futures = [dist.all_reduce(torch.ones(50), group=group, async_op=True).get_future() for _ in range(3)]
        works = [dist.all_reduce(torch.ones(50), group=group, async_op=True) for _ in range(3)]
        dist.destroy_process_group(group)
        for one in futures + works:
            one.wait()


def check_locks(rank, ranks):
    """Callbacks do not run in calls of the program, which may hold locks that they need."""
    lock = threading.Lock()

    def callback(future):
        with lock:
            return future.value()[0]

    for _ in range(50):
        future = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(callback)
        with lock:
            dist.all_reduce(torch.ones(3))
        expect(future.wait(), torch.full((4,), float(ranks)), "a callback")


def check_modes(rank, ranks):
    """Results are copied to parameters and inference tensors too, whichever thread does so."""
    parameter = torch.nn.Parameter(torch.full((2, 3), float(rank)).t())
    dist.broadcast(parameter, ranks - 1)
    expect(parameter.detach(), torch.full((3, 2), ranks - 1.0), "broadcast to a parameter")
    with torch.no_grad():
        dist.all_reduce(parameter.t()[:, 1:], async_op=True).get_future().wait()
    with torch.inference_mode():
        data = torch.full((2, 3), float(rank))
        dist.broadcast(data.t(), ranks - 1, async_op=True).get_future().wait()
        expect(data, torch.full((2, 3), ranks - 1.0), "broadcast to an inference tensor")
        every = [torch.empty(2, 3) for _ in range(ranks)]
        dist.all_gather(every, data, async_op=True).get_future().wait()


def check_messages(rank, ranks):
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    if ranks > 1:
        if rank == 0:
            dist.send(torch.arange(5), 1, tag=3)
        if rank == 1:
            got = torch.empty(5, dtype=torch.int64)
            assert dist.recv(got, 0, tag=3) == 0
            expect(got, torch.arange(5), "recv")
        if rank == 0:
            sources = set()
            for _ in range(ranks - 1):
                got = torch.empty(1)
                sources.add(dist.recv(got))
                assert got.item() in sources
            assert sources == set(range(1, ranks)), sources
        else:
            dist.send(torch.tensor([float(rank)]), 0)
        dist.barrier()  # a receive from any rank would take the next message too
    for size in (4, 500_000):  # all send first
        out, got = torch.full((size,), float(rank)), torch.empty(size)
        sent, received = dist.isend(out, right), dist.irecv(got, left)
        received.wait()
        sent.wait()
        expect(got, torch.full((size,), float(left)), "irecv")
        got.zero_()
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, out, right), dist.P2POp(dist.irecv, got, left)]):
            work.wait()
        expect(got, torch.full((size,), float(left)), "batch_isend_irecv")
    if ranks > 1:  # TORCH_DISTRIBUTED_DEBUG=DETAIL compares these, although ranks send different numbers of messages
        every = [None] * ranks
        dist.all_gather_object(every, dist.group.WORLD._get_sequence_number_for_group())
        assert len(set(every)) == 1, every


def check_objects(rank, ranks):
    every = [None] * ranks
    dist.all_gather_object(every, {"rank": rank, "text": "x" * rank})
    assert every == [{"rank": r, "text": "x" * r} for r in range(ranks)]
    shared = [rank, "of rank 0"] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared)
    assert shared == [0, "of rank 0"]


def check_groups(rank, ranks):
    pairs = [dist.new_group([r, r + 1]) for r in range(0, ranks - 1, 2)]
    if rank // 2 < len(pairs):
        data = torch.tensor([float(rank)])
        dist.all_reduce(data, group=pairs[rank // 2])
        expect(data, torch.tensor([float(rank // 2 * 4 + 1)]), "all_reduce of a pair")
        dist.broadcast(data, rank // 2 * 2 + 1, group=pairs[rank // 2])
    turned = dist.split_group(split_ranks=[list(reversed(range(ranks)))])
    first = dist.split_group(turned, [[0, ranks - 1] if ranks > 2 else [0]])  # ranks of `turned`
    for group, order in (turned, list(reversed(range(ranks)))), (first, [ranks - 1, 0] if ranks > 2 else [ranks - 1]):
        assert (rank in order) == (group is not dist.GroupMember.NON_GROUP_MEMBER), order
        if rank in order:
            every = [torch.empty(1) for _ in order]
            dist.all_gather(every, torch.tensor([float(rank)]), group=group)
            assert [int(t) for t in every] == order, every
    whole = dist.new_group()
    data = torch.tensor([1.0])
    dist.all_reduce(data, group=whole)
    expect(data, torch.tensor([float(ranks)]), "all_reduce of a second group of all ranks")
    dist.barrier(whole)


def check_signals(rank, ranks):
    """A rank that waits can be interrupted; a `finally` that destroys the group then tells the others why."""
    if ranks == 1:
        return
    group = dist.new_group()
    store = dist.distributed_c10d._get_default_store()
    got = torch.empty(3)
    if rank == 0:
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            try:
                dist.recv(got, 1, group)
            finally:
                dist.destroy_process_group(group)
        except KeyboardInterrupt:
            store.set("interrupted", "")
    else:
        expect_error("rank 0 gave up recv", lambda: dist.barrier(group))
    store.wait(["interrupted"], datetime.timedelta(seconds=60))


def check_aborted(rank, ranks):
    """A rank may abort a group that others are still creating."""
    def use_group():
        group = dist.new_group()
        if rank == 0:
            group.abort()
        dist.barrier(group)

    for _ in range(30 if ranks > 1 else 0):
        expect_error("check the output of the rank that ended the calls", use_group)


def check_training(rank, ranks):
    """DistributedDataParallel takes the same steps as one process with all of the data."""
    def model():
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 3)).double()

    def train(net, inputs, targets):
        sgd = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(5):
            sgd.zero_grad()
            torch.nn.functional.mse_loss(net(inputs), targets).backward()
            sgd.step()

    torch.manual_seed(2)
    inputs, targets = torch.randn(8 * ranks, 20).double(), torch.randn(8 * ranks, 3).double()
    alone, together = model(), torch.nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.01)
    train(alone, inputs, targets)
    train(together, inputs[8 * rank:8 * (rank + 1)], targets[8 * rank:8 * (rank + 1)])
    for one, other in zip(alone.parameters(), together.module.parameters()):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-12), (one - other).abs().max()
        first = other.detach().clone()
        dist.broadcast(first, 0)
        expect(first, other.detach(), "the same bits on all ranks")

    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    compressed = torch.nn.parallel.DistributedDataParallel(model().float())
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=1)
    compressed.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(compressed, inputs[8 * rank:8 * (rank + 1)].float(), targets[8 * rank:8 * (rank + 1)].float())

    from torch.distributed.fsdp import fully_shard
    sharded = model()
    fully_shard(sharded, mesh=dist.init_device_mesh("cpu", (ranks,)))
    train(sharded, inputs[8 * rank:8 * (rank + 1)], targets[8 * rank:8 * (rank + 1)])
    for one, other in zip(alone.parameters(), sharded.parameters()):
        assert torch.allclose(one, other.full_tensor(), rtol=1e-10, atol=1e-12), "fully_shard"


def check_refused(rank, ranks):
    expect_error("no reduction by BAND of tensors of type Float", lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND))
    expect_error("no reduction by AVG of tensors of type Int", lambda: dist.all_reduce(torch.ones(2).int(), dist.ReduceOp.AVG))
    turned = torch.zeros(3, 4).t()  # nothing is copied to the output of a call that is refused
    expect_error("no reduction by BAND", lambda: dist.all_reduce(turned, dist.ReduceOp.BAND))
    turned.fill_(7)
    dist.barrier()
    expect(turned, torch.full((4, 3), 7.0), "after a call that was refused")
    expect_error("share their memory", lambda: dist.all_reduce(torch.ones(1).expand(3)))
    uneven = [torch.ones(r) for r in range(1, ranks + 1)]
    if ranks > 1:
        splits = [2 if r == rank else 0 for r in range(ranks)], [1 if r == rank else 0 for r in range(ranks)]
        expect_error("sends itself 3 elements, but expects 6",
                     lambda: dist.all_to_all_single(torch.ones(2, 3), torch.ones(1, 3), *splits))
    expect_error("pass a positive one of at most 36500 days", lambda: dist.new_group(timeout=datetime.timedelta.max))
    expect_error("all_gather has 5 elements, but", lambda: dist.all_gather_into_tensor(torch.ones(5), torch.ones(3)))
    expect_error(f"output {rank} of all_gather has 2 elements, but the input of this rank has 3",
                 lambda: dist.all_gather([torch.ones(2) for _ in range(ranks)], torch.ones(3)))
    if ranks > 1:
        expect_error("reduce_scatter of tensors of 2 and 1 elements", lambda: dist.reduce_scatter(torch.ones(1), uneven))
        if rank == 0:
            expect_error("scatter of tensors of 2 and 1 elements", lambda: dist.scatter(torch.ones(1), uneven))
    if ranks > 1:
        group, slow = dist.new_group(), dist.new_group(timeout=datetime.timedelta(seconds=5))
        dist.barrier()  # all have them
        expect_error("ranks disagree in call #1", lambda: dist.all_reduce(torch.ones(2 + rank % 2), group=group))
        expect_error("with tensors of sizes and types that match; this group is closed", lambda: dist.barrier(group))
        if rank == 0:
            expect_error("rank 1 has not arrived",
                         lambda: dist.monitored_barrier(slow, datetime.timedelta(seconds=1), wait_all_ranks=True))
            expect_error("pass a longer timeout to init_process_group or new_group", lambda: dist.barrier(slow))
        left = dist.new_group()
        dist.barrier()  # all have it
        if rank == 1:
            expect_error("no reduction by BAND", lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND, left))
            dist.destroy_process_group(left)
        else:
            expect_error("no reduction by BAND of tensors of type Float", lambda: dist.all_reduce(torch.ones(2), group=left))
    expect_error("rank 0 has not created the group in time",
                 lambda: tutti_torch._backend.create(dist.HashStore(), 1, 2, datetime.timedelta(seconds=1), []))
    data = torch.ones(1)
    dist.all_reduce(data)  # the whole still works
    expect(data, torch.tensor([float(ranks)]), "all_reduce after errors of groups")


def main():
    dist.init_process_group("tutti")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    assert dist.get_backend() == "tutti"
    for check in (check_reductions, check_sparse, check_moves, check_gaps, check_async, check_dropped,
                  check_dropped_moves, check_futures, check_locks, check_modes, check_messages, check_objects, check_groups, check_signals,
                  check_aborted, check_training, check_refused):
        check(rank, ranks)
        dist.barrier()
        if rank == 0 and os.environ.get("VERBOSE"):
            print(f"{check.__name__}: passed on {ranks} ranks", flush=True)
    if os.fork() == 0:
        sys.exit(0)  # a child ends, although it has none of its parent's threads
    assert os.wait()[1] == 0
    for _ in range(3):  # processes may meet again
        dist.destroy_process_group()
        dist.init_process_group("tutti")
        dist.barrier()
    dist.destroy_process_group()
    print(f"rank {rank} of {ranks} has passed")


main()
