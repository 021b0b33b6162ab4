"""The options of a loader, as the C library's table has them: signature, documentation, typos."""

import collections
import difflib
import inspect
import textwrap

from stoker import _stoker

Option = collections.namedtuple("Option", "name default choices help")
OPTIONS = {row[0]: Option(*row) for row in _stoker.loader_options}


def refuse_unknown(who, names, known):
    """TypeError for the first of `names` that is not one of `known`, with the nearest of them."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{who} has no option {name!r}{hint}")


def _lines(option):
    """What the documentation says of an option."""
    text = option.help
    if option.choices:
        text += f"; one of {', '.join(option.choices)}"
    if option.default not in (None, False):
        text += f" (default {option.default})"
    return textwrap.fill(text, 96, initial_indent=f"    {option.name:<9} ",
                         subsequent_indent=" " * 14)


def document(loader):
    """Puts the options into the signature and the documentation of a class of loaders."""
    init = loader.__init__
    parameters = list(inspect.signature(init).parameters.values())
    given = {p.name for p in parameters}
    names = [inspect.Parameter(o.name, inspect.Parameter.KEYWORD_ONLY, default=o.default)
             for o in OPTIONS.values() if o.name not in given]
    rest = parameters[-1].replace(name="dataset_options")
    init.__signature__ = inspect.Signature([*parameters[:-1], *names, rest])
    if loader.__doc__:  # there is none under python -OO
        text = "\n".join(map(_lines, OPTIONS.values()))
        loader.__doc__ = loader.__doc__.replace("    {options}", text)
