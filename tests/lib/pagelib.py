"""A real browser for the tests of the page: Debian's Chromium, headless, without a network. And `--serve`.

    def test_x(browser, page):
        browser.open(page)
        assert browser.js("return document.title")
"""

import base64
import http.client
import json
import re
import shutil
import signal
import subprocess

import pytest

from conftest import PATIENCE_S, ROOT, STOKER, clean_env, until

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"


def start(make, tries=5):
    """chromedriver gives up after a minute, which a busy machine may need longer than."""
    from selenium.common.exceptions import SessionNotCreatedException
    for _ in range(tries - 1):
        try:
            return make()
        except SessionNotCreatedException:
            pass
    return make()


class Server:
    """`stoker report … --serve`, once it has said its address."""

    def __init__(self, *args):
        self.process = subprocess.Popen([STOKER, "report", *map(str, args), "--serve"], env=clean_env(), text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.url = self.process.stdout.readline().strip()
        self.port, self.token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/", self.url).groups()

    def ask(self, method="GET", path=None, **headers):
        c = http.client.HTTPConnection("127.0.0.1", int(self.port), timeout=60)
        c.request(method, f"/{self.token}/" if path is None else path, headers=headers)
        answer = c.getresponse()
        return answer.status, answer.read().decode(), answer.headers

    def end(self, sig=signal.SIGINT):
        self.process.send_signal(sig)
        self.process.communicate(timeout=300)
        return self.process.returncode


class Browser:
    def __init__(self, downloads):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        # No sandbox: tests run as root and in containers. No network: there is nothing to reach but a server of ours.
        for arg in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--window-size=1200,1000"]:
            options.add_argument(arg)
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.downloads = downloads
        self.driver = start(lambda: webdriver.Chrome(service=Service(DRIVER), options=options))
        self.driver.set_script_timeout(PATIENCE_S)
        self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))

    def cdp(self, method, **params):
        return self.driver.execute_cdp_cmd(method, params)

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def open(self, path, width=1200, height=1000, dark=False):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.cdp("Emulation.setEmulatedMedia", media="",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.driver.get("about:blank")
        self.driver.get(path if isinstance(path, str) else path.as_uri())

    def draw_all(self):
        """Looks at each block that is drawn late, until it is drawn: a browser that is busy may leave out frames. All of it
        there, since a question per block would take longer than the drawing."""
        self.driver.execute_async_script("""const done = arguments[0];
            (function look() {
                const late = [...document.querySelectorAll('.block')].find(b => b.ready && !('drawn' in b.dataset));
                if (!late) return done();
                late.scrollIntoView();
                requestAnimationFrame(look);
            })();""")

    def complaints(self):
        """What the page wrote to the console, violations of its policy among it."""
        return [e["message"] for e in self.driver.get_log("browser")]

    def requests(self):
        """Every address that was asked for, but the page itself."""
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [u for u in asked if not (u.startswith("file:") and u.endswith(".html")) and not u.startswith(("about:", "blob:"))]

    def click(self, selector, text=None):
        self.js("""const all = [...document.querySelectorAll(arguments[0])];
                   const it = arguments[1] === null ? all[0] : all.find(b => b.textContent.trim() === arguments[1]);
                   it.scrollIntoView({block: "center"}); it.click();""", selector, text)

    def saved(self, name):
        """The bytes of a download, once it is complete."""
        path = self.downloads / name
        until(path.exists)
        until(lambda: not list(self.downloads.glob("*.crdownload")) and path.stat().st_size)
        return path.read_bytes()

    def keys(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains
        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def axe(self):
        """What an accessibility checker finds: {rule: elements}."""
        self.cdp("Page.setBypassCSP", enabled=True)
        self.js(AXE.read_text())
        found = self.driver.execute_async_script("axe.run({resultTypes: ['violations']}).then(arguments[0])")
        self.cdp("Page.setBypassCSP", enabled=False)
        return {v["id"]: [n["html"][:160] for n in v["nodes"]] for v in found["violations"]}

    def paper(self):
        return base64.b64decode(self.cdp("Page.printToPDF", printBackground=True)["data"])


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not CHROMIUM or not DRIVER:
        pytest.skip("chromium or chromium-driver is not installed")
    pytest.importorskip("selenium", reason="python3-selenium is not installed")
    it = Browser(tmp_path_factory.mktemp("downloads"))
    yield it
    it.driver.quit()
