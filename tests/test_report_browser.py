"""The report in a real browser: it shows, sorts, adapts, and runs nothing that data bring."""

from __future__ import annotations

from itertools import pairwise

import pytest
import reports
from browser import Page, start_browser

from hera_fast.report import write_report

WIDTHS = (400, 1600)

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    browser = start_browser(tmp_path_factory.mktemp("profile"))
    try:
        # A browser that does not answer should not keep the tests from ending.
        browser.set_page_load_timeout(60)
        folder = reports.make_run(tmp_path_factory.mktemp("run"))
        yield Page(browser, write_report(folder))
    finally:
        browser.quit()


def column(page, table, place):
    """Return what the rows of a table are sorted by, as the page shows them."""
    return page.run(
        "return Array.from(arguments[0].tBodies[0].rows,"
        " row => row.cells[arguments[1]].dataset.value)",
        table,
        place,
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_complaints(page, width, scheme):
    page.messages()
    page.open(width=width, scheme=scheme)
    assert page.messages() == []


@pytest.mark.parametrize("way", ["click", "Enter", "Space"])
def test_numbers_sort_both_ways(page, way):
    from selenium.webdriver.common.keys import Keys

    page.open()
    table = page.find("#record-table-real table")
    heading = table.find_element("css selector", "thead th:nth-child(2)")
    button = heading.find_element("css selector", "button")
    before = column(page, table, 1)

    def press():
        if way == "click":
            page.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", button)
            button.click()
        else:
            button.send_keys({"Enter": Keys.ENTER, "Space": Keys.SPACE}[way])

    press()
    after = column(page, table, 1)
    assert after == sorted(before, key=float) != before
    assert heading.get_attribute("aria-sort") == "ascending"
    press()
    assert column(page, table, 1) == sorted(before, key=float, reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"
    assert "descending" in page.find("#status").get_attribute("textContent")


def test_sorting_by_another_column(page):
    page.open()
    table = page.find("#record-table-real table")
    buttons = table.find_elements("css selector", "thead button")
    for button in (buttons[1], buttons[0]):
        page.run("arguments[0].click()", button)
    names = column(page, table, 0)
    assert names == sorted(names, key=str.lower)
    assert len(table.find_elements("css selector", "[aria-sort]")) == 1
    # Rows move as a whole: HERA keeps its figures.
    row = page.run(
        "return Array.from(arguments[0].tBodies[0].rows,"
        " row => [row.cells[0].dataset.value, row.cells[1].dataset.value])",
        table,
    )
    again = page.open().find("#record-table-real table")
    pairs = zip(column(page, again, 0), column(page, again, 1), strict=True)
    assert sorted(map(tuple, row)) == sorted(pairs)


def test_what_is_missing_comes_last(page):
    page.open()
    page.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    table = page.find("#record-figure-uci details table")
    button = table.find_elements("css selector", "thead button")[2]
    for _ in range(2):
        page.run("arguments[0].click()", button)
        values = column(page, table, 2)
        assert "" in values
        assert "" not in values[: -values.count("")]


@pytest.mark.parametrize("width", WIDTHS)
def test_all_figures_are_visible(page, width):
    page.open(width=width)
    boxes = page.run(
        "return Array.from(document.querySelectorAll('figure svg'), svg => {"
        " const box = svg.getBoundingClientRect();"
        " const drawn = svg.getBBox();"
        " return [box.left, box.right, box.width, box.height, drawn.width, drawn.height,"
        "  svg.checkVisibility(), svg.querySelectorAll('path, use, rect').length] })"
    )
    assert len(boxes) > 30
    for left, right, across, down, drawn_across, drawn_down, is_visible, n_marks in boxes:
        assert is_visible
        assert n_marks > 2
        assert across > 250
        assert down > 150
        assert drawn_across > 100
        assert drawn_down > 50
        assert left >= 0
        assert right <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_text_in_figures_can_be_read(page, width):
    page.open(width=width)
    sizes = page.run(
        "return Array.from(document.querySelectorAll('figure svg'), svg => {"
        " const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;"
        " return Array.from(svg.querySelectorAll('text'),"
        "  text => scale * parseFloat(getComputedStyle(text).fontSize)) }).flat()"
    )
    assert len(sizes) > 400
    assert min(sizes) > 7


@pytest.mark.parametrize("width", [320, *WIDTHS])
def test_the_page_does_not_scroll_sideways(page, width):
    page.open(width=width)
    page.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")


def test_labels_are_text(page):
    page.open()
    assert page.run("return window.hacked") is None
    section = page.find("#record-disambiguation-lost")
    text = section.get_attribute("textContent")
    for label in reports.LABELS:
        assert label in text
    assert page.run("return document.querySelectorAll('img, object, iframe').length") == 0
    assert page.run("return document.scripts.length") == 1
    shown = page.run("return Array.from(document.querySelectorAll('td bdi'), e => e.textContent)")
    assert reports.SCRIPT in shown
    assert reports.IMAGE in shown


def test_scripts_of_others_are_refused(page):
    page.open()
    page.run(
        "const script = document.createElement('script');"
        "script.textContent = 'window.hacked = 1'; document.body.append(script);"
        "document.body.setAttribute('onclick', 'window.hacked = 1'); document.body.click();"
    )
    assert page.run("return window.hacked") is None
    # They are refused by the policy, which says so.
    assert any("Content Security Policy" in entry["message"] for entry in page.messages())


def luminance(page):
    """Return how bright the page and its letters are, from 0 to 255."""
    return page.run(
        "const style = getComputedStyle(document.body);"
        "const canvas = document.createElement('canvas').getContext('2d');"
        "return [style.backgroundColor, style.color].map(color => { canvas.fillStyle = color;"
        " canvas.fillRect(0, 0, 1, 1);"
        " const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data; return (r + g + b) / 3 })"
    )


def test_colours_follow_the_system(page):
    ground, ink = luminance(page.open(scheme="light"))
    assert ground > 200 > 100 > ink
    ground, ink = luminance(page.open(scheme="dark"))
    assert ink > 200 > 100 > ground
    # Texts of figures follow the page.
    color = page.run("return getComputedStyle(document.querySelector('figure text')).fill")
    assert color == page.run("return getComputedStyle(document.body).color")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_button_turns_colours_around(page, scheme):
    from selenium.webdriver.common.keys import Keys

    page.open(scheme=scheme)
    button = page.find("#theme")
    was_dark = scheme == "dark"
    assert button.get_attribute("aria-pressed") == str(was_dark).lower()
    before = luminance(page)[0]
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-pressed") == str(not was_dark).lower()
    assert (luminance(page)[0] > before) == was_dark
    button.click()
    assert luminance(page)[0] == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(page, scheme):
    page.open(scheme=scheme)
    ratios = page.run(
        "const canvas = document.createElement('canvas').getContext('2d');"
        "const light = color => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color;"
        " canvas.fillRect(0, 0, 1, 1);"
        " const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;"
        " if (a === 0) return null;"
        " const part = v => { v /= 255;"
        "  return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 };"
        " return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b) };"
        "const ground = element => {"
        " for (; element; element = element.parentElement) {"
        "  const found = light(getComputedStyle(element).backgroundColor);"
        "  if (found !== null) return found } return 1 };"
        "const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);"
        "const texts = Array.from(document.querySelectorAll("
        " 'p, li, a, dt, dd, th, td, small, button, summary, figcaption, caption, h1, h2, h3, h4'"
        "), e => ratio(light(getComputedStyle(e).color), ground(e)));"
        "const lines = [1, 2, 3, 4, 5, 6].map(i => {"
        " const probe = document.createElement('i'); probe.style.color = `var(--series-${i})`;"
        " document.querySelector('section').append(probe);"
        " return ratio(light(getComputedStyle(probe).color), ground(probe)) });"
        "return [Math.min(...texts), Math.min(...lines)]"
    )
    # What WCAG asks for: level AA for texts, and for graphics.
    assert ratios[0] >= 4.5
    assert ratios[1] >= 3


def test_structure(page):
    page.open()
    assert page.run("return document.documentElement.lang") == "en"
    levels = page.run(
        "return Array.from(document.querySelectorAll('h1, h2, h3, h4, h5, h6'), h => +h.tagName[1])"
    )
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    nameless = page.run(
        "const named = e => (e.getAttribute('aria-labelledby') || '').split(' ')"
        " .some(id => document.getElementById(id)?.textContent.trim());"
        "return Array.from(document.querySelectorAll('svg:not([aria-hidden])')).filter("
        " svg => svg.getAttribute('role') !== 'img' || !named(svg)).length"
    )
    assert nameless == 0
    texts = page.run(
        "return Array.from(document.querySelectorAll('th button'), b => b.textContent.trim())"
    )
    assert texts
    assert all(texts)


def test_names_that_screen_readers_tell(page):
    page.open()
    nodes = page.command("Accessibility.getFullAXTree")["nodes"]
    names = {
        kind: [
            node.get("name", {}).get("value", "")
            for node in nodes
            if node.get("role", {}).get("value") == kind and not node["ignored"]
        ]
        for kind in ("image", "SvgRoot", "button", "region", "table")
    }
    assert len(names["image"] + names["SvgRoot"]) > 30
    for found in names.values():
        assert all(found)
    # Marks are told in words.
    told = " ".join(node.get("name", {}).get("value") or "" for node in nodes)
    assert "worse than HERA" in told


def test_the_keyboard_reaches_the_skip_link_first(page):
    from selenium.webdriver.common.keys import Keys

    page.open()
    page.find("body").send_keys(Keys.TAB)
    focused = page.browser.switch_to.active_element
    assert focused.get_attribute("class") == "skip"
    assert focused.rect["y"] >= 0
    focused.send_keys(Keys.ENTER)
    assert page.run("return document.activeElement.id") == "content"


def test_the_keyboard_scrolls_wide_tables(page):
    page.open(width=400)
    regions = page.run(
        "return Array.from(document.querySelectorAll('.scroll'),"
        " part => [part.tabIndex, part.getAttribute('role'), part.getAttribute('aria-label')])"
    )
    assert regions
    for tab_index, role, label in regions:
        assert tab_index == 0
        assert role == "region"
        assert label


def test_print(page):
    page.open(scheme="dark")
    page.command("Emulation.setEmulatedMedia", media="print")
    try:
        assert page.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
        ground, ink = luminance(page)
        assert ground > 250 > 100 > ink
        # Nothing is cut off where paper cannot scroll.
        assert page.run(
            "return Array.from(document.querySelectorAll('.scroll')).every("
            " part => getComputedStyle(part).overflow === 'visible')"
        )
    finally:
        page.command("Emulation.setEmulatedMedia", media="")
