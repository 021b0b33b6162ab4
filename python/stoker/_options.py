"""The options of datasets and loaders: those of the C library's tables, and Python's own. Signatures,
documentation, the names of a torch DataLoader, typos."""

import collections
import collections.abc
import difflib
import inspect
import textwrap

from stoker import _stoker

Option = collections.namedtuple("Option", "name default choices help")
DATASET = {row[0]: Option(*row) for row in _stoker.dataset_options}
OPTIONS = {row[0]: Option(*row) for row in _stoker.loader_options}
# A validation in order must not lose its last samples in silence.
OPTIONS["last"] = OPTIONS["last"]._replace(
    default=None, help=OPTIONS["last"].help + " (default: drop where samples are shuffled, short in "
                                              "order)")

# What Python does itself.
PYTHON = {row[0]: Option(row[0], row[1], (), row[2]) for row in (
    ("transform", None, "Called with each sample, a dict as Dataset gives it; the result takes its "
                        "place. On threads, or in worker processes"),
    ("workers", 0, "Processes that run transform; 0: threads, as many as threads="),
    ("collate", None, "Called with the list of the samples of a batch; its result is the batch"),
    ("batch_transform", None, "Called with each batch; its result takes the batch's place"),
    ("as_tuple", None, "Batches are tuples of columns: True for all fields, or names"),
    ("weights", None, "One number per sample: samples are drawn by weight, with replacement"),
    ("draws", None, "With weights: samples of an epoch (default: as many as there are)"),
    ("sampler", None, "Numbers of samples in the order wanted: a sequence, an iterable that begins "
                      "anew for each epoch, or a function of the epoch"),
)}

# What a torch DataLoader calls what we have under another name, and what has no effect here.
ALIASES = {"batch_size": "batch", "num_workers": "workers", "collate_fn": "collate",
           "multiprocessing_context": "context"}
WITHOUT_EFFECT = ("persistent_workers", "prefetch_factor")

# What a torch DataLoader has and a Loader has not: what to do instead.
INSTEAD = {
    "worker_init_fn": "worker processes seed random, NumPy and PyTorch for each sample by "
                      "themselves; put what else they need into transform=",
    "timeout": "a loader waits until it is interrupted: leave it out",
    "generator": "the order follows from seed=",
    "batch_sampler": "batches are cut from the order by batch=; give the order with sampler=, or use "
                     "DataLoader(stoker.torch.MapDataset(path), batch_sampler=...)",
    "target_transform": "transform= is called with the whole sample: s[\"label\"] = f(s[\"label\"])",
    "pin_memory": "stoker.torch.Loader has it",
    "device": "stoker.torch.Loader has it",
}


def _refuse(who, name, known):
    if name in INSTEAD:
        raise TypeError(f"{who} has no option {name!r}: {INSTEAD[name]} "
                        "(docs/python.md, \"When the Loader cannot replace your DataLoader\")")
    _refuse_unknown(who, name, known)


def _refuse_unknown(who, name, known):
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise TypeError(f"{who} has no option {name!r}{hint}")


def _rename(who, options):
    """Puts our names in the place of a torch DataLoader's."""
    if "batch_size" in options and options["batch_size"] is None:
        raise TypeError(f"{who}: batch_size=None: a Loader gives batches; for single samples "
                        "use stoker.Dataset, or batch=1")
    for theirs, ours in ALIASES.items():
        if theirs not in options:
            continue
        value = options.pop(theirs)
        default = OPTIONS[ours].default if ours in OPTIONS else None
        if options.get(ours, value) not in (value, default):
            raise TypeError(f"{who}: {ours} and {theirs} are the same option")
        options[ours] = value
    for name in WITHOUT_EFFECT:
        options.pop(name, None)
    if "drop_last" in options:
        last = "drop" if options.pop("drop_last") else "short"
        if options.get("last") not in (None, last):
            raise TypeError(f"{who}: last and drop_last are the same option")
        options["last"] = last
    if isinstance(options.get("shuffle"), bool):
        options["shuffle"] = "block" if options["shuffle"] else "none"


def _plain(option, value):
    """A value as the C library takes it: text for {"x": "int"}, and for True and False where the
    choices are yes and no."""
    if isinstance(value, collections.abc.Mapping):
        return ",".join(f"{name}={kind}" for name, kind in value.items()) or None
    if "yes" in option.choices and not isinstance(value, (str, type(None))):
        return "yes" if value else "no"
    return value


def take_dataset_options(options):
    for name in options:
        if name not in DATASET:
            _refuse_unknown("Dataset", name, DATASET)
    return {name: _plain(DATASET[name], value) for name, value in options.items()}


def _settle_order(who, options, own):
    """The order and the last batch, where nothing is said of them."""
    ordered = own.get("sampler") is not None
    if ordered or own.get("weights") is not None:
        if ordered and own.get("weights") is not None:
            raise TypeError(f"{who}: weights and sampler each decide which samples come: give one")
        if options.get("shuffle") not in (None, "none"):
            raise TypeError(f"{who}: {'sampler' if ordered else 'weights'} decides the order: leave "
                            "shuffle= out")
        options["shuffle"] = "none"
    if options.get("last") is None:
        in_order = ordered or (options.get("shuffle") == "none" and own.get("weights") is None)
        options["last"] = "short" if in_order else "drop"


def take_options(who, options):
    """(the loader's, the dataset's, Python's own): names of a DataLoader are taken where we have the
    thing."""
    options = dict(options)
    _rename(who, options)
    own = {name: options.pop(name) for name in (*PYTHON, "context") if name in options}
    rest = {name: options.pop(name) for name in [*options] if name not in OPTIONS}
    for name in rest:
        if name not in DATASET:
            _refuse(who, name, [*OPTIONS, *PYTHON, *DATASET])
    if options.get("fields") is not None and not isinstance(options["fields"], str):
        options["fields"] = tuple(options["fields"])
    _settle_order(who, options, own)
    return options, rest, own


def _lines(option, width):
    """The documentation of an option."""
    text = option.help
    if option.choices:
        text += f"; one of {', '.join(option.choices)}"
    if option.default not in (None, False):
        text += f" (default {option.default})"
    return textwrap.fill(text, 96, initial_indent=f"    {option.name:<{width}} ",
                         subsequent_indent=" " * (width + 5))


def document(cls, options, rest=None):
    """Puts the options into the signature and the documentation of a class, in the place of its
    last parameter; rest: the name of that parameter where it takes other options, too."""
    init = cls.__init__
    *parameters, last = inspect.signature(init).parameters.values()
    given = {p.name for p in parameters}
    parameters += [inspect.Parameter(o.name, inspect.Parameter.KEYWORD_ONLY, default=o.default)
                   for o in options.values() if o.name not in given]
    if rest:
        parameters.append(last.replace(name=rest))
    init.__signature__ = inspect.Signature(parameters)
    if cls.__doc__:  # there is none under python -OO
        width = 1 + max(map(len, options))
        text = "\n".join(_lines(option, width) for option in options.values())
        cls.__doc__ = cls.__doc__.replace("    {options}", text)


# ---- images ------------------------------------------------------------------------------------

def _setting(name, value):
    """One setting of decode="image:..."; None: it is not there."""
    joints = {"mean": ":", "std": ":", "scale": "-", "ratio": "-"}
    if value is None or value is False:
        return None
    if value is True:
        return name
    if isinstance(value, (tuple, list)):
        value = joints.get(name, ",").join(f"{v:.9g}" for v in value)
    return f"{name}={value}"


def image(size=None, **settings):
    """The text that decode= takes for images: image(224, crop="random", flip=True, layout="chw",
    mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)).

    size is a number or (width, height). Settings are those of docs/loader.md: crop, resize, flip,
    layout, gray, scale, ratio, dtype, mean, std, field.
    """
    if isinstance(size, (tuple, list)):
        size = "x".join(map(str, size))
    parts = [None if size is None else str(size)]
    parts += [_setting(name, value) for name, value in settings.items()]
    text = ",".join(p for p in parts if p is not None)
    text = f"image:{text}" if text else "image"
    _stoker.check_options(decode=text)
    return text
