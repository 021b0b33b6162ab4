"""What runs show is worded in one place: src/base/verdict.c."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# What only a verdict may say. Of storage, of formats and of options other things may be faster.
WORDS = re.compile(r"within (the|its) noise|(clear|edge) of the noise|clearly (faster|slower)|same within"
                   r"|(times|x) as fast as|not slower|a difference up to|about the same|no clear gain"
                   r"|equally fast|the fastest here|delivers the most", re.I)
# A ratio as it was measured, which says so or has its verdict beside it, and what a law or a model gives.
MEASURED = {"src/scaling/advise_n.c", "src/report/scale.c", "src/scaling/caution.c"}


def strings(path):
    """String literals of a C file, without comments."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)


def test_no_other_file_says_what_is_faster():
    """Two commands would call the same runs faster and unclear."""
    found = {f"{path.relative_to(ROOT)}: {s}" for path in (ROOT / "src").rglob("*.c") for s in strings(path)
             if WORDS.search(s) and path.name != "verdict.c" and str(path.relative_to(ROOT)) not in MEASURED}
    assert not found
