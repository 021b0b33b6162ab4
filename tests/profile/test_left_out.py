"""What a profile shows as data: code that is read is data, code that is run is not. A user would
look for a problem in files that the profile does not show, or find the interpreter's there."""


from profilelib import PYTHON, profile  # noqa: F401

SCAN = """
import multiprocessing, sys, warnings
import helper

def scan(paths):
    for path in paths:
        with open(path) as f:
            f.read()

if __name__ == "__main__":
    scan(sys.argv[1:])
    worker = multiprocessing.get_context("spawn").Process(target=scan, args=(sys.argv[1:],))
    worker.start()
    worker.join()
"""


def test_code_is_data_to_whoever_reads_it(profile, tmp_path):  # noqa: F811
    """Python's script and modules are left out, whether compiled or not, and not the .py files that
    it reads; nor are those, or a .jar, to another program."""
    (tmp_path / "scan.py").write_text(SCAN)
    (tmp_path / "helper.py").write_text("import warnings\nwarnings.warn('shows this line')\n")
    data = [tmp_path / f"set/a-site-packages-set/{i}.py" for i in range(20)] + [tmp_path / "set/x.jar"]
    for path in data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n" * 10)
    p = profile([PYTHON, tmp_path / "scan.py", *data])
    assert p.rc == 0, p.err
    assert {r["path"] for r in p.records if r["counters"]["reads"]} == {str(d) for d in data}
    assert [p.count(d, "read_bytes") for d in data] == [120] * 21
    p = profile(["cat", *data, tmp_path / "scan.py"])
    assert {r["path"] for r in p.records} == {str(d) for d in data} | {f"{tmp_path}/scan.py"}


def test_in_a_program_that_another_one_waits_for(profile):  # noqa: F811
    """`find /usr/share | xargs cat` read 46 MB, and nothing was said of it."""
    p = profile(["sh", "-c", "find /usr/share/doc -type f 2>/dev/null | head -500 | xargs cat > /dev/null; true"])
    spent = max(q["left_out_ns"] * 1e-9 for q in p.processes if "cat" in q["command"].split()[0])
    assert spent > 0 and p.report["main_loop"]["library_s"] >= 0.99 * spent
