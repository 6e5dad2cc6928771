"""The page in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from ontarget.service import Service, create_app, run_id
from tests.service.test_api import made, step

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
REQUIRED = bool(os.environ.get("ONTARGET_NEEDS_BROWSER"))
if not REQUIRED:
    pytest.importorskip("playwright", reason="pip install playwright")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium; apt-get install chromium", allow_module_level=True)

from playwright.sync_api import Browser, Page, expect, sync_playwright  # noqa: E402

ROW = ".rows .run"
SLOW = 60_000  # milliseconds: the first explanation compiles what it needs


class Running:
    """A service that listens, and can be killed and started again on its port."""

    def __init__(self, model: Path, folder: Path, *, token: bool = False) -> None:
        self.model, self._folder, self._token = model, folder, token
        self.database = str(folder / "browser.db")
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self.service: Service = made(self.database, self.model, self._folder)
        app = create_app(self.service, open_to_all=not self._token)
        config = uvicorn.Config(app, port=self.port, log_config=None, timeout_graceful_shutdown=1)
        self._server, self._streams = uvicorn.Server(config), app.state.api.streams
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        limit = time.monotonic() + 20.0
        while not self._server.started and time.monotonic() < limit:
            self._thread.join(0.01)
        assert self._server.started

    def stop(self) -> None:
        self._streams.close()
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(20.0)

    def send(self, *messages: dict[str, Any], **headers: str) -> list[dict[str, Any]]:
        found = httpx.post(f"{self.url}/v1/steps", json=list(messages), headers=headers)
        answers: list[dict[str, Any]] = found.raise_for_status().json()
        return answers


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def running(model: Path, tmp_path: Path) -> Iterator[Running]:
    found = Running(model, tmp_path)
    yield found
    found.stop()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        found = context.new_page()
        troubles: list[str] = []
        found.on("pageerror", lambda error: troubles.append(str(error)))
        found.on("dialog", lambda dialog: troubles.append(f"a dialog: {dialog.message}"))
        yield found
        assert troubles == []


def fallen(agent: str = "a") -> list[dict[str, Any]]:
    """Two steps after which a run is in alarm."""
    return [step(0, agent), step(1, agent, reward=-50.0)]


def test_the_fleet_moves_and_an_alarm_is_seen_within_a_second(running: Running, page: Page) -> None:
    page.goto(running.url)
    expect(page.get_by_text("No run is under way")).to_be_visible()
    expect(page.locator("#connection")).to_have_text("● live")
    (first,) = running.send(step(0))
    expect(page.locator(ROW)).to_have_count(1)
    expect(page.locator(ROW)).to_contain_text(f"{round(100 * first['p'])} %")
    expect(page.locator(ROW)).to_contain_text("0 of 6")
    running.send(step(1, reward=-50.0))
    expect(page.locator("#open-alarms")).to_have_text("1", timeout=1_000)
    expect(page.locator(ROW)).to_contain_text("alarm", timeout=1_000)
    expect(page.locator(".summary")).to_contain_text("1 in alarm")
    expect(page.get_by_text("Worst now")).to_contain_text("a · 1: alarm since step 1")
    expect(page.get_by_text("Worst now")).to_contain_text("Why:", timeout=SLOW)


def test_an_alarm_is_acknowledged_with_a_name_and_a_note(running: Running, page: Page) -> None:
    running.send(*fallen())
    page.goto(f"{running.url}/#/alarms")
    page.get_by_label("Note").fill("looks like a blocked gate")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_role("alert")).to_contain_text("Write your name first")
    page.get_by_label("Your name").fill("Ada")
    page.get_by_label("Note").fill("looks like a blocked gate")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_text("Acknowledged: 1")).to_be_visible()
    expect(page.get_by_role("cell", name="looks like a blocked gate")).to_be_visible()
    (alarm,) = httpx.get(f"{running.url}/v1/alarms").json()["items"]
    assert (alarm["acknowledged_by"], alarm["note"]) == ("Ada", "looks like a blocked gate")


def test_a_run_shows_its_path_and_why_p_moved(running: Running, page: Page) -> None:
    running.send(step(0), step(1, reward=-1.0), step(2, reward=-1.0))
    page.goto(f"{running.url}/#/run/{run_id('a', '1')}")
    expect(page.get_by_role("heading", name="a · 1")).to_be_visible()
    expect(page.get_by_role("img", name="p over the steps")).to_be_visible()
    expect(page.get_by_role("img", name="the score so far: −2")).to_be_visible()
    alike = page.get_by_text("The recorded runs that are most like this one")
    expect(alike).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("cell", name="x0 0.2, x1 −0.2")).to_be_visible()
    running.send(step(3, reward=-1.0))
    expect(page.get_by_role("img", name="the score so far: −3")).to_be_visible(timeout=2_000)


def test_a_killed_service_is_told_and_found_again(running: Running, page: Page) -> None:
    running.send(step(0))
    page.goto(running.url)
    expect(page.locator(ROW)).to_have_count(1)
    running.stop()
    expect(page.locator("#connection")).to_contain_text("no connection", timeout=5_000)
    running.start()
    running.send(step(1, reward=1.0), step(0, "b"))
    expect(page.locator("#connection")).to_have_text("● live", timeout=10_000)
    expect(page.locator(ROW)).to_have_count(2, timeout=10_000)
    expect(page.get_by_role("row", name="a · 1")).to_contain_text("1 of 6")


def test_a_thousand_runs_scroll_with_few_rows_in_the_page(running: Running, page: Page) -> None:
    running.send(*(step(0, f"agent-{i:04d}") for i in range(1000)))
    page.goto(running.url)
    expect(page.locator(".summary")).to_contain_text("1,000 runs under way")
    assert page.locator(ROW).count() < 60
    list_ = page.locator(".fleet")
    list_.evaluate("one => one.scrollTo(0, one.scrollHeight)")
    expect(page.locator(f"{ROW}[aria-rowindex='1001']")).to_be_visible()
    assert page.locator(ROW).count() < 60
    page.get_by_label("Search").fill("agent-0777")
    expect(page.locator(ROW)).to_have_count(1)


@pytest.mark.parametrize(
    "name",
    [
        "<img src=x onerror=alert(1)>",
        "</span><script>alert(1)</script>",
        "javascript:alert(1)",
        "w" * 200,
        "\u202egnorw \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    ],
)
def test_no_name_runs_or_breaks_the_page(name: str, running: Running, page: Page) -> None:
    running.send(*fallen(name))
    for path in ("", f"#/run/{run_id(name, '1')}", "#/alarms"):
        page.goto("about:blank")
        page.goto(f"{running.url}/{path}")
        expect(page.get_by_text(f"{name} · 1").first).to_be_visible()
        assert page.locator("main img, main script").count() == 0
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{path} is {wide} pixels too wide"


def test_a_token_is_needed_where_others_can_come(model: Path, tmp_path: Path, page: Page) -> None:
    running = Running(model, tmp_path, token=True)
    try:
        admin, reader = (running.service.tokens.create([one]) for one in ("admin", "read"))
        running.send(*fallen(), authorization=f"Bearer {admin}")
        page.goto(running.url)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert page.locator(ROW).count() == 0
        page.get_by_label("Token").fill("ot_1_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("no token of this service")
        page.get_by_label("Token").fill(reader)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(ROW)).to_have_count(1)
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("link", name="Alarms").click()
        expect(page.get_by_text("Your token may only read")).to_be_visible()
        assert page.get_by_role("button", name="Acknowledge").count() == 0
    finally:
        running.stop()


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(390, True, id="narrow-dark"),
        pytest.param(1280, False, id="wide-light"),
        pytest.param(390, False, id="narrow-light", marks=pytest.mark.slow),
        pytest.param(1280, True, id="wide-dark", marks=pytest.mark.slow),
    ],
)
def test_every_view_is_accessible(dark: bool, width: int, running: Running, page: Page) -> None:
    from axe_playwright_python.sync_playwright import Axe

    running.send(*fallen(), step(0, "b"))
    page.emulate_media(color_scheme="dark" if dark else "light")
    page.set_viewport_size({"width": width, "height": 800})
    for path in ("", f"#/run/{run_id('a', '1')}", "#/alarms", "#/trust", "#/contracts"):
        page.goto("about:blank")
        page.goto(f"{running.url}/{path}")
        expect(page.locator("main h1")).to_be_visible()
        expect(page.get_by_text("loading", exact=True)).to_have_count(0)
        page.wait_for_function("() => document.querySelector('main').textContent.length > 60")
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_an_open_alarm_is_shown_however_many_came_after_it(running: Running, page: Page) -> None:
    running.send(*fallen("oldest"))
    run = running.service.store.find_runs([run_id("oldest", "1")])[run_id("oldest", "1")]
    with running.service.store.database.write() as at:
        at.run_many(
            "INSERT INTO alarms VALUES (?, ?, ?, 'target', 'long over', ?, ?, NULL, NULL, NULL)",
            [(10_000 + i, f"x-{i}", run.number, 2e9 + i, 2e9 + i) for i in range(2_500)],
        )
    page.goto(f"{running.url}/#/alarms")
    expect(page.get_by_role("heading", name="Open: 1")).to_be_visible()
    expect(page.locator(".cards")).to_contain_text("oldest")
    expect(page.get_by_role("heading", name="Over: the newest 200")).to_be_visible()


def test_older_versions_of_a_contract_are_judged_too(running: Running, page: Page) -> None:
    spec = {"name": "walk", "model": str(running.model), "target": "1:", "alarm_below": 0.5}
    httpx.post(f"{running.url}/v1/contracts", json=spec, timeout=60.0).raise_for_status()
    page.goto(f"{running.url}/#/trust")
    expect(page.get_by_text("version 2", exact=True)).to_be_visible()
    page.get_by_text("Version 1 of walk").click()
    expect(page.locator("details")).to_contain_text("runs have ended")
