"""The page in a real Chromium: no console errors, no requests (the fixture `visit` asserts both), and it works."""

from itertools import pairwise

import pytest
from tests.outputs.report.conftest import serious

from jnpl import Findings
from jnpl.outputs.report import page
from jnpl.run_folder import RunFolder

OPEN_ALL = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"


def shown(tab):
    """The ids of the suspects on the current page."""
    return tab.locator(
        "[data-items] > :not([hidden]) .id bdi, [data-items] > :not([hidden]) > .id bdi"
    ).all_inner_texts()


def worst(folder):
    findings = Findings.load(folder)
    return findings.worst(int(findings.is_label_issue.sum()))


@pytest.mark.parametrize("kind", ["pictures", "table"])
def test_pages_of_suspects_by_mouse(visit, make_run, kind):
    folder = make_run(samples=300, pictures=kind == "pictures")
    ids = [str(name) for name in worst(folder).id]
    size = 24 if kind == "pictures" else 20
    tab = visit(page.write(RunFolder(folder)))
    where = tab.locator(".turn .where").first
    assert shown(tab) == ids[:size]
    assert where.inner_text() == f"1\N{EN DASH}{size} of {len(ids)}"
    tab.get_by_role("button", name="Next page").first.click()
    assert shown(tab) == ids[size : 2 * size]
    tab.get_by_role("button", name="Last page").last.click()
    last = (len(ids) - 1) // size * size
    assert shown(tab) == ids[last:]
    tab.get_by_role("button", name="Next page").first.click(force=True)  # there is none: nothing happens
    assert shown(tab) == ids[last:]
    assert tab.get_by_role("button", name="Next page").first.get_attribute("aria-disabled") == "true"
    tab.get_by_role("button", name="First page").first.click()
    assert shown(tab) == ids[:size]


def test_pages_of_suspects_by_keyboard(visit, make_run):
    folder = make_run(samples=300, pictures=True)
    ids = [str(name) for name in worst(folder).id]
    tab = visit(page.write(RunFolder(folder)))
    tab.get_by_role("button", name="Next page").first.focus()
    tab.keyboard.press("Enter")
    assert shown(tab) == ids[24:48]
    tab.keyboard.press("ArrowLeft")
    assert shown(tab) == ids[:24]
    tab.keyboard.press("End")
    assert shown(tab)[-1] == ids[-1]
    assert tab.evaluate("document.activeElement.dataset.turn") == "next"  # the focus stays where it was


def test_suspects_by_class(visit, full):
    tab = visit(page.write(RunFolder(full)))
    rows = worst(full)
    tab.locator("[data-filter=given]").select_option(label=f"dog ({(rows.given_label == 'dog').sum()})")
    wanted = rows[rows.given_label == "dog"]
    assert shown(tab) == wanted.id.tolist()[:24]
    tab.locator("[data-filter=suggested]").select_option(index=1)
    name = tab.locator("[data-filter=suggested]").locator("option:checked").inner_text().split(" (")[0]
    assert shown(tab) == wanted[wanted.suggested_label == name].id.tolist()[:24]
    tab.locator("[data-filter=given]").select_option(value="")
    tab.locator("[data-filter=suggested]").select_option(value="")
    assert shown(tab) == rows.id.tolist()[:24]


def test_the_table_of_classes_is_sorted_by_any_column(visit, make_run):
    folder = make_run(samples=2000, classes=12)  # names 0 to 11: 10 comes after 9
    tab = visit(page.write(RunFolder(folder)))
    table = tab.locator("table.sortable")
    summary = Findings.load(folder).class_summary()

    def column(number):
        return table.locator(f"tbody tr > :nth-child({number})").all_inner_texts()

    table.get_by_role("button", name="Class").click()
    assert column(1) == [str(number) for number in range(12)]
    table.get_by_role("button", name="Class").click()
    assert column(1) == [str(number) for number in reversed(range(12))]
    table.get_by_role("button", name="Suspects").click()
    assert column(3) == [str(count) for count in sorted(summary["issues"], reverse=True)]
    assert table.locator("th[aria-sort]").all_inner_texts() == ["Suspects"]
    table.get_by_role("button", name="Suspects").press("Enter")
    assert column(3) == [str(count) for count in sorted(summary["issues"])]
    assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_follows_the_system_and_then_the_button(visit, full, theme):
    tab = visit(page.write(RunFolder(full)), theme=theme)
    back = "getComputedStyle(document.body).backgroundColor"
    colours = {"light": "rgb(247, 248, 250)", "dark": "rgb(15, 19, 24)"}
    other = "dark" if theme == "light" else "light"
    assert tab.evaluate(back) == colours[theme]
    tab.get_by_role("button", name=f"{other.title()} theme").click()
    assert tab.evaluate(back) == colours[other]
    assert tab.evaluate("localStorage.getItem('jnpl-theme')") == other
    # The next visit. The wish is put there again: when a browser writes its storage to disk is its own affair.
    tab.add_init_script(f"localStorage.setItem('jnpl-theme', '{other}')")
    tab.reload()
    assert tab.evaluate(back) == colours[other]
    assert tab.get_by_role("button", name=f"{theme.title()} theme").is_visible()
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(28, 33, 39)"  # dark on paper


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["pictures", "table"])
def test_everyone_can_read_it(visit, full, make_run, theme, kind):
    if kind == "table":
        full = make_run("vectors", samples=1000, classes=10, noise=0.5, data={"unreadable": [], "duplicates": []})
    tab = visit(page.write(RunFolder(full)), theme=theme)
    tab.evaluate(OPEN_ALL)
    assert serious(tab) == []


def test_nothing_is_wider_than_the_screen(visit, full):
    for width in (1280, 768, 390, 320):
        tab = visit(page.write(RunFolder(full)), width=width)
        tab.evaluate(OPEN_ALL)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_texts_can_be_read_on_a_phone(visit, make_run):
    rows = {str(position): ["a long message " * 10, *range(11)] for position in range(200)}
    columns = {"names": ["message", *(f"number {n}" for n in range(11))], "rows": rows}
    file = page.write(RunFolder(make_run(data={"columns": columns})))
    for width in (1280, 390):
        tab = visit(file, width=width)
        box = tab.locator("tr:not([hidden]) .value.long").first.bounding_box()
        assert box["width"] > 200
        assert box["x"] + box["width"] <= width
        assert box["height"] < 200


def test_hostile_texts_do_nothing(visit, hostile):
    tab = visit(page.write(RunFolder(hostile)), width=390)
    tab.evaluate(OPEN_ALL)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    for button in tab.locator("table.sortable button, [data-turn=next]").all():
        button.click(force=True)
    tab.locator("[data-items] > :not([hidden]) .id bdi").first.hover()
    assert tab.evaluate("typeof hacked") == "undefined"
    assert tab.locator("script").count() == 1
    assert tab.evaluate("[...document.images].every((image) => image.src.startsWith('data:image/'))")


def test_paper_has_every_section(visit, full):
    tab = visit(page.write(RunFolder(full)))
    tab.emulate_media(media="print")
    for section in tab.locator("section").all():
        assert section.is_visible()
        assert section.bounding_box()["height"] > 50
    assert not tab.get_by_role("button", name="Dark theme").is_visible()
    assert tab.evaluate(
        "[...document.querySelectorAll('.scroll')].every((each) => each.scrollHeight <= each.clientHeight)"
    )
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.get_by_text("train.epochs").is_visible()
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not tab.get_by_text("train.epochs").is_visible()
    assert len(tab.pdf(format="A4")) > 10_000


def test_without_scripts_everything_is_there(visit, full):
    tab = visit(page.write(RunFolder(full)), java_script_enabled=False)
    cards = tab.locator(".card[data-given]")
    assert cards.count() == len(worst(full))
    assert cards.last.is_visible()
    assert not tab.locator(".controls").first.is_visible()


def test_it_can_be_heard(visit, full):
    """Headings in order, headers for tables, texts for pictures and charts, and links that lead somewhere."""
    tab = visit(page.write(RunFolder(full)))
    levels = [
        int(level) for level in tab.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map((h) => h.tagName[1])")
    ]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert tab.evaluate("[...document.querySelectorAll('table')].every((t) => t.querySelector('th[scope]'))")
    assert tab.evaluate("[...document.images].every((i) => i.alt && i.complete && i.naturalWidth > 0)")
    assert tab.evaluate("[...document.querySelectorAll('.plot, .split')].every((p) => p.ariaLabel.length > 20)")
    ids = tab.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert set(tab.evaluate("[...document.querySelectorAll('a')].map((a) => a.hash.slice(1))")) <= set(ids)


def test_charts_are_drawn(visit, full):
    tab = visit(page.write(RunFolder(full)))
    bars = tab.locator("rect")
    assert bars.count() > 10
    assert all(bar.bounding_box()["height"] >= 1 for bar in bars.all())
    plot, line = tab.locator(".plot.wide svg").bounding_box(), tab.locator(".threshold").bounding_box()
    assert line["x"] == pytest.approx(plot["x"] + plot["width"] / 2, abs=2)  # the threshold is 0.5
    assert tab.locator("path.line").count() == 2


def test_a_hundred_thousand_samples_open_at_once(visit, make_run, log):
    folder = make_run(samples=100_000, classes=30, lines=log(1000), pictures=True)
    tab = visit(page.write(RunFolder(folder)))
    meter = tab.context.new_cdp_session(tab)
    meter.send("Performance.enable", {"timeDomain": "threadTicks"})  # work, not waiting: tests share the machine
    tab.reload()
    work = {each["name"]: each["value"] for each in meter.send("Performance.getMetrics")["metrics"]}
    assert 0.01 < work["TaskDuration"] < 3  # seconds
    assert len(shown(tab)) == 24
