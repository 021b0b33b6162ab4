"""Batches as PyTorch tensors.

`Loader` takes the place of a DataLoader: its threads read and decode, no worker processes are
needed. `IterDataset` and `MapDataset` are for programs that must keep a torch DataLoader; `ImageFolder`
and `DataLoader` replace those of torchvision and torch, with the same arguments.
"""

import collections
import os
import warnings

import torch
import torch.utils.data

from stoker import _collate, _stoker, loader
from stoker._hosted import Hosted, Way
from stoker.dataset import Dataset, Samples

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
    plain = array.flags.writeable and all(step >= 0 for step in array.strides)
    return torch.from_numpy(array if plain else array.copy())


def _tensor_without_numpy(array):
    old = not hasattr(torch, "uint16")  # its DLPack knows neither these types nor bool
    if old and (array.dtype in WIDER or array.dtype == "bool"):
        dtype = getattr(torch, WIDER.get(array.dtype, "bool"))
        return torch.tensor(array.tolist(), dtype=dtype).reshape(array.shape)
    return torch.from_dlpack(array.copy() if array.readonly else array)


def _is_array(value):
    if isinstance(value, _stoker.Array):
        return True
    kind = type(value)
    return kind.__module__ == "numpy" and kind.__name__ == "ndarray" and value.dtype.kind in "biufc"


def _tensors(column):
    if isinstance(column, list):
        return [tensor(v) if _is_array(v) else v for v in column]
    return tensor(column) if _is_array(column) else column


def _strings(column, as_tensors):
    if not as_tensors:
        return column.tolist()
    return list(tensor(column.concat()).split(column.sizes().tolist()))


class Batch(_collate.Mapping):
    """Columns of a batch: tensors, lists of bytes, lists of str, lists of anything.

    ids, repeats and replaced are tensors of one element per sample; epoch and step are numbers.
    """

    @classmethod
    def of(cls, batch, as_tensors=False):
        self = cls()
        for name, column in batch.items():
            if isinstance(column, _stoker.Column):
                self[name] = _strings(column, as_tensors)
            else:
                self[name] = _tensors(column)
        self._set_place(batch)
        return self

    def _set_place(self, batch):
        self.epoch, self.step = batch.epoch, batch.step
        self._ids, self._flags = batch.ids.copy(), batch.flags.copy()

    @property
    def ids(self):
        self._look()
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

    bytes_as    byte strings as "bytes" or "tensor" (uint8)
    pin_memory  arrays are decoded into page-locked memory. Copy them to a GPU on the current
                stream. Once the program has moved a batch to a GPU, the next ones are copied
                there while the model works. Without CUDA it is ordinary memory.
    device      batches are copied there, one ahead, while the model works

    state_dict() and load_state_dict() are exact to the batch; set_epoch() is that of a
    DistributedSampler, and not needed: epochs count by themselves.
    """

    def __init__(self, data, batch=32, *, bytes_as="bytes", pin_memory=False, device=None,
                 **options):
        if bytes_as not in ("bytes", "tensor"):
            raise loader.UsageError(f"bytes_as={bytes_as!r}: it is one of bytes, tensor")
        self._as_tensors = bytes_as == "tensor"
        self.device = None if device is None else torch.device(device)
        self.pin_memory = bool(pin_memory) and torch.cuda.is_available()
        self._copies, self._shown = _Copies(), None  # shown: the batch that the loop has
        self._way, self._streams = Way(), {}  # its way to a GPU; for copies: {device: stream}
        self._moving = {}  # batches on their way to the GPU: {held: (what the loop gets, Way)}
        super().__init__(data, batch, **options)

    def rank(self):
        return self._rank or rank()

    def _start(self):
        if self.pin_memory and self._here() is None:
            torch.cuda.init()  # here, not on a thread of the loader
            self._pool = _stoker.Pool(_pinned)
        return super()._start()

    def __getstate__(self):
        return {**super().__getstate__(), "_rank": self.rank(), "_copies": None, "_shown": None,
                "_way": None, "_moving": None, "_streams": None}

    def __setstate__(self, state):
        super().__setstate__({**state, "_copies": _Copies(), "_way": Way(), "_moving": {}, "_streams": {}})

    def _stop(self):
        self._shown, self._moving = None, {}
        super()._stop()

    def _made(self, held):
        if self.device is not None and self.device.type == "cuda":
            made = self._on_gpu(held)
        elif self.device is None and self.pin_memory:
            made = self._for_gpu(held)
        else:
            made = self._on_host(held)
            made = made if self.device is None else _move(made, self.device)
        return self._with_receipt(made)

    def _plain(self, held):
        return Batch.of(loader.Batch(held, self._numbers), self._as_tensors)

    def _columns(self, samples):
        made = super()._columns(samples)
        if isinstance(made, dict):
            return Batch((name, _tensors(column)) for name, column in made.items())
        return _collate.Columns(map(_tensors, made)) if isinstance(made, tuple) else _tensors(made)

    def _mark(self, made, batch):
        if isinstance(made, Batch):
            made._set_place(batch)
        else:
            made.epoch, made.step = batch.epoch, batch.step
            made.ids = tensor(batch.ids.copy()).to(torch.int64)
            made.repeats, made.replaced = map(torch.as_tensor, (batch.repeats, batch.replaced))

    def _on_host(self, held):
        made = self._shaped(held)
        return _mapped(made, torch.Tensor.pin_memory) if self.pin_memory and self._is_made() else made

    def _is_made(self):
        """Whether the loop gets other memory than the loader's, which is pinned."""
        return any((self.transform, self.collate, self.batch_transform))

    def _for_gpu(self, held):
        """For a program that moves batches to a GPU itself: where the last one went, this one is on its way, and the
        next one if it is ready."""
        shown, self._shown = self._shown, held
        if shown is not None:  # what the caller did with it is on the stream by now
            self._copies.add(torch.cuda.current_stream().record_event(), shown)
        device = self._way.device
        if device is None:
            self._way = way = Way()
            return _mapped(self._on_host(held), lambda t: Hosted.of(t, way))
        self._start_copy(held, device, Hosted.of)
        made, self._way = self._moving[held]
        ahead = self._ready_next()
        if ahead is not None and _has_room(made, device):
            self._start_copy(ahead, device, Hosted.of)
        self._moving = {h: m for h, m in self._moving.items() if h is ahead}
        return made

    def _ready_next(self):
        try:
            return self._running.ahead(1)
        except loader.Error:
            return None  # the error comes again at its place in the order

    def _on_gpu(self, held):
        """One batch is on its way while the caller has the one before."""
        self._start_copy(held, self.device, _only_copy)
        try:
            ahead = self._running.take(1)
        except loader.Error:
            ahead = None  # the error comes again at its place in the order
        if ahead is not None:
            self._start_copy(ahead, self.device, _only_copy)
        moved, way = self._moving[held]
        current = torch.cuda.current_stream(self.device)
        current.wait_event(way.event)
        _each_tensor(moved, lambda t: t.record_stream(current))
        # Where a signal handler raises now, the copy is made again.
        self._moving = {h: m for h, m in self._moving.items() if h is ahead}
        return moved

    def _start_copy(self, held, device, make):
        """make(tensor, way, copy) is what the loop gets of a tensor."""
        if held in self._moving:
            return
        stream, way = self._stream(device), Way()
        with torch.cuda.stream(stream):
            made = _mapped(self._on_host(held), lambda t: make(t, way, _copy_of(t, device)))
            way.event = stream.record_event()
        self._copies.add(way.event, held)
        self._moving[held] = (made, way)

    def _stream(self, device):
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return self._streams[device]

    def state_dict(self):
        """Where training is: save it with the model, at any time. The next batch comes first."""
        with self._lock:
            return {"stoker": self.state(), "given": self._received()}

    def load_state_dict(self, state):
        told, self._told = self._told, None
        self._load(state["stoker"], state.get("given"))
        if told is not None and len(self) > told:
            warnings.warn(f"len(loader) was {told} when it was asked; the resumed epoch has "
                          f"{len(self)} batches, since the number of ranks or the batch size has "
                          "changed. A trainer that counts (Lightning) must load the state first: "
                          "see stoker.torch.lightning_state", stacklevel=2)


def lightning_state(checkpoint):
    """The state of the training loader in a checkpoint of Lightning, for load_state_dict().

    Lightning loads it by itself; before that it asks for len(loader), and counts on the answer. Where
    the number of ranks or the batch size has changed, load it before trainer.fit().
    """
    if not isinstance(checkpoint, dict):  # the program's own file, with objects of Lightning in it
        checkpoint = torch.load(checkpoint, map_location="cpu", weights_only=False)
    try:
        states = checkpoint["loops"]["fit_loop"]["state_dict"]["combined_loader"]
    except KeyError:
        raise loader.UsageError("the checkpoint has no state of a loader: it is of Lightning "
                                "before 2.2, or was saved at the end of training") from None
    if len(states) != 1 or "stoker" not in states[0]:
        raise loader.UsageError("the checkpoint is of other loaders than one of stoker's")
    return states[0]


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


def _only_copy(tensor, way, copy):
    return copy


def _has_room(made, device):
    """Whether a GPU has room for another batch beyond all that the program has used so far."""
    sizes = []
    _each_tensor(made, lambda t: sizes.append(t.numel() * t.element_size()))
    return torch.cuda.mem_get_info(device)[0] > 2 * sum(sizes)


def _copy_of(tensor, device):
    return tensor.to(device, non_blocking=True)


def _move(value, device):
    return _mapped(value, lambda t: _copy_of(t, device))


def _mapped(value, do):
    """The same with do(tensor) in the place of each tensor."""
    if isinstance(value, torch.Tensor):
        return do(value)
    if isinstance(value, _collate.Seen):
        parts = value.items() if isinstance(value, dict) else value
        made = type(value)(_mapped(v, do) for v in parts)
        made.__dict__.update(value.__dict__)
        return made
    if isinstance(value, dict):
        return {k: _mapped(v, do) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_mapped(v, do) for v in value)
    if isinstance(value, tuple):
        return type(value)(*(_mapped(v, do) for v in value))
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

    `data` is a path, a stoker.Dataset or a part of one. `transform` is called with each sample.
    Worker processes open the dataset themselves, whether they are forked or spawned.
    """

    def __init__(self, data, transform=None, **options):
        self.dataset = data if isinstance(data, Samples) else Dataset(data, **options)
        self.transform = transform

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, i):
        sample = self.dataset[i]
        return sample if self.transform is None else self.transform(sample)

    def __getitems__(self, indices):
        """A batch at once, with as few reads as bring it."""
        samples = self.dataset.__getitems__(indices)
        return samples if self.transform is None else [self.transform(s) for s in samples]


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
        return map(_without_place, self._loader)


def _without_place(made):
    """For another process: plain dicts and tuples."""
    if isinstance(made, Batch):
        return dict(made)
    return tuple(made) if isinstance(made, _collate.Columns) else made


def __getattr__(name):
    """They need the names above, and may be imported before this module: a spawned process unpickles them."""
    if name in ("DataLoader", "ImageFolder"):
        from stoker import _dataloader, _pictures
        return getattr(_dataloader if name == "DataLoader" else _pictures, name)
    raise AttributeError(f"module 'stoker.torch' has no attribute {name!r}")
