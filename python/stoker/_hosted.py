"""Tensors in page-locked memory whose copy to the GPU is under way before the program asks for it.

A program that moves each batch itself, x.to(device), does that on the stream of its model: the model
waits for the copy. A loader that sees where a batch goes copies the next ones on a stream of its own,
while the model works; `to` and `cuda` then give the copy that is there.
"""

import torch

_plain = getattr(torch._C, "DisableTorchFunctionSubclass", None) or torch._C.DisableTorchFunction
_T = torch.Tensor
# They change nothing, and give nothing through which the values could be changed.
LOOKS = {_T.size, _T.dim, _T.numel, _T.stride, _T.element_size, _T.is_contiguous, _T.is_pinned, _T.get_device,
         _T.is_floating_point, _T.is_complex, _T.__len__, _T.__hash__,
         *(getattr(_T, name).__get__ for name in ("shape", "dtype", "device", "ndim", "layout", "is_cuda",
                                                  "requires_grad", "is_sparse"))}


class Way:
    """Where the tensors of a batch go: what the program asked for, and the copies that have begun.

    device   the GPU that the program moved one of them to; None: none so far
    event    of the copies; None: none has begun
    """

    def __init__(self):
        self.device = self.event = None

    def take(self, tensor):
        """The copy of a tensor, once: a second one would share its memory with the first."""
        copy, tensor._copy = tensor._copy, None
        if copy is None or copy.device != self.device:
            return None
        _join(copy, self.event)
        return copy


def _join(copy, event):
    """What the program does with the copy comes after it."""
    stream = torch.cuda.current_stream(copy.device)
    stream.wait_event(event)
    copy.record_stream(stream)


def _hosted_in(value):
    if isinstance(value, Hosted):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _hosted_in(v)


def _device_of(func, args, named):
    """Where tensor.to() or tensor.cuda() leads; None: not to a GPU."""
    if func is _T.cuda:
        device = torch.device(named.get("device", args[0] if args else None) or "cuda")
    else:
        device = torch._C._nn._parse_to(*args, **{k: v for k, v in named.items() if k != "copy"})[0]
    if device is None or device.type != "cuda":
        return None
    return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())


class Hosted(torch.Tensor):
    """A tensor on the host that may have a copy on the GPU. What else is done with it gives ordinary tensors, and
    makes the copy void: the values may have changed since."""

    @classmethod
    def of(cls, tensor, way, copy=None):
        made = tensor.as_subclass(cls)
        made._way, made._copy = way, copy
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with _plain():
            if func is _T.to or func is _T.cuda:
                return args[0]._moved(func, args[1:], kwargs or {})
            if func not in LOOKS:
                for tensor in _hosted_in([*args, *(kwargs or {}).values()]):
                    tensor._copy = None
            return func(*args, **(kwargs or {}))

    def _moved(self, func, args, named):
        device = self._wanted(func, args, named)
        if device is not None:
            self._way.device = device
            copy = self._way.take(self)
            if copy is not None:
                return func(copy, *args, **named)
        return func(self.as_subclass(_T), *args, **named)

    def _wanted(self, func, args, named):
        try:
            return _device_of(func, args, named)
        except (TypeError, RuntimeError):
            return None  # the call itself says what is wrong

    def __reduce_ex__(self, protocol):
        with _plain():
            return self.as_subclass(_T).__reduce_ex__(protocol)

    def __deepcopy__(self, memo):
        with _plain():
            return self.as_subclass(_T).__deepcopy__(memo)
