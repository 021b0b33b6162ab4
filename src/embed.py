"""Writes the code that stoker prints as C strings: embed.py FILE… OUT.c OUT.h

`more-readers.py` becomes `const char stk_code_more_readers_py[]`."""
import pathlib
import re
import sys

*files, source, header = map(pathlib.Path, sys.argv[1:])


def symbol(path):
    return "stk_code_" + re.sub(r"\W", "_", path.name)


def literal(line):
    return '    "' + line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


header.write_text("#pragma once\n" + "".join(f"extern const char {symbol(f)}[];\n" for f in files))
with open(source, "w") as out:
    out.write(f'#include "{header.name}"\n')
    for f in files:
        lines = f.read_text().splitlines(keepends=True)
        out.write(f"const char {symbol(f)}[] =\n" + "\n".join(map(literal, lines)) + ";\n")
