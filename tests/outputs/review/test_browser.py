"""The page in a real Chromium: no console errors, no requests elsewhere (the fixture `visit` asserts both)."""

import shutil
import time
from contextlib import closing

import numpy as np
import pytest
from tests.helpers.tag_runs import tag_findings, tag_run
from tests.outputs.report.conftest import HOSTILE, serious

from jnpl.cli import app as cli
from jnpl.outputs.review.decisions import open_store
from jnpl.run_folder import RunFolder

IDLE = "html[data-ready]:not([data-busy])"


@pytest.fixture
def visit(serve, serve_process, watched):  # the servers end after the pages are closed
    """A function that opens a review."""

    def open_page(client, **more):
        page = watched(f"http://127.0.0.1:{client.port}/", client.link, **more)
        page.wait_for_selector(IDLE, state="attached")
        return page

    return open_page


@pytest.fixture(scope="session")
def vector_run(tmp_path_factory):
    """A finished run on 400 vectors of 4 classes, 20 % of them with a wrong label, and the true labels."""
    folder = tmp_path_factory.mktemp("vectors")
    random = np.random.default_rng(0)
    true = np.arange(400) % 4
    x = (random.normal(size=(4, 128))[true] + 2.2 * random.normal(size=(400, 128))).astype(np.float32)
    wrong = random.random(400) < 0.2
    given = np.where(wrong, (true + random.integers(1, 4, 400)) % 4, true)
    np.savez(folder / "data.npz", x=x, y=given, class_names=np.array(["cat", "dog", "eel", "fox"]))
    with pytest.raises(SystemExit) as stop:
        cli.main(["find", str(folder / "data.npz"), "-o", str(folder / "run"), "--json", "--no-report"])
    assert not stop.value.code
    return folder / "run", true


@pytest.fixture
def learning(vector_run, serve, tmp_path):
    """A server of a copy of that run, its folder, and the true labels."""
    folder = shutil.copytree(vector_run[0], tmp_path / "copy")
    return serve(folder), folder, vector_run[1]


def stored(run):
    """Position -> (action, label) of the current decisions in a run folder."""
    store = open_store(RunFolder(run))
    found = {each.position: (each.action, each.label) for each in store.all_current()}
    store.close()
    return found


def press(page, key):
    page.wait_for_selector(IDLE, state="attached")
    page.keyboard.press(key)
    page.wait_for_selector(IDLE, state="attached")


def until(page, expression):
    """Wait until an expression is true; the page's own policy forbids what Playwright would do for that."""
    end = time.monotonic() + 60
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        time.sleep(0.05)
    page.wait_for_selector(IDLE, state="attached")


def shown(page):
    return page.locator("#subject .id").inner_text()


def ids(page):
    return page.locator("#cards .id bdi").all_inner_texts()


def ranked(client, query="", most=200):
    return client.json(f"/api/list?limit={most}&{query}")["items"]


def test_a_whole_session_by_keyboard(visit, make_run, serve):
    run = make_run(files=True)
    client = serve(run)
    items = ranked(client)
    page = visit(client)
    assert shown(page) == items[0]["id"]
    assert page.locator("#subject img").evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 60
    names = client.json("/api/run")["classes"]
    assert page.locator("#given").inner_text() == names[items[0]["given"]]
    assert page.locator("#suggested").inner_text() == names[items[0]["suggested"]]
    press(page, "a")
    assert shown(page) == items[1]["id"]
    press(page, "k")
    press(page, "d")
    press(page, "u")
    press(page, "c")
    page.keyboard.type("fo")
    assert page.locator("#chooser-list li").all_inner_texts() == ["fox"]
    page.keyboard.press("Enter")
    page.wait_for_selector(IDLE, state="attached")
    expected = {
        items[0]["position"]: ("relabel", items[0]["suggested"]),
        items[1]["position"]: ("keep", None),
        items[2]["position"]: ("drop", None),
        items[3]["position"]: ("unsure", None),
        items[4]["position"]: ("keep", None) if items[4]["given"] == 3 else ("relabel", 3),
    }
    assert stored(run) == expected
    assert page.locator("#figure-decided").inner_text() == "5"
    assert page.locator("#figure-suspects").inner_text() == str(len(items) - 5)
    # undo goes back, step by step
    press(page, "z")
    assert shown(page) == items[4]["id"]
    press(page, "z")
    assert shown(page) == items[3]["id"]
    assert len(stored(run)) == 3
    # back and forth, and a new decision in place of an old one
    press(page, "ArrowLeft")
    press(page, "ArrowLeft")
    assert shown(page) == items[1]["id"]
    assert "kept as" in page.locator("#decision").inner_text()
    press(page, "a")
    assert stored(run)[items[1]["position"]] == ("relabel", items[1]["suggested"])
    assert shown(page) == items[3]["id"]  # the next that is undecided
    press(page, "ArrowRight")
    assert shown(page) == items[4]["id"]
    # a reload keeps sample, decisions and undo
    page.reload()
    page.wait_for_selector(IDLE, state="attached")
    assert shown(page) == items[4]["id"]
    assert page.locator("#figure-decided").inner_text() == "3"
    press(page, "z")
    assert stored(run)[items[1]["position"]] == ("keep", None)
    # the end of the list
    page.fill("#jump", str(len(items)))
    page.keyboard.press("Enter")
    until(page, f"document.querySelector('#subject .id').textContent === {items[-1]['id']!r}")
    assert page.locator("#next").get_attribute("aria-disabled") == "true"


def test_filters_search_and_jump(visit, make_run, serve):
    client = serve(make_run(files=True))
    page = visit(client)
    page.fill("#f-search", "eel/")
    until(page, "location.hash.includes('search')")
    page.wait_for_selector(IDLE, state="attached")
    wanted = [item["id"] for item in ranked(client, "search=eel/")]
    assert shown(page) == wanted[0]
    assert page.locator("#one-title").inner_text() == f"Suspect 1 of {len(wanted)}"
    page.locator("#more-filters summary").click()
    page.locator("#f-clear").click()
    page.wait_for_selector(IDLE, state="attached")
    pair = page.locator("#f-pair option").nth(1).get_attribute("value")
    page.locator("#f-pair").select_option(pair)
    given, suggested = pair.split(">")
    wanted = [item["id"] for item in ranked(client, f"given={given}&suggested={suggested}")]
    until(page, f"document.querySelector('#one-title').textContent.endsWith('of {len(wanted)}')")
    assert shown(page) == wanted[0]
    page.locator("body").press("k")
    until(page, "document.querySelector('#figure-decided').textContent === '1'")
    page.locator("#f-decided").select_option("keep")
    until(page, "document.querySelector('#one-title').textContent.endsWith('1 of 1')")
    assert shown(page) == wanted[0]
    page.locator("#f-decided").select_option("drop")
    until(page, "document.querySelector('#one-title').textContent.startsWith('No sample')")
    page.locator("#more-filters summary").click()
    page.locator("#f-clear").click()
    page.wait_for_selector(IDLE, state="attached")
    page.locator("#more-filters summary").click()
    page.fill("#f-low", "90")
    page.keyboard.press("Tab")
    few = len(ranked(client, "low=0.9"))
    until(page, f"document.querySelector('#one-title').textContent.endsWith('of {few}')")
    page.locator("#f-list").select_option("all")
    everything = len(ranked(client, "low=0.9&list=all"))
    until(page, f"document.querySelector('#one-title').textContent.endsWith('of {everything}')")


def test_a_page_of_the_grid_with_exceptions(visit, make_run, serve):
    run = make_run(files=True, samples=200)
    client = serve(run)
    items = ranked(client)
    page = visit(client)
    press(page, "g")
    assert ids(page) == [item["id"] for item in items[:24]]
    page.locator(".pick").nth(1).click()  # keeps its given label
    page.locator(".pick").nth(2).focus()
    page.keyboard.press("x")  # is left
    page.keyboard.press("ArrowRight")
    page.keyboard.press("c")
    page.keyboard.type("dog")
    page.keyboard.press("Enter")
    page.locator(".card .more").nth(4).click()
    page.locator("[data-choice=drop]").click()
    assert page.locator("#save-text").inner_text() == "Save 23 decisions"
    page.locator(".pick").nth(0).focus()
    press(page, "Enter")
    found = stored(run)
    assert len(found) == 23
    assert items[2]["position"] not in found
    assert found[items[1]["position"]] == ("keep", None)
    assert found[items[3]["position"]] == (("keep", None) if items[3]["given"] == 1 else ("relabel", 1))
    assert found[items[4]["position"]] == ("drop", None)
    for item in [items[0], *items[5:24]]:
        changed = item["suggested"] != item["given"]
        assert found[item["position"]] == (("relabel", item["suggested"]) if changed else ("keep", None))
    assert ids(page) == [item["id"] for item in items[24:48]]
    press(page, "z")  # the whole page
    assert stored(run) == {}
    press(page, "Shift+K")
    assert {each.get_attribute("data-action") for each in page.locator(".pick").all()} == {"keep"}
    press(page, "Shift+X")
    assert page.locator("#save").get_attribute("aria-disabled") == "true"
    press(page, "Shift+A")
    page.locator("#f-pair").select_option(index=1)
    until(page, "location.hash.includes('given')")
    page.wait_for_selector(IDLE, state="attached")
    assert len(set(page.locator(".card .change").all_inner_texts())) == 1
    page.locator("#save").click()
    until(page, "document.querySelector('#grid-where').textContent === 'none left'")
    assert "decided" in page.locator("#cards").inner_text()


def test_similar_suspects_in_one_go(visit, learning):
    client, run, _ = learning
    page = visit(client)
    first = ranked(client)[0]
    page.wait_for_selector(".surely .strip li")
    assert "nearest to this one" in page.locator("#compare").inner_text()
    press(page, "s")
    assert page.locator("#grid-title").inner_text() == f"Similar to {first['id']}"
    assert ids(page)[0] == first["id"]
    similar = client.json(f"/api/similar/{first['position']}?limit=24")["items"]
    assert ids(page) == [item["id"] for item in similar]
    press(page, "Enter")
    likely = {item["id"] for item in similar if item["confidence"] > 0.5}  # the others are left undecided
    assert len(likely) > 12
    assert {str(position) for position in stored(run)} == likely


def test_learning_ranks_anew_and_keeps_decisions(visit, learning):
    client, run, true = learning
    page = visit(client)
    before, qualities = [item["position"] for item in ranked(client)], {}
    press(page, "g")
    for item in ranked(client, most=24):  # a reviewer who knows the truth
        label, qualities[item["position"]] = int(true[item["position"]]), item["quality"]
        pick = page.locator(f".pick[data-position='{item['position']}']")
        pick.focus()
        page.keyboard.press("k" if label == item["given"] else "a")
        if label not in (item["given"], item["suggested"]):
            page.keyboard.press("c")
            page.keyboard.type(["cat", "dog", "eel", "fox"][label])
            page.keyboard.press("Enter")
    press(page, "Enter")
    decided = stored(run)
    assert len(decided) == 24
    press(page, "l")
    until(page, "document.querySelector('#toast').textContent.startsWith('Ranked anew with 24')")
    after = [item["position"] for item in ranked(client)]
    assert after != before
    assert stored(run) == decided
    status = client.json("/api/status")
    assert (status["round"], status["learning"]["state"]) == (1, "done")
    page.reload()
    page.wait_for_selector(IDLE, state="attached")
    assert [item["position"] for item in ranked(client)] == after
    listed = {item["position"]: item for item in ranked(client, "list=all&decided=yes")}
    for position in decided:  # they keep the quality that they were decided by
        assert listed[position]["quality"] == pytest.approx(qualities[position])


def test_a_key_right_after_escape_counts(visit, make_run, serve):
    run = make_run()
    page = visit(serve(run))
    for key in ("c", "?"):
        for each in (key, "Escape", "k"):  # without a pause
            page.keyboard.press(each)
        page.locator("#toast.shown", has_text="Saved: kept").wait_for(timeout=5000)
        press(page, "z")
        assert stored(run) == {}
    for each in ("c", "Escape", "g"):
        page.keyboard.press(each)
    page.locator(".pick").first.wait_for(timeout=5000)


def test_learning_after_fifty_decisions(visit, learning):
    client, run, _ = learning
    page = visit(client)
    page.locator("#menu-button").click()
    page.locator("#auto-learn").check()
    page.keyboard.press("Escape")
    press(page, "g")
    for _ in range(3):
        page.locator(".pick").first.focus()
        press(page, "Enter")
    assert len(stored(run)) > 50
    until(page, "document.querySelector('#toast').textContent.startsWith('Ranked anew')")
    assert client.json("/api/status")["counts"]["since_learning"] < 50


def test_two_tabs_do_not_overwrite_each_other(visit, make_run, serve):
    run = make_run(files=True)
    client = serve(run)
    first = ranked(client)[0]["position"]
    one = visit(client)
    two = visit(client, context=one.context)
    press(one, "k")
    assert stored(run) == {first: ("keep", None)}
    two.faults.clear()
    if two.locator("#decision").is_hidden():  # it has not asked for news yet
        two.keyboard.press("d")
        two.wait_for_selector("#conflict[open]")
        assert "kept as" in two.locator("#conflict-text").inner_text()
        two.get_by_role("button", name="Leave it so").click()
        two.wait_for_selector(IDLE, state="attached")
        two.faults[:] = [fault for fault in two.faults if "409" not in fault]  # Chromium logs the answer
    assert stored(run) == {first: ("keep", None)}
    assert "kept as" in two.locator("#decision").inner_text()
    press(two, "d")  # knowingly
    assert stored(run) == {first: ("drop", None)}
    press(one, "z")  # its own decision does not count any more
    one.faults[:] = [fault for fault in one.faults if "409" not in fault]
    assert stored(run) == {first: ("drop", None)}


def test_a_conflict_can_be_replaced(visit, make_run, serve):
    run = make_run(files=True)
    client = serve(run)
    first = ranked(client)[0]["position"]
    page = visit(client)
    page.evaluate("document.hidden || Object.defineProperty(document, 'hidden', { value: true })")  # no news
    other = {"position": first, "action": "unsure", "label": None, "seen": 0}
    client.json("/api/decide", {"tab": "other", "reviewer": "Bob", "decisions": [other]})
    page.keyboard.press("d")
    page.wait_for_selector("#conflict[open]")
    assert "Bob" in page.locator("#conflict-text").inner_text()
    page.get_by_role("button", name="Replace by mine").click()
    page.wait_for_selector(IDLE, state="attached")
    page.faults[:] = [fault for fault in page.faults if "409" not in fault]
    assert stored(run) == {first: ("drop", None)}


def test_hostile_names(visit, make_run, serve):
    names = list(HOSTILE)
    run = make_run(names=names, samples=150, paths=[f"{at}-{names[at % len(names)]}" for at in range(150)])
    client = serve(run)
    page = visit(client)
    press(page, "a")
    press(page, "k")
    press(page, "c")
    page.keyboard.type("script")
    assert page.locator("#chooser-list li").count() == 2
    page.keyboard.press("Enter")
    page.wait_for_selector(IDLE, state="attached")
    press(page, "g")
    assert len(ids(page)) == 24
    press(page, "Enter")
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert len(stored(run)) == 27


def test_a_run_without_images(visit, make_run, serve):
    run = make_run(samples=60)
    client = serve(run)
    page = visit(client)
    assert "Without the data" in page.locator("#notice").inner_text()
    assert "no copy of this row" in page.locator("#subject").inner_text()
    press(page, "a")
    assert len(stored(run)) == 1


def test_texts_and_a_class_among_thousands(visit, make_run, serve):
    names = [f"class {number:04d}" for number in range(3000)]
    rows = {str(at): [f"the text of sample {at}"] for at in range(100)}
    run = make_run(names=names, samples=100, data={"kind": "text", "columns": {"names": ["text"], "rows": rows}})
    client = serve(run)
    page = visit(client)
    item = ranked(client)[0]
    assert page.locator("#subject .text").inner_text() == f"the text of sample {item['position']}"
    press(page, "c")
    assert page.locator("#chooser-count").inner_text() == "and 2,940 more"
    page.keyboard.type("2718")
    assert page.locator("#chooser-list li").all_inner_texts() == ["class 2718"]
    page.keyboard.press("Enter")
    page.wait_for_selector(IDLE, state="attached")
    assert stored(run) == {item["position"]: ("relabel", 2718)}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_everyone_can_use_it(visit, learning, theme, width):
    client, _, _ = learning
    page = visit(client, theme=theme, width=width, height=760)
    page.wait_for_selector(".surely .strip li")
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    press(page, "a")
    press(page, "ArrowLeft")  # with a decision
    page.wait_for_selector("#toast:not(.shown)", state="attached")
    page.wait_for_timeout(600)  # until it has faded out
    assert serious(page) == []
    press(page, "g")
    page.locator(".pick").nth(1).press("x")
    page.locator(".pick").nth(2).press("k")
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.locator(".card .more").first.click()
    assert serious(page) == []
    page.keyboard.press("Escape")
    page.locator("#menu-button").click()
    assert serious(page) == []


def test_a_server_that_is_gone(visit, make_run, serve_process):
    process, client = serve_process(make_run())
    page = visit(client)
    process.kill()
    process.wait()
    page.keyboard.press("k")
    page.wait_for_selector("#notice:not([hidden])")
    assert "Nothing is lost" in page.locator("#notice").inner_text()
    assert "Saved" not in page.locator("#toast").inner_text()
    page.close()
    page.faults[:] = [fault for fault in page.faults if "ERR_CONNECTION" not in fault]


def test_tags_are_turned_by_keys_saved_and_undone(visit, serve, tmp_path):
    run = tag_run(tmp_path / "tagged", tag_findings(names=("cat", '<img src=x onerror="hacked=1">', "eel")))
    page = visit(serve(run))
    shown = lambda: page.locator("#toggles button").evaluate_all(  # noqa: E731
        "all => all.map(each => [each.dataset.tag, each.getAttribute('aria-pressed')])"
    )
    assert shown() == [["1", "false"], ["0", "false"], ["2", "true"]]  # the most doubtful one first
    assert page.locator("#given").inner_text() == "eel"
    for hidden in ("#learn", "a[href='/audit']"):
        assert page.locator(hidden).is_hidden()
    press(page, "2")
    press(page, "3")
    assert shown() == [["1", "false"], ["0", "true"], ["2", "false"]]
    press(page, "Enter")
    assert stored_tags(run) == {1: ("relabel", (0,))}
    assert page.locator("#one-title").inner_text() == "Suspect 2 of 2"
    press(page, "c")
    page.keyboard.type("EE")
    page.keyboard.press("Enter")
    assert page.locator("#save-tags bdi").inner_text() == 'cat + <img src=x onerror="hacked=1"> + eel'
    press(page, "a")
    assert stored_tags(run)[0] == ("relabel", (0,))
    page.reload()
    page.wait_for_selector(IDLE, state="attached")
    press(page, "ArrowLeft")
    assert "changed to cat" in page.locator("#decision").inner_text()
    assert shown()[1] == ["0", "true"]
    press(page, "z")
    press(page, "z")
    assert stored_tags(run) == {}
    press(page, "g")
    assert page.locator(".choice").all_inner_texts() == ['cat + <img src=x onerror="hacked=1"> + eel', "cat"]
    press(page, "Enter")
    assert stored_tags(run) == {0: ("relabel", (0,)), 1: ("relabel", (0, 1, 2))}
    assert page.evaluate("typeof hacked") == "undefined"


def stored_tags(run):
    """Position -> (action, tag numbers) of the current decisions in a run folder."""
    folder = RunFolder(run)
    with closing(open_store(folder)) as store:
        sets = folder.sample_findings.sets.sets
        return {
            each.position: (each.action, each.label if each.label is None else sets[each.label])
            for each in store.all_current()
        }
