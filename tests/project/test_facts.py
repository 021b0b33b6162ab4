"""No decision reads a message: what happened is an enum, a bit or an error code, and its sentence is for
people. Words from outside (Slurm's, a library's, a user's) are read once, where they come in."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

COMPARES = re.compile(r"\b(?:strn?cmp|strn?casecmp|str(?:case)?str|memmem|strp?brk|strc?spn|regexec)\s*\(")
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
QUOTED = re.compile(r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""")
# Members and variables that hold sentences: struct stk_err.what, and the like of other structs.
PROSE = re.compile(r"\b(?:what|why|notes?|reason|warning|sentence|message|title|said|because)\b(?!\()")
# A literal of several words is a piece of a sentence.
WORDS = re.compile(r"[A-Za-z]\S* +\S|\S +[A-Za-z]")
# What is an enum or a bit by now; its words are only in its table of names.
DECIDED = {"darshan": "stk_prof_knows of the source", "torch": "enum stk_framework", "tf": "enum stk_framework",
           "numpy": "enum stk_framework", "slurm": "enum stk_scheduler", "torchrun": "enum stk_rank_from",
           "exec": "enum stk_log_end", "killed": "enum stk_log_end", "copying": "enum stk_spread_phase",
           "lost": "enum stk_spread_phase", "fuse": "struct stk_fs", "zfs": "struct stk_fs",
           "overlay": "struct stk_fs", "tmpfs": "struct stk_fs", "always": "enum stk_colour_when"}
DECIDED |= dict.fromkeys(re.findall(r'X\(\w+, \w+, "([\w-]+)"', (ROOT / "src/advice/rules.h").read_text()), "enum stk_rule")
# A number where <errno.h> has a name; 0 is none.
NUMBER = re.compile(r"\b(?:sys_)?errno\s*[!=]=\s*[1-9]|\berror\s*==\s*[1-9]|\bstrerror\(\d")

# file: {argument that is read: why}
OUTSIDE = {
    "src/format/hdf5/store.c": {"why": "libhdf5 has one code for all of this"},
    "src/format/hdf5/write.c": {"e->desc": "libhdf5 hides errno in its text"},
    "src/format/squashfs/squashfs.c": {"said": "another program: tar2sqfs"},
    "src/image/png.c": {"what": "libpng tells lack of memory from damage by its text alone"},
    "src/host/cpus.c": {"line": "/proc/cpuinfo"},
    "src/profile/launch.c": {"q->command": "the command of a worker of Python's multiprocessing"},
    "src/sched/slurm/slurm.c": {"j->reason": "a word of Slurm"},
    "src/sched/slurm/job.c": {"step->title": "the name that we give to a step of ours",
                              "reason": "Slurm's words: the table of their meanings"},
    "src/job/watch.c": {"title": "slurmstepd's"},
    "src/cmd/report.c": {"what": "an option of the user: TABLE=FILE"},
    "src/study/command.c": {"text": "what mpirun --version prints"},
}
# Equal texts are said once: nothing is learned from what they say.
SAME = {
    "src/dataset/dataset.c": {"what"},
    "src/profile/run.c": {"pb->p->note[k]"},
    "src/profile/darshan/text.c": {"p->note[i]"},
    "src/report/tune.c": {"why"},
    "src/tune/tune.c": {"t->note[i]"},
}
# The grammar and the repetitions of one sentence.
WORDING = {
    "src/report/problems.c": {"why": "the plural of a reason"},
    "src/format/hdf5/hdf5.c": {"why": "the name of a dataset is not said twice"},
}


def calls(text):
    """(line, arguments) of each comparison of texts."""
    plain = QUOTED.sub(lambda m: "x" * len(m[0]), text)  # no brackets of strings and characters
    for m in COMPARES.finditer(plain):
        depth, end = 1, m.end()
        while depth:
            depth += (plain[end] == "(") - (plain[end] == ")")
            end += 1
        yield text.count("\n", 0, m.start()) + 1, text[m.end():end - 1]


def reads_prose(args):
    """What of a sentence a comparison reads; None: nothing."""
    code = STRING.sub('""', args)
    if PROSE.search(code) or any(WORDS.search(s) for s in STRING.findall(args)):
        return code
    return None


def without_comments(path):
    return re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), path.read_text(), flags=re.S)


def sources():
    found = [p for p in sorted((ROOT / "src").rglob("*.[ch]")) if p.parent.name != "code"]
    assert len(found) > 300
    return {str(p.relative_to(ROOT)): without_comments(p) for p in found}


def allowed(name):
    return {*OUTSIDE.get(name, ()), *SAME.get(name, ()), *WORDING.get(name, ())}


def test_no_decision_reads_a_message():
    """A message that somebody words better would change what stoker does."""
    wrong = []
    for name, text in sources().items():
        for line, args in calls(text):
            code = reads_prose(args)
            if code and not any(a in code for a in allowed(name)):
                wrong.append(f"{name}:{line}: {' '.join(args.split())}")
    assert not wrong, "a sentence is compared or cut; give what it says as an enum, a bit or a code:\n" + "\n".join(wrong)


def test_words_of_an_enum_are_compared_in_its_table_alone():
    """The thirtieth strcmp() with "torch" forgets the one name that the others know."""
    wrong = [f"{name}:{line}: {word}: {DECIDED[word]}" for name, text in sources().items()
             for line, args in calls(text) for word in STRING.findall(args) if word in DECIDED]
    assert not wrong, "compare the enum:\n" + "\n".join(wrong)


def test_errnos_have_names():
    """28 is no reason that a reader can check, and another number on another system."""
    wrong = [f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {m[0]}" for name, text in sources().items()
             for m in NUMBER.finditer(text)]
    wrong += [f"{p.relative_to(ROOT)}: {m[0]}" for p in sorted((ROOT / "python/stoker").glob("*.py"))
              for m in re.finditer(r"errno\s*(?:==|!=|in)\s*[(\[{]?\d+", p.read_text())]
    assert not wrong, "write the name:\n" + "\n".join(wrong)


def test_python_reads_no_message():
    """The exception's class and errno say what happened."""
    wrong = [f"{p.relative_to(ROOT)}: {m[0]}" for p in sorted((ROOT / "python/stoker").glob("*.py"))
             for m in re.finditer(r"""["'][^"'\n]*["']\s+(?:not\s+)?in\s+str\(\w+\)|str\(e\w*\)\.(?:startswith|find)""",
                                  p.read_text())]
    assert not wrong


def test_a_struct_has_one_meaning():
    """Two structs of one name cannot be told apart in a debugger, a search, or a file that needs both."""
    tags = [tag for text in sources().values() for tag in re.findall(r"^struct (stk_\w+) \{", text, flags=re.M)]
    assert len(tags) > 300 and not {t for t in tags if tags.count(t) > 1}


def test_exceptions_are_used():
    """An exception that is no longer needed would let the next one in."""
    text = sources()
    for name in {*OUTSIDE, *SAME, *WORDING}:
        read = [code for _, args in calls(text[name]) if (code := reads_prose(args))]
        assert not [a for a in allowed(name) if not any(a in code for code in read)], name


@pytest.mark.parametrize("line, wrong", [
    ('strstr(err->what, "timed out")', True), ('strcmp(why->what, ANOTHER_RUN) == 0', True),
    ('strncmp(note, text, n)', True), ('strstr(said, "; see output/")', True), ('strcmp(s, "a b") == 0', True),
    ('strcmp(u->format, "npy")', False), ('strstr(name, ".partial")', False), ('strncmp(line, "ro", 2)', False)])
def test_the_check_sees_them(line, wrong):
    """A check that finds nothing would pass on everything."""
    (_, args), = calls(line)
    assert bool(reads_prose(args)) == wrong
