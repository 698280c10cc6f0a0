"""A real browser for pages."""

from __future__ import annotations

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
