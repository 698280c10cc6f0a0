"""A real browser for pages."""

import os
import shutil

import pytest


@pytest.fixture(scope="session")
def chromium():
    """The browser; where there is none, a skip, or with JNPL_NEEDS_CHROMIUM (.ci/run) a failure."""
    missing = pytest.fail if os.environ.get("JNPL_NEEDS_CHROMIUM") else pytest.skip
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        missing("there is no Chromium on this machine")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def watched(chromium):
    """A function that opens a page, which may ask only for addresses that start with `home` (and data: ones).

    What goes wrong on any page of the test fails it at the end, unless it is removed from the page's `faults`.
    """
    faults, contexts = [], []

    def open_page(home, address, *, context=None, width=1280, height=900, theme="light", **more):
        if context is None:
            size = {"width": width, "height": height}
            context = chromium.new_context(viewport=size, color_scheme=theme, **more)
            context.set_default_timeout(600_000)  # milliseconds: tests share the machine
            contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"console: {message.type} {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda sent: sent.url.startswith((home, "data:")) or faults.append(f"request: {sent.url}"))
        page.goto(address)
        page.faults = faults
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []
