"""The ten applications of the Darshan study, as `stoker bench` must replay them: what the study says
about each, in terms of the engine's counters. The same whoever started the ranks."""

import json

KIB = 1024
VIRTUAL = ("--virtual-storage", "100M,1ms")  # no sleeping, and the same result every time


def sizes(io):
    return {s["bytes"]: s["count"] for s in io["common_sizes"]}


def order(io):
    """Sequential and consecutive shares of the requests after the first to an open file."""
    after = io["requests"] - io["first_requests"]
    return (io["sequential"] / after, io["consecutive"] / after) if after else (1, 1)


def stream(io, request):
    """From the start of each file on, in requests of one size; the last of a file may be shorter."""
    assert sizes(io)[request] >= io["requests"] - io["opens"] > 0
    assert order(io) == (1, 1) and io["first_requests"] == io["opens"]


def imagenet(ranks, result):
    """256 KB per request, sequential and consecutive, files of its own."""
    for io in ranks:
        stream(io, 256 * KIB)
        assert io["opens"] == 2 and io["bytes_read"] == 2 * 24 * (55000 + 16)


def cosmictagger(ranks, result):
    """50 requests of 13 KB; then small chunks from the start on, the same for every rank."""
    for io in ranks:
        assert sizes(io)[13 * KIB] == 50
        assert sizes(io)[2 * KIB] == 6 * 4 * 3 > 0.85 * (io["requests"] - 50)
        assert min(order(io)) > 0.85  # libhdf5 reads its own tables in between
        assert io["bytes_asked"] == 6 * 4 * 6 * KIB
    assert len({io["bytes_read"] for io in ranks}) == 1


def ffn(ranks, result):
    """28 KB per request, images chosen at random, the same for every rank."""
    for io in ranks:
        assert sizes(io)[28 * KIB] == 12 * 2 > 0.6 * io["requests"]
        assert order(io)[1] < 0.3 and order(io)[0] < 0.9 and io["opens"] == 1
    assert len({io["bytes_read"] for io in ranks}) == 1


def climate(ranks, result):
    """500 bytes in 50 requests, 13 % of them consecutive; three JSON files per rank at the end."""
    for io in ranks:
        assert (io["bytes_read"], sizes(io)) == (500, {10: 50})
        assert 0.12 < order(io)[1] < 0.14 and io["opens"] == 1
    assert result["checkpoints"] == 1 and result["checkpoint_bytes"] == len(ranks) * 3 * 64 * KIB


def cosmoflow(ranks, result):
    """256 KB per request, completely consecutive, different files for each rank."""
    for io in ranks:
        stream(io, 256 * KIB)
        assert io["opens"] * 4 == io["samples"] == 4 * (4 // len(ranks))


def candle(ranks, result):
    """Every rank reads the whole file at the start, 256 KB per request."""
    for io in ranks:
        stream(io, 256 * KIB)
        assert io["bytes_read"] == 56 * 95000 and io["opens"] == 1


def l2hmc(ranks, result):
    """It only writes: five files of rank 0, every third of nine steps."""
    assert all(io["requests"] == io["opens"] == 0 for io in ranks)
    assert result["checkpoints"] == 3 and result["checkpoint_bytes"] == 3 * (1 + 70 + 320 + 5 + 4) * KIB


def bert(ranks, result):
    """Each request is a record of 200 bytes; all of them before the first step."""
    for io in ranks:
        assert (sizes(io), order(io), io["opens"]) == ({200: 360}, (1, 1), 1)
    assert all(rank["wait_seconds"] == 0 < rank["load_seconds"] for rank in result["per_rank"])


def mmaadsp(ranks, result):
    """One HDF5 file, read whole at the start: the study saw no I/O in training."""
    for io in ranks:
        assert sizes(io)[4 * KIB] == 64 and io["bytes_asked"] == 64 * 4 * KIB and io["opens"] == 1
    assert all(rank["wait_seconds"] == 0 for rank in result["per_rank"])


def frnn(ranks, result):
    """A different NPZ file at each step, read in one go."""
    for io, rank in zip(ranks, result["per_rank"]):
        assert io["opens"] == io["requests"] == rank["steps"] == 12 // len(ranks)
        assert len(sizes(io)) == 1


TEN = [imagenet, cosmictagger, ffn, climate, cosmoflow, candle, l2hmc, bert, mmaadsp, frnn]
STUDY = {check.__name__: check for check in TEN}
OWN_FILES = ("imagenet", "cosmoflow", "frnn")  # "every rank gets different set of files"
SAME_OFFSETS = ("cosmictagger", "ffn", "climate", "candle", "bert", "mmaadsp")


def check_sharing(name, by_rank):
    """What the ranks read of each other's files. by_rank: [(path, offset, bytes)] of each rank."""
    files = [{path for path, _, _ in reads} for reads in by_rank]
    if name in OWN_FILES:
        assert sum(map(len, files)) == len(set.union(*files)) and len({len(f) for f in files}) == 1
    elif name in SAME_OFFSETS:
        assert all(reads == by_rank[0] for reads in by_rank) and len(files[0]) == 1
    else:
        assert not by_rank


def check_time(result):
    """Computing, I/O and waiting for others are parts of the same time: 89 % and 72 % of it are none."""
    shares = []
    for r in result["per_rank"]:
        io = r["wait_seconds"] + r["checkpoint_seconds"]
        spent = r["compute_seconds"] + io + r["barrier_seconds"]
        assert 0 <= io <= spent <= 1.01 * r["measured_seconds"] + 1e-3, r
        shares.append(min(io / r["measured_seconds"], 1))
    assert abs(result["io_share_steps"] - sum(shares) / len(shares)) < 1e-6
    assert result["utilisation"] + result["io_share_steps"] <= 1.01


def check_study(name, path, ranks, kind):
    """Holds the result of a run against the study; returns the result."""
    result = json.loads(path.read_text())["result"]
    assert result["ranks_are"] == kind and [r["rank"] for r in result["per_rank"]] == list(range(ranks))
    assert 0 < result["utilisation"] <= 1
    check_time(result)
    STUDY[name]([r["io"] for r in result["per_rank"]], result)
    return result
