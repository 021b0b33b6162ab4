"""The code that stoker prints, rendered by stoker itself, and the files that it is made of."""

import ast
import re
import subprocess

from conftest import ROOT, STOKER

FILES = {p.name: p for room in ("advice", "format") for p in sorted((ROOT / "src" / room / "code").iterdir())}
LANGUAGE = {".py": "python", ".c": "c", ".sh": "shell"}


def printed(program, *args):
    """{heading: [(language, code)]} of a unit test that prints what it renders."""
    out = subprocess.run([STOKER.parent / "tests" / program, *map(str, args)], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    parts = re.split(r"^== (.*)\n", out, flags=re.M)[1:]
    return {head: re.findall(r"^-- (.*)\n((?:(?!-- ).*\n)*)", text, flags=re.M)
            for head, text in zip(parts[::2], parts[1::2])}


def only(language, found):
    return [text for lang, text in found if lang == language]


# ---- which file a text was made of ----

PLACES = ("SOURCE TARGET COUNT DEPTH BYTES FORMAT CODEC INTRO LOADER BATCH THREADS SHUFFLE DECODE FIELDS BATCH_MARK "
          "MODULES LOAD FIELD LABELS RESULT DECODE_MARK KINDS EACH_NODE COPY NAME PROFILE SOURCES PATTERNS STRIPE URI OPEN").split()
PLACE = rf'(?<![A-Za-z_])"?\$?\b(?:{"|".join(sorted(PLACES, key=len, reverse=True))})\b"?'
MAY_LACK = re.compile(rf',\s+\.?\w+ ?= ?{PLACE}|\s?--[\w-]+ {PLACE}|\s*(?:#|//) {PLACE}\n?|{PLACE} ?')


def bare(text):
    """Without quotes: a command may be the argument of another one."""
    return re.sub(r"""['"\\]""", "", text)


def is_made_of(text, name):
    """Whether the code has that file in it, its places filled in or left out."""
    code, pattern, at = FILES[name].read_text().removesuffix("\n"), "", 0
    for place in MAY_LACK.finditer(code):
        pattern += re.escape(bare(code[at:place.start()])) + ".*?"
        at = place.end()
    pattern += re.escape(bare(code[at:]))
    return re.search(pattern, bare(text), flags=re.S) is not None


# ---- running Python ----

def run_python(text, names):
    """As pasted; what its last line gives, if that is an expression."""
    tree = ast.parse(text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "printed", "exec"), names)
    return eval(compile(ast.Expression(last.value), "printed", "eval"), names) if last else None
