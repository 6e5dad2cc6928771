// The page: which view is shown, and whether what it shows is fresh.

import { alarms } from "./alarms.js";
import { get, whenSignedOut } from "./api.js";
import { Contracts, contractsView } from "./contracts.js";
import { fill, h, mark, say } from "./dom.js";
import { fleet } from "./fleet.js";
import { Healths } from "./health.js";
import { Live } from "./live.js";
import { run } from "./run.js";
import { signIn } from "./signin.js";
import { trust } from "./trust.js";
import { ago } from "./words.js";

const HEALTH = 60_000; // milliseconds between two looks at whether the contracts can be trusted

const live = new Live();
const contracts = new Contracts();
const healths = new Healths(contracts);
const content = document.getElementById("content");
const connection = document.getElementById("connection");
const count = document.getElementById("open-alarms");
const drifting = document.getElementById("drifting");
const warning = h("span");
const drift = h("p", { class: "drift", hidden: true }, warning, ". ", h("a", { href: "#/trust" }, "See Trust"));
let shown = null;
let signedOut = false;
let mayAct = false; // acknowledge and silence

function view() {
  const at = location.hash.slice(1) || "/";
  const found = /^\/run\/([0-9a-f]+)$/.exec(at);
  if (signedOut) return signIn(begin);
  if (found) return run(live, contracts, found[1]);
  if (at === "/alarms") return alarms(live, contracts, healths, mayAct);
  if (at === "/trust") return trust(contracts, healths, mayAct);
  if (at === "/contracts") return contractsView(live, contracts);
  return fleet(live, contracts);
}

function show() {
  shown?.close();
  shown = view();
  fill(content, drift, shown.view);
  head();
  document.title = `${shown.title} – ontarget`;
  const at = location.hash || "#/";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === at) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function head() {
  const n = live.waiting;
  count.hidden = n === 0;
  say(count, String(n));
  const off = signedOut ? "" : healths.warning();
  drifting.hidden = signedOut || !healths.drifts;
  drift.hidden = !off || !["Fleet", "Alarms"].includes(shown?.title);
  say(warning, `▲ ${off}`);
  mark(connection, "class", live.state);
  say(connection, live.state === "live" ? "● live" : live.state === "lost"
    ? `▲ no connection since ${ago(Date.now() - live.since).replace(" ago", "")}: what you see is old` : "connecting");
}

async function begin() {
  signedOut = false;
  try {
    mayAct = (await get("/session")).scopes.includes("admin");
    await contracts.load();
  } catch { /* shown where it is needed */ }
  if (signedOut) return;
  show();
  look();
  await live.start();
}

/** Whether the contracts can be trusted; a service that has just begun may take a while to say. */
async function look() {
  if (signedOut) return;
  try { await healths.load(); } catch { /* at the next look */ }
  head();
  shown?.refresh?.();
}

whenSignedOut(() => {
  if (signedOut) return;
  signedOut = true;
  live.stop();
  show();
});
addEventListener("hashchange", () => { show(); content.focus({ preventScroll: true }); });
live.watch(head);
setInterval(head, 1000);
setInterval(look, HEALTH);
begin();
