"""How much processor time and memory the live page needs, by the browser's own counters.

    python bench/page_load.py [minutes] [runs]

The given number of runs each report once a second to a service. When a run ends, another one
begins. Chromium shows all of them on the live page. Every half minute the page's process is asked
for its counters: the share of a core that it used (processor time, which a busy machine does not
change), the JavaScript heap after garbage collection, nodes and listeners. Needs Debian's Chromium
and Playwright.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from playwright.async_api import async_playwright

from service_load import Connection, free_port, ready
from service_runs import HORIZON, TARGET, message, write_model
from yardstick.figures import keep

EVERY = 30.0  # seconds between two readings


async def report(port: int, runs: int, until: float, sent: list[int]) -> None:
    """Let every agent send one step a second, spread over the second in ten batches.

    A run ends after its last step, and its agent begins another.
    """
    connection = Connection(port)
    await connection.open()
    groups = [range(i, runs, 10) for i in range(10)]
    tick, began = 0, time.monotonic()
    while time.monotonic() < until:
        run, step = divmod(tick // 10, HORIZON + 1)
        some = [message(f"agent-{i}", step, str(run)) for i in groups[tick % 10]]
        if step == HORIZON:
            some = [{**one, "state": None, "end": True} for one in some]
        await connection.post(msgspec.json.encode(some))
        sent[0] += len(some)
        tick += 1
        await asyncio.sleep(max(0.0, began + tick / 10 - time.monotonic()))


async def counters(session) -> dict[str, float]:
    await session.send("HeapProfiler.collectGarbage")
    found = await session.send("Performance.getMetrics")
    return {one["name"]: one["value"] for one in found["metrics"]}


async def main(minutes: float, runs: int) -> None:
    folder = Path(tempfile.mkdtemp())
    write_model(folder)
    port = free_port()
    command = [
        sys.executable, "-m", "ontarget", "serve", "walk.ontarget", "--target", TARGET,
        "--database", "page.db", "--port", str(port),
    ]  # fmt: skip
    serve = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        await ready(port)
        until = time.monotonic() + 60.0 * minutes
        sent = [0]
        reporting = asyncio.create_task(report(port, runs, until, sent))
        async with async_playwright() as driver:
            browser = await driver.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = await browser.new_page(viewport={"width": 1280, "height": 800})
            session = await page.context.new_cdp_session(page)
            await session.send("Performance.enable")
            await page.goto(f"http://127.0.0.1:{port}/")
            await page.locator(".rows .run").first.wait_for()
            last, before = await counters(session), sent[0]
            print(f"{runs:,} runs, one step a second each; load {os.getloadavg()[0]:.1f}")
            print("  minute  steps/s  core  heap MB  nodes  listeners  shown")
            while time.monotonic() + EVERY < until:
                await asyncio.sleep(EVERY)
                now = await counters(session)
                seconds = now["Timestamp"] - last["Timestamp"]
                core = (now["ProcessTime"] - last["ProcessTime"]) / seconds
                minute = minutes - (until - time.monotonic()) / 60.0
                shown = (await page.locator(".summary").inner_text()).split(":")[0]
                print(
                    f"  {minute:6.1f}  {(sent[0] - before) / seconds:7,.0f}  {core:4.0%}  "
                    f"{now['JSHeapUsedSize'] / 1e6:7.1f}  {now['Nodes']:5.0f}  "
                    f"{now['JSEventListeners']:9.0f}  {shown}",
                    flush=True,
                )
                last, before = now, sent[0]
            keep(f"live page of {runs:,} runs, processor", 100 * core, "% of a core")
            keep(f"live page of {runs:,} runs, JavaScript heap", last["JSHeapUsedSize"] / 1e6, "MB")
            await browser.close()
        await reporting
    finally:
        serve.terminate()
        serve.wait()


if __name__ == "__main__":
    if shutil.which("chromium") is None:
        sys.exit(print("there is no Chromium; apt-get install chromium"))
    given = sys.argv[1:]
    asyncio.run(main(float(given[0]) if given else 1.0, int(given[1]) if len(given) > 1 else 1_000))
