"""The page in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
import uvicorn

from ontarget.service.contracts import ContractSpec
from ontarget.service.messages import run_id
from ontarget.service.service import Service
from ontarget.service.web.api import create_app
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
expect.set_options(timeout=20_000)  # a test waits no longer than it must


class Running:
    """A service that listens, and can be killed and started again on its port."""

    def __init__(
        self, model: Path, folder: Path, *, token: bool = False, specs: Sequence[ContractSpec] = ()
    ) -> None:
        self.model, self._folder, self._token, self._specs = model, folder, token, specs
        self.database = str(folder / "browser.db")
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self.service: Service = made(self.database, self.model, self._folder)
        for spec in self._specs:
            self.service.contracts.add(spec, at=0.0)
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
        found = httpx.post(
            f"{self.url}/v1/steps", json=list(messages), headers=headers, timeout=60.0
        )
        answers: list[dict[str, Any]] = found.raise_for_status().json()
        return answers

    def finish(self, rewards: Sequence[float]) -> None:
        """Let one run of each of as many agents earn this at every step, and end."""
        for number in range(7):
            last = {"end": True, "state": None} if number == 6 else {}
            sent = [
                step(
                    number,
                    f"past-{i}",
                    contract="walk",
                    **({"reward": reward, **last} if number else {}),
                )
                for i, reward in enumerate(rewards)
            ]
            self.send(*sent)


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
    return [step(0, agent, contract="walk"), step(1, agent, reward=-50.0, contract="walk")]


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
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_text("Acknowledged: 1")).to_be_visible()
    expect(page.locator("#open-alarms")).to_be_hidden()  # nobody needs to come any more
    expect(page.get_by_role("cell", name="looks like a blocked gate")).to_be_visible()
    page.goto(f"{running.url}/#/run/{run_id('a', '1')}")
    expect(page.get_by_text("Seen by Ada")).to_contain_text("looks like a blocked gate")
    page.get_by_role("link", name="Fleet").click()
    expect(page.locator(ROW)).to_contain_text("alarm seen by Ada")
    page.set_viewport_size({"width": 390, "height": 820})
    expect(page.locator(".seen")).to_be_visible()
    assert page.locator(".seen").evaluate("one => one.scrollWidth <= one.clientWidth")  # not cut
    expect(page.locator("#open-alarms")).to_be_hidden()
    (alarm,) = httpx.get(f"{running.url}/v1/alarms").json()["items"]
    assert (alarm["acknowledged_by"], alarm["note"]) == ("Ada", "looks like a blocked gate")


def test_another_alarm_takes_away_neither_a_note_nor_a_message(
    running: Running, page: Page
) -> None:
    running.send(*fallen())
    page.goto(f"{running.url}/#/alarms")
    page.get_by_label("Note").fill("looks like a blocked gate")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_role("alert")).to_contain_text("Write your name first")
    running.send(*fallen("b"))
    expect(page.get_by_text("Open: 2")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("Write your name first")
    own = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="a · 1"))
    expect(own.get_by_label("Note")).to_have_value("looks like a blocked gate")


def test_a_run_shows_its_path_and_why_p_moved(running: Running, page: Page) -> None:
    running.send(step(0), step(1, reward=-1.0), step(2, reward=-1.0))
    page.goto(f"{running.url}/#/run/{run_id('a', '1')}")
    expect(page.get_by_role("heading", name="a · 1")).to_be_visible()
    expect(page.get_by_role("img", name="p over the steps")).to_be_visible()
    expect(page.get_by_role("img", name="the score so far: −2")).to_be_visible()
    alike = page.get_by_text("The recorded runs that are most like this one")
    expect(alike).to_be_visible(timeout=SLOW)
    found = httpx.get(f"{running.url}/v1/runs/{run_id('a', '1')}/why").json()["precedents"][0]
    rest = page.locator("table", has_text="after that step").locator("tbody tr").first
    expect(rest).to_contain_text("−2 so far and ")
    assert found["ends_at"] == pytest.approx(-2.0 + found["rest"])
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
        expect(page.get_by_role("alert")).to_contain_text("not a token of this service")
        page.get_by_label("Token").fill(reader)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(ROW)).to_have_count(1)
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("link", name="Alarms").click()
        expect(page.get_by_text("Your token may only read")).to_be_visible()
        assert page.get_by_role("button", name="Acknowledge").count() == 0
    finally:
        running.stop()


LOOKS = [
    pytest.param(390, True, id="narrow-dark"),
    pytest.param(1280, False, id="wide-light"),
    pytest.param(390, False, id="narrow-light", marks=pytest.mark.slow),
    pytest.param(1280, True, id="wide-dark", marks=pytest.mark.slow),
]


def check_accessible(page: Page, about: str) -> None:
    """Let axe look for violations of WCAG 2.1 AA, and measure that nothing sticks out."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})
    assert found.violations_count == 0, f"{about}: {found.generate_report()}"
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, about


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_every_view_is_accessible(
    dark: bool, width: int, model: Path, bounded_model: Path, tmp_path: Path, page: Page
) -> None:
    running = Running(model, tmp_path, specs=[minutes(bounded_model, ":4")])
    try:
        running.finish([2.0] * 20 + [-2.0] * 15)
        running.send(*fallen(), *fallen("seen"), step(0, "b", contract="walk"), *spent("late", 5.0))
        alarm = f"{run_id('seen', '1')}-1"
        said = {"by": "Ada", "note": "on my way"}
        httpx.post(f"{running.url}/v1/alarms/{alarm}/acknowledge", json=said).raise_for_status()
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.set_viewport_size({"width": width, "height": 800})
        runs = [f"#/run/{run_id(agent, '1')}" for agent in ("a", "late", "past-0")]
        for path in ("", *runs, "#/alarms", "#/trust", "#/contracts"):
            page.goto("about:blank")
            page.goto(f"{running.url}/{path}")
            expect(page.locator("main h1")).to_be_visible()
            expect(page.get_by_text("loading", exact=True)).to_have_count(0, timeout=SLOW)
            page.wait_for_function("() => document.querySelector('main').textContent.length > 60")
            check_accessible(page, path)
    finally:
        running.stop()


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_signing_in_is_accessible(
    dark: bool, width: int, model: Path, tmp_path: Path, page: Page
) -> None:
    running = Running(model, tmp_path, token=True)
    try:
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(running.url)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        check_accessible(page, "sign-in")
    finally:
        running.stop()


def add_old_alarms(running: Running, run: str, n: int) -> None:
    """Alarms of a run that are over, as if they had come after all others."""
    number = running.service.store.find_runs([run])[run].number
    with running.service.store.database.write() as at:
        at.run_many(
            "INSERT INTO alarms VALUES (?, ?, ?, 'target', ?, ?, ?, NULL, NULL, NULL)",
            [(10_000 + i, f"x-{i}", number, f"over {i}", 2e9 + i, 2e9 + i) for i in range(n)],
        )


def test_an_open_alarm_is_shown_however_many_came_after_it(running: Running, page: Page) -> None:
    running.send(*fallen("oldest"))
    add_old_alarms(running, run_id("oldest", "1"), 2_500)
    page.goto(f"{running.url}/#/alarms")
    expect(page.get_by_role("heading", name="Open: 1")).to_be_visible()
    expect(page.locator(".cards")).to_contain_text("oldest")
    expect(page.get_by_role("heading", name="Over: the newest 50")).to_be_visible()
    expect(page.locator("tbody tr").first).to_contain_text("over 2499")


def test_no_alarm_that_is_over_is_out_of_reach(running: Running, page: Page) -> None:
    running.send(*fallen())
    add_old_alarms(running, run_id("a", "1"), 1_250)
    page.goto(f"{running.url}/#/alarms")
    over = page.locator("h2").last
    for shown in (50, 100, 200, 400, 800):
        expect(over).to_have_text(f"Over: the newest {shown}", timeout=20_000)
        page.locator("button", has_text="Show older ones").click()
    expect(over).to_have_text("Over: 1,250", timeout=20_000)
    expect(page.locator("tbody tr").last).to_contain_text("over 0")
    expect(page.locator("button", has_text="Show older ones")).to_have_count(0)


def test_hundreds_of_open_alarms_are_counted_and_can_all_be_shown(
    running: Running, page: Page
) -> None:
    agents = [f"agent-{i:03d}" for i in range(120)]
    running.send(*(step(0, agent) for agent in agents))
    running.send(*(step(1, agent, reward=-50.0) for agent in agents))
    page.goto(f"{running.url}/#/alarms")
    expect(page.get_by_role("heading", name="Open: 120")).to_be_visible()
    expect(page.locator("#open-alarms")).to_have_text("120")
    expect(page.locator(".cards li")).to_have_count(100)
    page.get_by_role("button", name="Show all").click()
    expect(page.locator(".cards li")).to_have_count(120)


def test_a_silenced_agent_is_told_and_the_place_of_delivery_is_named(
    running: Running, page: Page
) -> None:
    running.send(*fallen())
    page.goto(f"{running.url}/#/alarms")
    expect(page.locator(".cards")).to_contain_text("given no address to send alarms to")
    page.get_by_role("button", name="Silence for an hour").click()
    expect(page.locator(".cards")).to_contain_text("a is silenced until")
    with running.service.store.database.write() as at:
        alarm = f"{run_id('a', '1')}-1"
        row = (1_000, alarm, "pager", b"{}", 0.0, 0, 4e9, "waiting", "")
        at.run("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    expect(page.locator(".cards")).to_contain_text("Still to be sent to pager.", timeout=10_000)
    with running.service.store.database.write() as at:
        raised = at.rows("SELECT raised_at FROM alarms")[0][0]
        arrived = "UPDATE outbox SET state = 'sent', created_at = ?, due_at = ?"
        at.run(arrived, (raised, raised + 3.0))
    clock = page.evaluate("at => new Date(at).toLocaleTimeString('en-GB')", 1e3 * (raised + 3.0))
    expect(page.locator(".cards")).to_contain_text(
        f"Alarm delivered to pager {clock}.", timeout=10_000
    )


def test_older_versions_of_a_contract_are_judged_too(running: Running, page: Page) -> None:
    spec = {"name": "walk", "model": str(running.model), "target": "1:", "alarm_below": 0.5}
    httpx.post(f"{running.url}/v1/contracts", json=spec, timeout=60.0).raise_for_status()
    page.goto(f"{running.url}/#/trust")
    expect(page.get_by_text("version 2", exact=True)).to_be_visible()
    page.get_by_text("Version 1 of walk").click()
    expect(page.locator("details")).to_contain_text("runs have ended")


def test_a_range_holds_the_p_beside_it_and_a_threshold_differs_from_p(
    running: Running, page: Page
) -> None:
    page.goto(running.url)
    said = page.evaluate(
        """async () => {
          const { percent, range, apart, reasonOf } = await import("/page/words.js");
          const below = (p, limit) => reasonOf({ reason: `p = ${p}, alarm below ${limit}` });
          return [percent(0.0097), range([0.0096, 0.03]), range([0, 0.004]), range([0.002, 0.004]),
            range([0.97, 0.995]), range([0.614, 0.72]), apart(0.138, 0.1424), apart(0.03, 0.14),
            below(0.138, 0.142), below(0.142, 0.142)];
        }"""
    )
    assert said == [
        "< 1 %", "< 1 to 3 %", "0 to < 1 %", "< 1 %", "97 to > 99 %", "61 to 72 %",
        ["13.8 %", "14.2 %"], ["3 %", "14 %"], "p fell to 13.8 % (alarm below 14.2 %)",
        "p fell just below 14.2 %, where alarms begin",
    ]  # fmt: skip


def test_a_contract_that_drifts_is_told_on_every_first_look(
    model: Path, bounded_model: Path, tmp_path: Path, page: Page
) -> None:
    running = Running(model, tmp_path, specs=[minutes(bounded_model, ":4")])
    try:
        page.goto(running.url)
        expect(page.locator("#connection")).to_have_text("● live")
        expect(page.locator("#drifting")).to_be_hidden()
        running.finish([-2.0] * 40 + [2.0])
        running.send(*fallen("now"))
        page.reload()
        expect(page.locator("#drifting")).to_be_visible(timeout=SLOW)
        expect(page.locator(".drift")).to_contain_text("walk: p was ")
        expect(page.locator(".drift")).to_contain_text("percentage points too high")
        expect(page.get_by_role("row", name="now · 1")).to_contain_text("walk")
        page.get_by_role("link", name="Alarms").click()
        expect(page.locator(".cards")).to_contain_text("now · 1 walk")
        promised = "(100 %; promised: at most 20 % on average)"
        health = httpx.get(f"{running.url}/v1/contracts/walk/health").json()
        share = round(100 * health["false_alarms"] / health["met"])
        expect(page.locator(".lead")).to_contain_text(
            "Runs that met the target and still had an alarm: "
            f"walk: {health['false_alarms']} of {health['met']} "
            + promised.replace("100", str(share))
        )
        page.locator(".drift").get_by_role("link", name="See Trust").click()
        expect(page.locator(".drift")).to_be_hidden()
        expect(page.get_by_text("0 runs have begun and ended since.")).to_contain_text(
            "it needs at least 4 that met the target, and there are 0"
        )
        expect(page.get_by_role("button", name="Recalibrate on 0 runs")).to_be_disabled()
        answers = page.locator("table", has_text="Answers by their p").locator("td.number")
        expect(answers.first).to_be_visible()
        counted = [int(one) for one in answers.all_inner_texts()[2::3]]
        assert sum(counted) == 4 * health["runs"]
    finally:
        running.stop()


def minutes(model: Path, target: str, name: str = "time") -> ContractSpec:
    """A contract whose behavior can only grow."""
    return ContractSpec(
        name=name, model=str(model), target=target, false_alarm_rate=0.2, unit="minutes"
    )


def spent(agent: str, amount: float, contract: str = "time") -> list[dict[str, Any]]:
    """Two steps of a run that has spent this much after them."""
    return [step(0, agent, contract=contract), step(1, agent, reward=amount, contract=contract)]


def test_a_run_that_is_decided_is_told_apart_from_one_in_danger(
    model: Path, bounded_model: Path, tmp_path: Path, page: Page
) -> None:
    specs = [minutes(bounded_model, ":4"), minutes(bounded_model, "4:", "least")]
    running = Running(model, tmp_path, specs=specs)
    try:
        running.send(*fallen("danger"), *spent("gone", 5.0), *spent("safe", 5.0, "least"))
        page.goto(running.url)
        expect(page.get_by_text("Worst now")).to_contain_text("danger · 1: alarm since step 1")
        said = "3 runs under way: 2 in alarm (1 of them already lost), 0 unknown, "
        expect(page.locator(".summary")).to_contain_text(
            f"{said}1 without an alarm (1 of them already met)."
        )
        expect(page.get_by_text("then those already lost")).to_be_visible()  # the order is said
        lost = page.get_by_text("Already lost:")
        expect(lost).to_contain_text("gone · 1. Whatever happens next")
        expect(page.locator(ROW)).to_contain_text(["danger ·", "gone ·", "safe ·"])
        row = page.get_by_role("row", name="gone · 1")
        for text in ("already lost", "certain", "5 minutes"):
            expect(row).to_contain_text(text)
        expect(page.get_by_role("row", name="safe · 1")).to_contain_text("already met")
        page.get_by_label("Status").select_option("already lost")
        expect(page.locator(ROW)).to_have_count(1)
        page.get_by_role("link", name="gone · 1").first.click()
        lead = page.locator(".lead", has_text="already lost since step 1")  # this run's own page
        expect(lead).to_contain_text("already lost since step 1 · now at step 1 of 6")
        expect(lead).to_contain_text("Whatever happens next, it ends outside the target")
        expect(page.get_by_text("The target: at most 4 minutes.")).to_be_visible()
        expect(page.get_by_role("img", name="the score so far: 5 minutes")).to_be_visible()
        page.get_by_role("link", name="To the alarms").click()
        expect(page.locator(".cards")).to_contain_text("already lost: whatever happens next")
        page.get_by_role("link", name="Contracts").click()
        expect(page.get_by_role("cell", name="at least 4 minutes")).to_be_visible()
    finally:
        running.stop()


def test_a_goal_over_several_behaviors_shows_each_and_says_why(
    model: Path, goal_model: Path, tmp_path: Path, page: Page
) -> None:
    target, unit = "gain >= -1 & spent <= 2", {"spent": "kJ"}
    spec = ContractSpec(
        name="goal", model=str(goal_model), target=target, false_alarm_rate=0.2, unit=unit
    )
    running = Running(model, tmp_path, specs=[spec])
    try:
        sent = {"agent": "g", "run": "1", "contract": "goal"}
        running.send(
            {**sent, "step": 0, "state": [0.1]},
            {**sent, "step": 1, "state": [0.2], "reward": 0.5, "signals": {"energy": 1.75}},
        )
        page.goto(f"{running.url}/#/run/{run_id('g', '1')}")
        expect(page.get_by_text("spent is the likely culprit")).to_be_visible(timeout=SLOW)
        expect(
            page.get_by_text("The target: gain at least −1 and spent at most 2 kJ.")
        ).to_be_visible()
        row = page.get_by_role("row", name="spent at most 2 kJ")
        expect(row).to_contain_text("1.75 kJ")
        expect(page.get_by_text("The recorded runs that are most like")).to_be_visible()
        expect(page.get_by_role("rowheader", name="spent so far")).to_be_visible()
    finally:
        running.stop()


def test_the_keyboard_reaches_a_run_and_its_alarm(running: Running, page: Page) -> None:
    running.send(*fallen())
    page.goto(running.url)
    expect(page.locator(ROW)).to_have_count(1)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_label("Status").focus()
    page.keyboard.press("Tab")
    expect(page.locator(".fleet")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(f"{ROW} a")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="a · 1")).to_be_visible()


def test_finished_runs_are_downloaded_from_the_page(running: Running, page: Page) -> None:
    running.finish([2.0, -2.0])
    page.goto(f"{running.url}/#/contracts")
    with page.expect_download() as found:
        page.get_by_role("link", name="Download its finished runs").click()
    assert found.value.suggested_filename == "walk.parquet"
    assert pl.read_parquet(found.value.path())["episode"].n_unique() == 2


def test_ended_runs_leave_a_page_that_is_left_open(running: Running, page: Page) -> None:
    page.clock.install()
    page.goto(running.url)
    expect(page.locator("#connection")).to_have_text("● live")
    running.send(step(0, "stays"), step(0, "ends"), step(1, "ends", end=True, state=None))
    expect(page.locator(ROW)).to_have_count(2)
    expect(page.get_by_role("row", name="ends · 1")).to_contain_text("ended")
    page.clock.fast_forward("06:00")
    expect(page.locator(ROW)).to_have_count(1)
    expect(page.get_by_role("row", name="stays · 1")).to_be_visible()


@pytest.mark.slow
def test_the_demo_moves_within_a_minute(page: Page) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "ontarget", "demo", "--serve", "--port", str(port)]
    began = time.monotonic()
    demo = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        while True:
            try:
                httpx.get(f"{url}/readyz").raise_for_status()
                break
            except httpx.HTTPError:
                assert time.monotonic() - began < 120.0
                time.sleep(0.5)
        page.goto(url)
        expect(page.locator(".summary")).to_contain_text("40 runs under way", timeout=30_000)
        steps = page.locator(f"{ROW} span:nth-child(6)")
        before = steps.all_inner_texts()
        page.wait_for_timeout(3_000)
        assert steps.all_inner_texts() != before
    finally:
        demo.terminate()
        demo.wait(20.0)
