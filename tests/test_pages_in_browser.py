"""The report in a real browser: charts zoom together, flows toggle, nothing is fetched and nothing fails."""

import json

import chromium
import pytest

from bentpipe.execution.racing import race
from bentpipe.profiles.make import make_profile
from bentpipe.report.build import write_report
from bentpipe.report.compare import write_page
from bentpipe.runs.pairing import pair_up
from bentpipe.runs.store import find_runs

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z
NAME = "</script> $x$ \x1b"
SHOWN = "</script> $x$ \N{REPLACEMENT CHARACTER}"

pytestmark = pytest.mark.skipif(chromium.PROGRAM is None, reason="no Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("raced")
    path = make_profile("melbourne", "sydney", start_unix_ns=START_UNIX_NS, duration_s=40.0, name="path")
    race([path], ["reno", "bbr", "reno+bbr"], out=out, duration_s=30.0)
    for file in out.glob("race-down/*/*/path.reno.*/run.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        record["scheme"] = record["summary"]["flows"][0]["controller"] = NAME
        file.write_text(json.dumps(record), encoding="utf-8")
    return write_report(out)


@pytest.fixture(scope="module")
def browser():
    with chromium.tab() as tab:
        yield tab


def open_first_chart(browser, page):
    browser.messages.clear()
    browser.requests.clear()
    browser.open(page)
    browser.run("document.querySelector('figure.live').scrollIntoView()")
    browser.wait("document.querySelector('figure.drawn')")
    # The canvas has its final size after the first observation of its width.
    browser.wait("document.querySelectorAll('.u-over')[1].clientWidth > 600")
    browser.run("document.querySelector('figure.live').scrollIntoView()")


def spans(browser):
    """The times at the ends of each panel of the first chart, as its own readout tells them."""
    return browser.run(
        "Array.from(document.querySelector('figure.live').querySelectorAll('.u-over'), (over) => {"
        "const box = over.getBoundingClientRect();"
        "return [1, box.width - 1].map((x) => {"
        "over.dispatchEvent(new MouseEvent('mouseenter', {clientX: box.left + x, clientY: box.top + 9}));"
        "over.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + x, clientY: box.top + 9, bubbles: true}));"
        "return parseFloat(document.querySelector('.chart-pointer').textContent.split(' ')[1]); }); })"
    )


def middle(browser, panel):
    left, top, width, height = browser.run(
        f"(({{x, y, width, height}}) => [x, y, width, height])"
        f"(document.querySelectorAll('.u-over')[{panel}].getBoundingClientRect())"
    )
    return left, top + height / 2, width


def test_a_drag_zooms_all_panels_and_a_double_click_resets_them(browser, page):
    open_first_chart(browser, page)
    assert browser.run("document.querySelectorAll('figure.live .chart')[0].querySelectorAll('canvas').length") == 5
    left, y, width = middle(browser, 2)
    browser.drag(left + width / 3, left + 2 * width / 3, y)
    zoomed = spans(browser)
    for low, high in zoomed[1:]:
        assert low == pytest.approx(10.0, abs=0.3)
        assert high == pytest.approx(20.0, abs=0.3)
    browser.click(left + width / 2, y, times=2)
    for low, high in spans(browser)[1:]:
        assert low == pytest.approx(0.0, abs=0.3)
        assert high == pytest.approx(30.0, abs=0.3)
    assert browser.messages == []


def test_the_pointer_shows_the_values_of_all_panels(browser, page):
    open_first_chart(browser, page)
    left, y, width = middle(browser, 1)
    browser.mouse("mouseMoved", left + width / 2, y)
    browser.wait("document.querySelector('.chart-pointer').textContent.startsWith('at 1')")
    rows = browser.run(
        "Array.from(document.querySelector('.chart-legend tbody').rows,"
        " (row) => Array.from(row.cells, (cell) => cell.textContent))"
    )
    assert [row[0] for row in rows] == ["Capacity", "BBR", SHOWN]
    assert all(float(value.replace("\N{NARROW NO-BREAK SPACE}", "")) >= 0 for row in rows[1:] for value in row[1:])
    assert rows[0][2:] == ["", "", ""]


def test_a_flow_is_hidden_and_shown_by_mouse_and_keyboard(browser, page):
    open_first_chart(browser, page)

    def ink():
        """Dots of BBR's colour in the panel of goodput."""
        return browser.run(
            "(() => { const canvas = document.querySelectorAll('figure.live canvas')[1];"
            "const copy = new OffscreenCanvas(canvas.width, canvas.height)"
            ".getContext('2d', {willReadFrequently: true});"
            "copy.drawImage(canvas, 0, 0); let dots = 0;"
            "const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);"
            "for (let i = 0; i < data.length; i += 4)"
            " if (data[i] < 20 && data[i + 1] > 140 && data[i + 2] < 130) dots++;"
            "return dots; })()"
        )

    button = "document.querySelectorAll('.chart-legend button')[1]"
    assert browser.run(f"{button}.textContent") == "BBR"
    shown = ink()
    assert shown > 100
    x, y = browser.run(
        f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({button}.getBoundingClientRect())"
    )
    browser.click(x, y)
    browser.wait(f"{button}.getAttribute('aria-pressed') === 'false'")
    browser.run("new Promise(requestAnimationFrame)")
    assert ink() == 0
    browser.run(f"{button}.focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=" ", code="Space", text=" ", windowsVirtualKeyCode=32)
    browser.wait(f"{button}.getAttribute('aria-pressed') === 'true'")
    browser.mouse("mouseMoved", 5, 5)
    browser.run(f"{button}.blur()")
    browser.run("new Promise(requestAnimationFrame)")
    assert ink() > 100
    assert browser.messages == []


def test_keys_move_the_pointer_and_zoom(browser, page):
    open_first_chart(browser, page)
    browser.run("document.querySelector('.chart').focus()")

    def press(key, times=1):
        for _ in range(times):
            browser.call("Input.dispatchKeyEvent", type="keyDown", key=key)
            browser.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    press("ArrowRight", 50)
    assert browser.run("document.querySelector('.chart-pointer').textContent") == "at 15.0 s"
    press("+")
    assert spans(browser)[1] == pytest.approx([7.5, 22.5], abs=0.3)
    press("0")
    assert spans(browser)[1] == pytest.approx([0.0, 30.0], abs=0.3)


def test_every_chart_of_the_page_is_drawn_without_a_request_or_a_message(browser, page):
    open_first_chart(browser, page)
    for i in range(browser.run("document.querySelectorAll('figure.live').length")):
        browser.run(f"document.querySelectorAll('figure.live')[{i}].scrollIntoView()")
        browser.wait(f"document.querySelectorAll('figure.live')[{i}].classList.contains('drawn')")
    assert browser.run("document.querySelectorAll('.chart').length") == 3
    assert browser.messages == []
    assert browser.requests == [page.resolve().as_uri()]


def test_markup_that_got_into_the_page_would_not_run(browser, page, tmp_path):
    text = page.read_text(encoding="utf-8")
    hostile = tmp_path / "report.html"
    hostile.write_text(
        text.replace("<main>", "<main><script>window.ran = 1</script><img src='x' onerror='window.ran = 1'>")
    )
    browser.open(hostile)
    assert browser.run("window.ran === undefined")
    assert browser.messages  # the browser reports what the policy refused


def test_without_scripts_the_pictures_remain(browser, page):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        assert browser.call("DOM.getDocument")
        root = browser.call("DOM.getDocument")["root"]["nodeId"]
        nodes = browser.call("DOM.querySelectorAll", nodeId=root, selector="figure img")["nodeIds"]
        boxes = [browser.call("DOM.getBoxModel", nodeId=node)["model"] for node in nodes]
        assert len(boxes) == 5
        assert all(box["height"] > 100 for box in boxes)
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_the_page_of_two_races_has_both_runs_in_each_panel(browser, page, tmp_path):
    runs = find_runs(page.parent)
    pairing = pair_up(runs, runs)
    write_page(pairing, ("first </script>", "second"), tmp_path / "compare.html")
    open_first_chart(browser, tmp_path / "compare.html")
    names = "Array.from(document.querySelector('.chart-legend tbody').rows, (row) => row.cells[0].textContent)"
    assert browser.run(names)[1::2] == ["A: all data", "B: all data"]
    assert browser.run("document.querySelectorAll('figure.live').length") == len(pairing.schemes) == 3
    assert browser.messages == []
    assert browser.requests == [(tmp_path / "compare.html").resolve().as_uri()]
