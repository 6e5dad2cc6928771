"""Draws pictures of the live page: every view, while the runners of a marathon are replayed.

    python docs/draw_page.py boston.parquet [folder]

With a folder, every view is drawn in light and dark, wide and narrow. The table has one row per
runner and timing mat, with the minutes to the next mat as the reward (Boston 2014, from
github.com/llimllib/bostonmarathon, MIT); the target is to finish within four hours.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
from playwright.sync_api import Browser, sync_playwright

from ontarget import Episodes, GoalMonitor

LEARNED, FINISHED, UNDER_WAY = 1_500, 400, 60
FEATURES = ("age", "km", "elapsed_min", "last_pace_min_per_km")
IMAGES = Path(__file__).parent / "images"
CONTRACTS = """
[[contract]]
name = "marathon"
model = "boston.ontarget"
target = ":240"
unit = "minutes"

[[hook]]
name = "race control"
url = "http://127.0.0.1:{port}"
"""
LOOKS = {
    "": (1280, 820, "light"), "-dark": (1280, 820, "dark"),
    "-narrow": (390, 820, "light"), "-narrow-dark": (390, 820, "dark"),
}  # fmt: skip
KEPT = {"fleet": ("", "-narrow-dark")}  # of the others the first


class Receiver(BaseHTTPRequestHandler):
    """A small web server that receives the messages about alarms."""

    def do_POST(self) -> None:
        """Receive one message."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *about: object) -> None:
        """Print nothing about requests."""


def messages(runner: pl.DataFrame, steps: int) -> list[dict[str, Any]]:
    """What a runner's chip reports at the first ``steps`` timing mats.

    If ``steps`` is above the number of mats, the run also ends.
    """
    rows = runner.sort("step").to_dicts()
    year, bib = rows[0]["episode"].split("-")
    about, sent = {"agent": f"bib {bib}", "run": year}, []
    for k, row in enumerate(rows[:steps]):
        state = {name: row[name] for name in FEATURES}
        reward = rows[k - 1]["reward"] if k else 0.0
        sent.append({**about, "step": k, "state": state, "reward": reward})
    if steps > len(rows):
        sent.append({**about, "step": len(rows), "reward": rows[-1]["reward"], "end": True})
    return sent


def post(client: httpx.Client, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Report steps to the service, and return its answers."""
    found: list[dict[str, Any]] = []
    for first in range(0, len(sent), 1_000):
        said = client.post("/v1/steps", json=sent[first : first + 1_000])
        found += said.raise_for_status().json()
    return found


def delivered(client: httpx.Client) -> None:
    """Wait until the service has delivered every message about an alarm."""
    while client.get("/v1/deliveries", params={"state": "waiting"}).json()["items"]:
        time.sleep(0.5)


def replay(client: httpx.Client, runners: list[pl.DataFrame]) -> str:
    """Report some runners to their finish and others partly; returns the id of one run.

    It is the run in most danger that can still be saved.
    """
    rng = np.random.default_rng(0)
    post(client, [one for runner in runners[:FINISHED] for one in messages(runner, 99)])
    last = [
        post(client, messages(runner, int(rng.integers(2, 9))))[-1]
        for runner in runners[FINISHED : FINISHED + UNDER_WAY]
    ]
    alarmed = [one for one in last if one["status"] == "ALARM"]
    for one in alarmed[1:3]:
        said = {"by": "Ada", "note": "sent a volunteer to the next mat"}
        client.post(f"/v1/alarms/{one['alarm']}/acknowledge", json=said).raise_for_status()
    delivered(client)
    return min(alarmed, key=lambda one: one["p"] or 1.0)["id"]


def draw(browser: Browser, url: str, run: str, folder: Path, *, every: bool) -> None:
    """Write a picture of every view of the live page.

    With ``every``, each view is drawn in light and dark, wide and narrow.
    """
    views = {
        "fleet": "", "run": f"#/run/{run}", "alarms": "#/alarms", "trust": "#/trust",
        "contracts": "#/contracts",
    }  # fmt: skip
    for look, (width, height, scheme) in LOOKS.items():
        page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        for name, path in views.items():
            if not every and look not in KEPT.get(name, ("",)):
                continue
            page.goto("about:blank")
            page.goto(f"{url}/{path}")
            page.wait_for_function(
                "() => document.querySelector('main').textContent.length > 200", timeout=120_000
            )
            if name == "fleet":
                page.get_by_text("Why:").wait_for(timeout=120_000)
            if name == "run":
                page.get_by_text("The recorded runs that are most like").wait_for(timeout=120_000)
            page.wait_for_timeout(1_000)
            page.screenshot(
                path=folder / f"page-{name}{look}.png", full_page=every or name == "run"
            )
        page.close()


def fitted(table: pl.DataFrame, path: Path) -> None:
    """Fit a monitor to runners, whose minutes can only grow; save it at ``path``."""
    learned = Episodes.from_frame(table.select("episode", "step", *FEATURES, "reward"))
    GoalMonitor(reward_bounds=(0.0, None)).fit(learned, progress=False).save(path)


@contextmanager
def serving(folder: Path, contracts: str, port: int) -> Iterator[str]:
    """A context in which a service with these contracts runs; gives its address.

    A contract is a monitor with a target and an alarm rule.
    """
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    (folder / "service.toml").write_text(contracts.format(port=receiver.server_port))
    command = [
        sys.executable, "-m", "ontarget", "serve", "--contracts", "service.toml",
        "--database", "boston.db", "--port", str(port),
    ]  # fmt: skip
    server = subprocess.Popen(command, cwd=folder)
    url = f"http://127.0.0.1:{port}"
    try:
        while server.poll() is None:
            try:
                httpx.get(f"{url}/readyz").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.5)
        else:
            raise SystemExit("the service did not start: it says why above")
        yield url
    finally:
        server.terminate()
        server.wait()
        receiver.shutdown()


def main(table: str, folder: Path | None = None) -> None:
    """Fit a monitor, start a service, replay runners to it, and draw the pictures."""
    work = Path(tempfile.mkdtemp())
    rows = pl.read_parquet(table).filter(pl.col("year") == 2014)
    ids = rows["episode"].unique().sort().sample(fraction=1.0, shuffle=True, seed=0).to_list()
    fitted(rows.filter(pl.col("episode").is_in(ids[:LEARNED])), work / "boston.ontarget")
    shown = ids[LEARNED : LEARNED + FINISHED + UNDER_WAY]
    runners = [rows.filter(pl.col("episode") == one) for one in shown]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with serving(work, CONTRACTS, port) as url, sync_playwright() as driver:
        with httpx.Client(base_url=url, timeout=120.0) as client:
            run = replay(client, runners)
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        draw(browser, url, run, folder or IMAGES, every=folder is not None)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:3]))
