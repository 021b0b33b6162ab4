"""page: size of the largest page, and how soon a browser shows it: 1,000 ranks, as many files as a profile keeps."""

import shutil
import time

import big_profile
from common import STOKER, median, table, timed

READY = "return document.querySelectorAll('.verdict').length > 0 && document.querySelector('figure[data-drawn] canvas') !== null"
HEAT = "return document.querySelector('#r1-heat[data-drawn] canvas') !== null"
ROWS = "return document.querySelectorAll('#r1-files .tabulator-row').length > 5"


def browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for arg in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,1000"]:
        options.add_argument(arg)
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


def until(driver, fact, start):
    while not driver.execute_script(fact):
        time.sleep(0.01)
    return time.monotonic() - start


def look(driver, page):
    """Seconds until the first plot is drawn, from there until the heat map is, if there is one, and until the table of files is."""
    driver.get("about:blank")
    start = time.monotonic()
    driver.get(page.as_uri())
    first = until(driver, READY, start)
    heat = 0
    if driver.execute_script("return document.getElementById('r1-heat') !== null"):
        start = time.monotonic()
        driver.execute_script("document.getElementById('r1-heat').scrollIntoView()")
        heat = until(driver, HEAT, start)
    start = time.monotonic()
    driver.execute_script("document.getElementById('r1-files').scrollIntoView()")
    return first, heat, until(driver, ROWS, start)


def measure(bench, driver, what, profile):
    """Writes the page of a profile and opens it, each several times."""
    page = bench.dir / "page.html"
    made = [timed([STOKER, "report", profile, "-q", "-o", page]) for _ in range(bench.repeats)]
    size = page.stat().st_size
    seen = [look(driver, page) for _ in range(bench.repeats)]
    page.unlink()
    opened, heat, rows = (median([s[i] for s in seen]) for i in range(3))
    bench.claim(f"the page of {what}: under 5 MB", f"{size / 1e6:.2f} MB", size < 5e6)
    bench.claim(f"the page of {what}: opens in under 3 s", f"{opened:.2f} s", opened < 3)
    if heat:
        bench.claim(f"the page of {what}: ranks over time in under 3 s", f"{heat:.2f} s", heat < 3)
    bench.results.setdefault("page", {})[what] = {"bytes": size, "write_s": made, "open_s": [s[0] for s in seen], "heat_s": [s[1] for s in seen], "table_s": [s[2] for s in seen]}
    return [what, f"{size / 1e6:.2f}", f"{median(made):.2f}", f"{opened:.2f}", f"{heat:.2f}" if heat else "-", f"{rows:.2f}"]


def run(bench, _python):
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("page: chromium or chromium-driver is not installed\n")
        return
    ranks = 100 if bench.quick else 1000
    log, folder = bench.dir / "big.txt", bench.dir / "big.profile"
    big_profile.write_log(log, ranks)
    big_profile.record(folder, ranks, stoker=STOKER)
    driver = browser()
    try:
        rows = [measure(bench, driver, f"{ranks:,} ranks, recorded", folder), measure(bench, driver, f"{ranks:,} ranks, a Darshan log", log)]
    finally:
        driver.quit()
    table(["page", "MB", "s to write", "s to open", "s to the ranks over time", "s to the table of files"], rows)
    log.unlink()
    shutil.rmtree(folder)
