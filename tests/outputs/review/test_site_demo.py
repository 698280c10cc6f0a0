"""The review page of the documentation site answers as the server of `jnpl review` does."""

import json

import numpy as np
import pytest
from tests.helpers.scripts import load_script

from jnpl.run_folder import RunFolder

LIKE = [  # requests whose answers must be those of the server
    *("/api/pairs", "/api/list?limit=96", "/api/list?list=all&offset=24", "/api/list?given=1&suggested=2"),
    *("/api/list?decided=yes", "/api/list?decided=no&search=1", "/api/list?low=0.5&high=0.8", "/api/list?verdict=fine"),
    *("/api/sample", "/api/sample?index=4", "/api/sample?index=900&decided=no", "/api/sample?position=3&list=all"),
    *("/api/sample?search=nothing", "/api/list?list=all&verdict=doubt&decided=drop"),
]


@pytest.fixture
def demo(make_run, serve, watched):
    """A real server of a run, and a page that answers from a file about the same run."""
    script = load_script("docs/site_demo.py")
    folder = make_run(samples=90)
    files = {**script.page(), "demo.json": json.dumps(script.answers(RunFolder(folder)))}
    files["server.js"] = (script.HERE / "demo/server.js").read_text("utf-8")
    kinds = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}

    def fulfil(route):
        name = route.request.url.removeprefix("https://demo/").partition("#")[0]
        route.fulfill(body=files[name], content_type=kinds.get(name.rpartition(".")[2], "application/json"))

    page = watched("https://demo/", "about:blank")
    page.route("https://demo/**", fulfil)
    page.goto("https://demo/review.html")
    page.wait_for_selector("html[data-ready]:not([data-busy])", state="attached")

    def ask(path, body=None):
        options = {} if body is None else {"method": "POST", "body": json.dumps(body)}
        return page.evaluate("async ([path, options]) => (await fetch(path, options)).json()", [path, options])

    return serve(folder), ask, page


def plain(answer):
    """An answer without what a file cannot know: who decided when, and the estimate after decisions."""
    if isinstance(answer, dict):
        left_out = ("made_at", "number", "reviewer", "others", "estimate", "learning", "version", "data", "content")
        return {key: plain(value) for key, value in answer.items() if key not in left_out}
    return [plain(each) for each in answer] if isinstance(answer, list) else answer


def test_the_demo_answers_as_the_server(demo):
    server, ask, page = demo
    random = np.random.default_rng(0)
    for step in range(6):
        for path in LIKE:
            assert plain(ask(path)) == plain(server.json(path)), (step, path)
        assert plain(ask("/api/status")) == plain(server.json("/api/status"))
        numbers = {
            each["position"]: (each["decision"] or {}).get("number", 0)
            for each in server.json("/api/list?list=all&limit=96")["items"]
        }
        made = [
            {
                "position": int(at),
                "action": str(action),
                "label": int(random.integers(4)) if action == "relabel" else None,
            }
            for at, action in zip(
                random.permutation(90)[:5], random.choice(["keep", "relabel", "drop", "unsure"], 5), strict=True
            )
        ]
        body = {
            "tab": "t",
            "reviewer": "you",
            "decisions": [each | {"seen": numbers[each["position"]]} for each in made],
        }
        what = ("/api/undo", {"tab": "t"}) if step in (2, 5) else ("/api/decide", body)
        assert plain(ask(*what)) == plain(server.json(*what))
    page.keyboard.press("a")
    page.wait_for_function("document.getElementById('toast').textContent.startsWith('Saved')")


def test_a_page_that_changed_is_noticed():
    with pytest.raises(ValueError, match="has no 'y' any more"):
        load_script("docs/site_demo.py").replaced("x", "y", "z")
