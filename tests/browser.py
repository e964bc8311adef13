"""A real browser for tests: Chromium without a window, driven by Selenium."""

from __future__ import annotations

import shutil

import pytest

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    # No window, and nothing that asks the network or the machine for more than a page needs.
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # The sandbox refuses to run as root; the only page that is opened is our own.
    "--no-sandbox",
)


def start_browser(profile):
    """Start a browser, or skip the test and say what is missing.

    Parameters
    ----------
    profile : path
        An empty folder.
    """
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    exceptions = pytest.importorskip("selenium.common.exceptions")
    services = pytest.importorskip("selenium.webdriver.chrome.service")
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip(f"{'chromedriver' if program else 'Chromium'} is not installed")
    options = selenium.ChromeOptions()
    options.binary_location = program
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        # With its path, Selenium does not look for a driver in the network.
        return selenium.Chrome(options=options, service=services.Service(driver))
    except exceptions.SessionNotCreatedException as error:
        pytest.skip(f"Chromium does not start: {error.msg}")


class Page:
    """A page in a browser."""

    def __init__(self, browser, path):
        self.browser, self.path = browser, path

    def open(self, *, width=1600, scheme="light"):
        """Load the page anew, with nothing remembered, for a screen of this width and colours."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        self.choose(scheme)
        self.browser.get(self.path.as_uri())
        if self.run("return document.documentElement.dataset.theme"):
            self.run("localStorage.clear()")
            self.browser.get(self.path.as_uri())
        return self

    def choose(self, scheme):
        """Let the system prefer light or dark colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", features=features)

    def command(self, name, **arguments):
        return self.browser.execute_cdp_cmd(name, arguments)

    def run(self, script, *arguments):
        """Run a script and return what it returns."""
        return self.browser.execute_script(script, *arguments)

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def messages(self):
        """Return what the browser has to complain about since the last time."""
        return [entry for entry in self.browser.get_log("browser") if entry["level"] != "INFO"]
