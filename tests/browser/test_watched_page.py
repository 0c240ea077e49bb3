"""The watch itself: what asks for another machine fails, by name; what asks for this one does not."""

import http.server
import threading

import pytest

from .conftest import is_from_disk, is_here, watched_page


@pytest.fixture
def address(tmp_path):
    """A server of this machine for one folder."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=tmp_path)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    "asking",
    [
        '<img src="https://example.org/a.png" alt="">',
        '<link rel="stylesheet" href="//cdn.example.org/theme.css">',
        '<script>fetch("https://example.org/data.json").catch(() => 0)</script>',
        '<script>new WebSocket("wss://example.org/live")</script>',
        '<iframe srcdoc="&lt;script src=https://example.org/d3.js>&lt;/script>"></iframe>',
    ],
)
def test_asking_for_another_machine_fails(chromium, tmp_path, asking, console_errors):
    (tmp_path / "page.html").write_text(f"<!DOCTYPE html><title>t</title>{asking}")
    with pytest.raises(AssertionError, match="example.org"):
        with watched_page(chromium, is_from_disk, console_errors) as page:
            page.goto((tmp_path / "page.html").as_uri())
            page.wait_for_timeout(100)


def test_a_page_of_this_machine_is_served(chromium, tmp_path, address, console_errors):
    (tmp_path / "page.html").write_text("<title>here</title><script>console.error('seen')</script>")
    with watched_page(chromium, is_here, console_errors) as page:
        page.goto(f"{address}/page.html")
        assert page.title() == "here"
    assert "seen" in console_errors
