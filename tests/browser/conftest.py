"""A real browser, Chromium without a window, for the tests of the pages: it may ask for nothing but the page itself.

Chromium is the program that CHROMIUM_PATH names, or else the first found in PATH. Where there is none the tests are
skipped, and say so; in CI they fail.
"""

import os
import shutil
from collections.abc import Iterator

import pytest

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def unavailable(reason: str) -> None:
    """Skips the test, or fails it in CI, where a browser must be."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator:
    """Chromium, started once."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("needs Playwright: pip install playwright")
    named = os.environ.get("CHROMIUM_PATH")
    names = [named] if named else ["chromium", "chromium-browser", "google-chrome"]
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        unavailable(f"needs Chromium, and there is no {' or '.join(names)}: install it, or name it in CHROMIUM_PATH")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def page(browser) -> Iterator:
    """An empty page, 1280 x 900. The test fails if it asks for anything but its own file, or reports an error."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(5000)  # milliseconds
    requests: list[str] = []
    errors: list[str] = []
    opened.on("request", lambda request: requests.append(request.url))
    opened.on("console", lambda line: errors.append(line.text) if line.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    loaded: list[str] = []
    opened.on("framenavigated", lambda frame: loaded.append(frame.url.partition("#")[0]))
    yield opened
    context.close()
    others = [url for url in requests if url.partition("#")[0] not in loaded and not url.startswith("data:")]
    strangers = [url for url in loaded if not url.startswith(("file://", "about:blank"))]
    assert (others, strangers) == ([], []), "the page made requests"
    assert errors == [], "the page reported errors"
