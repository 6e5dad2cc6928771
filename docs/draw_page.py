"""The pictures of the live page: every view, on the runners of a marathon that are replayed to it.

    python docs/draw_page.py boston.parquet

The table has one row per runner and mat, with the minutes to the next mat as the reward (Boston
2014, from github.com/llimllib/bostonmarathon, MIT); the target is to finish within four hours.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
from playwright.sync_api import Page, sync_playwright

from ontarget import Episodes, GoalMonitor
from ontarget.service import run_id

LEARNED, FINISHED, UNDER_WAY = 1_500, 400, 60
FEATURES = ("age", "km", "elapsed_min", "last_pace_min_per_km")
IMAGES = Path(__file__).parent / "images"


def messages(runner: pl.DataFrame, steps: int) -> list[dict[str, Any]]:
    """What a runner's chip reports at the first mats; all of them end the run."""
    rows = runner.sort("step").to_dicts()
    agent, sent = f"bib {rows[0]['episode'].split('-')[1]}", []
    for k, row in enumerate(rows[:steps]):
        state = {name: row[name] for name in FEATURES}
        reward = rows[k - 1]["reward"] if k else 0.0
        sent.append({"agent": agent, "run": "2014", "step": k, "state": state, "reward": reward})
    if steps > len(rows):
        end = {"step": len(rows), "reward": rows[-1]["reward"], "end": True}
        sent.append({"agent": agent, "run": "2014", **end})
    return sent


def replay(client: httpx.Client, runners: list[pl.DataFrame]) -> str:
    """Let runners finish and others be under way; the one in most danger."""
    rng = np.random.default_rng(0)
    whole = [one for runner in runners[:FINISHED] for one in messages(runner, 99)]
    for first in range(0, len(whole), 1_000):
        client.post("/v1/steps", json=whole[first : first + 1_000]).raise_for_status()
    last: list[dict[str, Any]] = []
    for runner in runners[FINISHED : FINISHED + UNDER_WAY]:
        sent = messages(runner, int(rng.integers(2, 9)))
        last.append(client.post("/v1/steps", json=sent).raise_for_status().json()[-1])
    alarmed = [one for one in last if one["status"] == "ALARM"]
    for one in alarmed[1:3]:
        said = {"by": "Ada", "note": "sent a volunteer to the next mat"}
        client.post(f"/v1/alarms/{one['alarm']}/acknowledge", json=said).raise_for_status()
    return min(alarmed or last, key=lambda one: one["p"])["agent"]


def draw(page: Page, url: str, agent: str) -> None:
    """Write a picture of every view."""
    views = {
        "fleet": "", "run": f"#/run/{run_id(agent, '2014')}", "alarms": "#/alarms",
        "trust": "#/trust", "contracts": "#/contracts",
    }  # fmt: skip
    for name, path in views.items():
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
        page.screenshot(path=IMAGES / f"page-{name}.png", full_page=name == "run")


def main(table: str) -> None:
    """Fit, serve, replay and draw."""
    folder = Path(tempfile.mkdtemp())
    rows = pl.read_parquet(table).filter(pl.col("year") == 2014)
    ids = rows["episode"].unique().sort().sample(fraction=1.0, shuffle=True, seed=0).to_list()
    learned = rows.filter(pl.col("episode").is_in(ids[:LEARNED])).select(
        "episode", "step", *FEATURES, "reward"
    )
    GoalMonitor().fit(Episodes.from_frame(learned), progress=False).save(folder / "boston.ontarget")
    shown = ids[LEARNED : LEARNED + FINISHED + UNDER_WAY]
    runners = [rows.filter(pl.col("episode") == one) for one in shown]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable, "-m", "ontarget", "serve", "boston.ontarget", "--target", ":240",
        "--database", "boston.db", "--port", str(port),
    ]  # fmt: skip
    server = subprocess.Popen(command, cwd=folder)
    try:
        with httpx.Client(base_url=url, timeout=120.0) as client:
            while True:
                try:
                    client.get("/readyz")
                    break
                except httpx.TransportError:
                    time.sleep(0.5)
            agent = replay(client, runners)
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            draw(browser.new_page(viewport={"width": 1280, "height": 820}), url, agent)
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(sys.argv[1])
