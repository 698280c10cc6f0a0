"""The page of `jnpl audit` in a real Chromium, by keyboard alone."""

import numpy as np
import pytest
from tests.outputs.report.conftest import HOSTILE
from tests.outputs.review.test_browser import IDLE, press

from jnpl.outputs.audit_session import AuditSession
from jnpl.run_folder import RunFolder


@pytest.fixture
def audit(serve, watched):
    """A function that opens the audit of a run: the page and the session."""

    def open_page(run, count):
        folder = RunFolder(run)
        session = AuditSession(folder, count)
        session.keep()
        client = serve(run, home="audit")
        page = watched(f"http://127.0.0.1:{client.port}/", client.link)
        page.wait_for_selector(IDLE, state="attached")
        return page, session

    return open_page


def test_labels_are_checked_by_keys_and_the_result_is_shown_at_the_end(make_run, audit):
    page, session = audit(make_run(files=True), 6)
    positions = session.facts().positions
    assert "0 of 6 labels checked" in page.locator("main").inner_text()
    for word in ("quality", "suspect", "suggest"):
        assert word not in page.locator("main").inner_text().lower()  # blind
    other = int((session.run.findings.given_labels[positions[3]] + 1) % 4)
    for key in ("k", "w", "u", str(other + 1), "k", "z", "k"):
        press(page, key)
    page.reload()  # another day
    page.wait_for_selector(IDLE, state="attached")
    press(page, "k")
    given = session.run.findings.given_labels
    answers = [session.facts().labels[at] for at in positions]
    assert answers == [given[positions[0]], -1, -2, other, given[positions[4]], given[positions[5]]]
    assert "2 of 5 checked labels are wrong. 1 could not be told" in page.locator("#sentence").inner_text()
    assert page.locator("#by-class tbody tr").count() >= 1
    assert RunFolder(session.run.path).findings.noise.checked == 5
    press(page, "m")
    assert "6 of 56 labels checked" in page.locator("main").inner_text()


def test_of_many_classes_the_right_one_is_typed(make_run, audit):
    names = tuple(f"class {HOSTILE[0]} {number}" for number in range(12))
    page, session = audit(make_run(names=names, samples=60), 2)
    first = session.facts().positions[0]
    given = int(session.run.findings.given_labels[first])
    wanted = next(number for number in (10, 11) if number != given)
    press(page, "c")
    page.keyboard.type(f" {wanted}")
    press(page, "Enter")
    assert session.facts().labels == {first: wanted}
    assert page.locator("#given").inner_text() in names
    assert page.evaluate("document.activeElement === document.body")  # keys answer again
    press(page, "k")
    assert np.isin(session.result()["wrong"], (1,))


def test_the_review_says_what_the_audit_found(make_run, serve, watched):
    run = RunFolder(make_run())
    session = AuditSession(run, 5)
    session.answer([(at, -1) for at in session.facts().positions], "Ann")
    session.apply()
    client = serve(run.path)
    page = watched(f"http://127.0.0.1:{client.port}/", client.link)
    page.wait_for_selector(IDLE, state="attached")
    assert "from 5 labels checked at random" in page.locator("#noise").inner_text()
