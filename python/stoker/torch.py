"""Batches as PyTorch tensors.

`Loader` takes the place of a DataLoader: its threads read and decode, no worker processes are
needed. `IterDataset` and `MapDataset` are for programs that must keep a torch DataLoader.
"""

import collections
import os

import torch
import torch.utils.data

from stoker import _stoker, loader
from stoker.dataset import Dataset

# Types that older PyTorch does not have, and what holds their values.
WIDER = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}
COPIES_HELD = 8  # batches kept for copies to a GPU that are still under way


def rank():
    """(rank, world): of torch.distributed where it is initialised, else what the launcher says."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return tuple(_stoker.rank()[:2])


# ---- columns to tensors ------------------------------------------------------------------------

def tensor(array):
    """An array as a tensor: the same memory, unless PyTorch cannot take it as it is."""
    if isinstance(array, _stoker.Array):
        return _tensor_without_numpy(array)
    if array.dtype.name in WIDER and not hasattr(torch, array.dtype.name):
        array = array.astype(WIDER[array.dtype.name])
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _tensor_without_numpy(array):
    old = not hasattr(torch, "uint16")  # its DLPack knows neither these types nor bool
    if old and (array.dtype in WIDER or array.dtype == "bool"):
        dtype = getattr(torch, WIDER.get(array.dtype, "bool"))
        return torch.tensor(array.tolist(), dtype=dtype).reshape(array.shape)
    return torch.from_dlpack(array.copy() if array.readonly else array)


def _is_array(value):
    return isinstance(value, _stoker.Array) or type(value).__module__ == "numpy"


def _strings(column, as_tensors):
    if not as_tensors:
        return column.tolist()
    return list(tensor(column.concat()).split(column.sizes().tolist()))


class Batch(dict):
    """Columns of a batch: tensors, lists of bytes, lists of str, lists of anything.

    ids, repeats and replaced are tensors of one element a sample; epoch and step are numbers.
    """

    @classmethod
    def of(cls, batch, as_tensors=False):
        self = cls()
        for name, column in batch.items():
            if isinstance(column, _stoker.Column):
                self[name] = _strings(column, as_tensors)
            elif isinstance(column, list):
                self[name] = [tensor(v) if _is_array(v) else v for v in column]
            else:
                self[name] = tensor(column)
        self.epoch, self.step = batch.epoch, batch.step
        self._ids, self._flags = batch.ids.copy(), batch.flags.copy()
        return self

    @property
    def ids(self):
        return tensor(self._ids).to(torch.int64)

    @property
    def repeats(self):
        return (tensor(self._flags) & loader.REPEAT) != 0

    @property
    def replaced(self):
        return (tensor(self._flags) & loader.REPLACED) != 0


# ---- the loader --------------------------------------------------------------------------------

class Loader(loader.Loader):
    """stoker.Loader (its options are all there), with dicts of tensors instead of batches.

    transform   called with each Batch, on the host; what it returns is given instead
    bytes_as    byte strings as "bytes" or "tensor" (uint8)
    pin_memory  arrays are decoded into page-locked memory. Copy them to a GPU on the current
                stream. Without CUDA it is ordinary memory.
    device      batches are copied there, one ahead, while the model works

    state_dict() and load_state_dict() are exact to the batch; set_epoch() is that of a
    DistributedSampler, and not needed: epochs count by themselves.
    """

    def __init__(self, data, batch=32, *, transform=None, bytes_as="bytes", pin_memory=False,
                 device=None, **options):
        self.transform = transform
        if bytes_as not in ("bytes", "tensor"):
            raise loader.UsageError(f"bytes_as={bytes_as!r}: it is one of bytes, tensor")
        self._as_tensors = bytes_as == "tensor"
        self.device = None if device is None else torch.device(device)
        self.pin_memory = bool(pin_memory) and torch.cuda.is_available()
        self._shown = None  # (epoch, state) at the batch given last, where more were taken
        super().__init__(data, batch, **options)

    def rank(self):
        return self._rank or rank()

    def _start(self):
        if self.pin_memory and (self._running is None or self._pid != os.getpid()):
            torch.cuda.init()  # here, not on a thread of the loader
            self._pool = _stoker.Pool(_pinned)
        return super()._start()

    def _begin(self, epoch, state):
        self._shown = None
        super()._begin(epoch, state)

    def __getstate__(self):
        return {**super().__getstate__(), "_shown": None, "_rank": self.rank()}

    def __iter__(self):
        batches = super().__iter__()
        self._shown = None
        if self.device is None:
            return self._on_host(batches)
        if self.device.type != "cuda":
            return (_move(self._made(batch), self.device) for batch in batches)
        self._shown = (self._epoch, super().state())
        return self._on_gpu(batches)

    def _made(self, batch):
        made = Batch.of(batch, self._as_tensors)
        return made if self.transform is None else self.transform(made)

    def _on_host(self, batches):
        copies = _Copies()
        for batch in batches:
            yield self._made(batch)
            if self.pin_memory:
                # What the caller did with it is on the stream by now.
                copies.add(torch.cuda.current_stream().record_event(), batch)
            batch = None

    def _on_gpu(self, batches):
        """One batch is on its way while the caller has the one before."""
        stream, copies, ahead = torch.cuda.Stream(self.device), _Copies(), None
        for batch in batches:
            place = (batch.epoch, super().state())
            with torch.cuda.stream(stream):
                moved = _move(self._made(batch), self.device)
                event = stream.record_event()
            copies.add(event, batch)
            batch = None
            if ahead is not None:
                yield self._show(*ahead)
            ahead = (moved, event, place)
            moved = None
        if ahead is not None:
            yield self._show(*ahead)
        self._shown = ahead = None

    def _show(self, moved, event, place):
        current = torch.cuda.current_stream(self.device)
        current.wait_event(event)
        _each_tensor(moved, lambda t: t.record_stream(current))
        self._shown = place
        return moved

    @property
    def epoch(self):
        return self._epoch if self._shown is None else self._shown[0]

    def state(self):
        return super().state() if self._shown is None else self._shown[1]

    def state_dict(self):
        """Where training is: save it with the model, at any time. The next batch comes first."""
        return {"stoker": self.state()}

    def load_state_dict(self, state):
        self.load_state(state["stoker"])


def _pinned(size):
    memory = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    return memory.data_ptr(), memory


class _Copies:
    """Host batches whose copies may still be under way: their memory must not be used again."""

    def __init__(self):
        self._waiting = collections.deque()

    def add(self, event, batch):
        self._waiting.append((event, batch))
        while self._waiting and self._waiting[0][0].query():
            self._waiting.popleft()
        if len(self._waiting) > COPIES_HELD:
            self._waiting.popleft()[0].synchronize()


def _move(value, device):
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Batch):
        moved = Batch((k, _move(v, device)) for k, v in value.items())
        moved.__dict__.update(value.__dict__)
        return moved
    if isinstance(value, dict):
        return {k: _move(v, device) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_move(v, device) for v in value)
    if isinstance(value, tuple):
        return type(value)(*(_move(v, device) for v in value))
    return value


def _each_tensor(value, do):
    if isinstance(value, torch.Tensor):
        do(value)
    elif isinstance(value, dict):
        for v in value.values():
            _each_tensor(v, do)
    elif isinstance(value, (list, tuple)):
        for v in value:
            _each_tensor(v, do)


# ---- for torch.utils.data.DataLoader -----------------------------------------------------------

class MapDataset(torch.utils.data.Dataset):
    """Samples by number, for a DataLoader with a sampler: dicts, as stoker.Dataset gives them.

    Worker processes open the dataset themselves, whether they are forked or spawned.
    """

    def __init__(self, data, transform=None, **options):
        self.dataset = data if isinstance(data, Dataset) else Dataset(data, **options)
        self.transform = transform

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, i):
        sample = self.dataset[i]
        return sample if self.transform is None else self.transform(sample)

    def __getitems__(self, numbers):
        """A batch at once, read in the order of the file."""
        found = {i: self[i] for i in sorted(set(numbers))}
        return [found[i] for i in numbers]


class IterDataset(torch.utils.data.IterableDataset):
    """Batches for a DataLoader with batch_size=None: dicts of tensors.

    The data is divided by rank and, within it, by worker process; all get as many batches. Call
    set_epoch() before each epoch, as for a DistributedSampler. Options are those of Loader.
    """

    def __init__(self, data, batch=32, *, epoch=0, **options):
        self._data, self._batch, self._options = data, batch, options
        self._epoch = torch.tensor(epoch, dtype=torch.int64).share_memory_()  # seen by workers
        self._rank = None
        self._loader = self._split = None

    def set_epoch(self, epoch):
        self._epoch.fill_(epoch)

    def __getstate__(self):
        # A spawned worker does not see torch.distributed.
        return {**self.__dict__, "_loader": None, "_rank": self._rank or rank()}

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        my_rank, world = self._rank or rank()
        split = (my_rank * workers + worker, world * workers, os.getpid())
        if self._loader is None or self._split != split:
            options = dict(self._options)
            options.setdefault("threads", max(1, len(os.sched_getaffinity(0)) // workers))
            self._split = split
            self._loader = Loader(self._data, self._batch, rank=split[0], world=split[1], **options)
        self._loader.set_epoch(int(self._epoch))
        return (dict(b) if isinstance(b, Batch) else b for b in self._loader)
