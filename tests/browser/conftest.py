"""A Chromium that no test can use to leave this machine, and pages that report what they asked for.

    def test_something(page_offline, console_errors):
        page_offline.goto(address)

`page_offline` may talk to this machine alone (JupyterLab), `page_from_disk` may read files and nothing else.
Either fails its test, naming the addresses, if anything else was asked for. Viewport of both: 1280 x 720.
"""

import shutil
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from .lab import PATIENCE, ROOT, lab_of

HERE = Path(__file__).parent
NOTEBOOKS = ROOT / "notebooks"
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Below playwright's own watch: no name but this machine's is ever found.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
]
STAGE = {"width": 1280, "height": 720}
HERE_ONLY = {"localhost", "127.0.0.1", "::1"}
FROM_DISK = {"file", "data", "about", "blob"}
ABSENT = "no Chromium on this machine (Debian, Ubuntu: sudo apt install chromium)"


def is_from_disk(address):
    """Whether the parts of an address name a file here; //cdn.example.org in a file is file://cdn.example.org."""
    return address.scheme in FROM_DISK and not address.hostname


def is_here(address):
    """Whether the parts of an address name a file or a server of this machine."""
    return is_from_disk(address) or address.hostname in HERE_ONLY


def find_chromium():
    """The path of a Chromium on this machine, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def pytest_collection_modifyitems(items):
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.browser)
        if find_chromium() is None:
            item.add_marker(pytest.mark.skip(reason=ABSENT))


@pytest.fixture(scope="module")
def chromium():
    """A running Chromium; one for each test file, as playwright's event loop bears no other beside it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(request):
    """JupyterLab as `make lab` starts it; one for each worker."""
    return lab_of(request.config)


@pytest.fixture(scope="session")
def answering(tmp_path_factory):
    """The folder of a site with the lessons' controls at which a model answers, and little else.

    groups.py keeps the files of tests that use it on one worker, so that it is built once.
    """
    from course_lib.workshop.publish import alive, site  # not before the settings of ../conftest.py

    folder, wanted = tmp_path_factory.mktemp("answering"), {}
    for table in (alive.LIVE, alive.DRAWN, alive.SAID):
        for name, cells in table.items():
            wanted.setdefault(name, set()).update(cells)
    for name, cells in wanted.items():
        whole = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
        title = new_markdown_cell(f"# {name[:2]} · A lesson\n\nWhat?")
        kept = [title, *(one for one in whole.cells if one.id in cells)]
        nbformat.write(new_notebook(cells=kept, metadata=whole.metadata), folder / f"{name}.ipynb")
    assert site.build(sorted(folder.glob("*.ipynb")), folder / "html") == []
    return folder / "html"


@pytest.fixture
def console_errors():
    """What the pages of this test threw or wrote to the console as errors; it fills while they run."""
    return []


def patient(browser, **how):
    """A new context of the browser, in which whatever is waited for may take as long as it does on a busy machine."""
    context = browser.new_context(**how)
    context.set_default_timeout(PATIENCE)
    return context


@contextmanager
def watched_page(browser, allowed, console_errors):
    """A page that is refused every address but those that `allowed(parts)` lets pass; asking fails.

    What was asked for so far is in its list `asked`, for whoever looks at many pages, one after the other.
    """
    asked = []

    def route(route, request):
        if allowed(urlsplit(request.url)):
            route.fallback()
        else:
            asked.append(request.url)
            route.abort()

    def socket(socket):
        if allowed(urlsplit(socket.url)):
            socket.connect_to_server()
        else:
            asked.append(socket.url)
            socket.close()

    context = patient(browser, viewport=STAGE, locale="en-GB", reduced_motion="reduce")
    context.route("**/*", route)
    context.route_web_socket("**/*", socket)
    context.on("weberror", lambda error: console_errors.append(str(error.error)))
    context.on("console", lambda message: message.type == "error" and console_errors.append(message.text))
    page = context.new_page()
    page.asked = asked
    try:
        yield page
    finally:
        context.close()
    assert not asked, f"the page asked for what is not on this machine: {', '.join(sorted(set(asked)))}"


@contextmanager
def many_pages(browser):
    """A page for many addresses from disk, one after the other.

    page.complaints() says what is new: what was asked of other machines, and what was thrown or written as an error.
    """
    errors = []
    with watched_page(browser, is_from_disk, errors) as page:

        def complaints():
            found = [f"it asked for what is not on this machine: {address}" for address in page.asked] + errors
            page.asked.clear(), errors.clear()
            return found

        page.complaints = complaints
        yield page


@pytest.fixture(scope="module")
def reader(chromium):
    """A page from disk for many addresses, one for each file of tests; see many_pages."""
    with many_pages(chromium) as page:
        yield page


@pytest.fixture
def page_offline(chromium, console_errors):
    """A page that reaches files and servers of this machine; asking for more fails the test."""
    with watched_page(chromium, is_here, console_errors) as page:
        yield page


@pytest.fixture
def page_from_disk(chromium, console_errors):
    """A page that reads files and reaches no server at all; asking for more fails the test."""
    with watched_page(chromium, is_from_disk, console_errors) as page:
        yield page
