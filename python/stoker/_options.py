"""The options of datasets and loaders, as the C library's tables have them: signatures,
documentation, typos."""

import collections
import collections.abc
import difflib
import inspect
import textwrap

from stoker import _stoker

Option = collections.namedtuple("Option", "name default choices help")
DATASET = {row[0]: Option(*row) for row in _stoker.dataset_options}
OPTIONS = {row[0]: Option(*row) for row in _stoker.loader_options}


# What a torch DataLoader has and a Loader has not: what to do instead.
INSTEAD = {
    "num_workers": "the loader reads and decodes with threads of its own: leave it out "
                   "(threads= is their number)",
    "prefetch_factor": "how far is read ahead follows from memory=: leave it out",
    "persistent_workers": "there are no worker processes: leave it out",
    "worker_init_fn": "there are no worker processes: leave it out",
    "multiprocessing_context": "there are no worker processes: leave it out",
    "timeout": "there are no worker processes: leave it out",
    "generator": "the order follows from seed=",
    "sampler": "the order is the loader's own (shuffle=, seed=); for another one use "
               "DataLoader(stoker.torch.MapDataset(path), sampler=...)",
    "batch_sampler": "the order is the loader's own (shuffle=, seed=, batch=); for another one use "
                     "DataLoader(stoker.torch.MapDataset(path), batch_sampler=...)",
    "collate_fn": "batches come as columns: change them in the loop, or with transform= of "
                  "stoker.torch.Loader; for one of your own use "
                  "DataLoader(stoker.torch.MapDataset(path), collate_fn=...)",
    "transform": "stoker.torch.Loader has it; here, change the batch in the loop",
    "target_transform": "change the batch in the loop, or with transform= of stoker.torch.Loader",
    "pin_memory": "stoker.torch.Loader has it",
    "device": "stoker.torch.Loader has it",
}


def _refuse(who, name, known):
    if name in INSTEAD:
        raise TypeError(f"{who} has no option {name!r}: {INSTEAD[name]} "
                        "(docs/python.md, \"Where the Loader cannot replace the DataLoader\")")
    _refuse_unknown(who, name, known)


def _refuse_unknown(who, name, known):
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise TypeError(f"{who} has no option {name!r}{hint}")


def _rename(who, options):
    """The names of a torch DataLoader for what we have under another one."""
    if "batch_size" in options:
        batch = options.pop("batch_size")
        if options.get("batch", batch) not in (batch, OPTIONS["batch"].default):
            raise TypeError(f"{who}: batch and batch_size are the same option")
        if batch is None:
            raise TypeError(f"{who}: batch_size=None: a Loader gives batches; for single samples "
                            "use stoker.Dataset, or batch=1")
        options["batch"] = batch
    if "drop_last" in options:
        last = "drop" if options.pop("drop_last") else "short"
        if options.get("last") not in (None, last):
            raise TypeError(f"{who}: last and drop_last are the same option")
        options["last"] = last
    if isinstance(options.get("shuffle"), bool):
        options["shuffle"] = "block" if options["shuffle"] else "none"


def _plain(option, value):
    """What the C library takes: text for {"x": "int"}, and for True and False where yes and no
    are choices."""
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


def take_options(who, options):
    """(the loader's, the dataset's): names of a DataLoader are taken where we have the thing."""
    options = dict(options)
    _rename(who, options)
    rest = {name: options.pop(name) for name in [*options] if name not in OPTIONS}
    for name in rest:
        if name not in DATASET:
            _refuse(who, name, [*OPTIONS, *DATASET])
    if options.get("fields") is not None and not isinstance(options["fields"], str):
        options["fields"] = tuple(options["fields"])
    return options, rest


def _lines(option, width):
    """What the documentation says of an option."""
    text = option.help
    if option.choices:
        text += f"; one of {', '.join(option.choices)}"
    if option.default not in (None, False):
        text += f" (default {option.default})"
    return textwrap.fill(text, 96, initial_indent=f"    {option.name:<{width}} ",
                         subsequent_indent=" " * (width + 5))


def document(cls, options, rest=None):
    """Puts the options into the signature and the documentation of a class, in the place of its
    last parameter; rest: what that is called where it takes others, too."""
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
