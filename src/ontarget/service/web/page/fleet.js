// Every run that is under way, the most endangered first. Only the rows in sight are in the page.

import { get } from "./api.js";
import { spark } from "./chart.js";
import { fill, h, mark, s, say } from "./dom.js";
import { STATUS, ago, amount, apart, because, explained, goal, isDecided, percent, range, sinceStep } from "./words.js";

const ROW = 44; // pixels: style.css says the same
const AROUND = 6; // rows above and below those in sight
const EXPLAIN = 5_000; // milliseconds between two explanations of the worst run

export function fleet(live, contracts) {
  const rows = new Map(); // a row's place in the page, by its place on the screen
  const search = h("input", { type: "search", id: "search", placeholder: "agent or run", autocomplete: "off" });
  const status = h("select", { id: "status" },
    h("option", { value: "" }, "all"),
    h("option", { value: "ALARM" }, "in alarm, not lost yet"),
    h("option", { value: "LOST" }, "already lost"),
    h("option", { value: "UNKNOWN" }, "unknown"),
    h("option", { value: "OK" }, "no alarm"),
    h("option", { value: "WON" }, "already met"),
    h("option", { value: "DONE" }, "ended"));
  const summary = h("p", { class: "summary", role: "status" });
  const head = h("div", { role: "row", class: "head" },
    ["run", ["p", h("span", { class: "wide" }, " of meeting the target")], "likely range", "lately", "status", "step", "so far", "last heard"]
      .map((name) => h("span", { role: "columnheader" }, name)));
  const body = h("div", { class: "rows", role: "rowgroup" });
  const list = h("div", { class: "fleet", role: "table", "aria-label": "Runs under way, the most endangered first", tabindex: "0" },
    h("div", { role: "rowgroup" }, head), body);
  const worst = h("p", { class: "lead", hidden: true });
  const worstLink = h("a");
  const worstSays = h("span");
  worst.append("Worst now: ", worstLink, worstSays);
  const targets = h("p", { class: "note" });
  const lost = h("p", { class: "lead lost", hidden: true });
  let lostShown = "";
  const empty = h("p", { class: "empty", hidden: true });
  let order = [];
  let told = { of: "", words: "", at: 0 }; // why the worst run is the worst
  let held = false; // while somebody points at a row, rows keep their places

  body.addEventListener("pointerenter", () => { held = true; });
  body.addEventListener("pointerleave", () => { held = false; sort(); paint(); });
  for (const field of [search, status]) field.addEventListener("input", () => { sort(); paint(); });
  list.addEventListener("scroll", () => paint());

  function wanted(run) {
    const text = search.value.trim().toLowerCase();
    if (status.value && run.stands !== STATUS[status.value]) return false;
    return !text || run.agent.toLowerCase().includes(text) || run.run.toLowerCase().includes(text);
  }

  function sort() {
    order = [...live.runs.values()].filter(wanted);
    order.sort(byDanger);
  }

  function row() {
    const link = h("a");
    const contract = h("span", { class: "quiet" });
    const chance = h("span", { class: "value" });
    const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("i"));
    const line = s("path", { class: "line p" });
    const word = h("span");
    const seen = h("span", { class: "seen" });
    const cells = {
      run: h("span", { role: "rowheader", class: "name" }, link, " ", contract),
      p: h("span", { role: "cell", class: "p" }, chance, bar),
      spread: h("span", { role: "cell" }),
      spark: h("span", { role: "cell", "aria-hidden": "true" },
        s("svg", { viewBox: "0 0 96 24", class: "spark" }, s("line", { x1: 0, x2: 96, y1: 12, y2: 12 }), line)),
      status: h("span", { role: "cell", class: "status" }, word, " ", seen),
      step: h("span", { role: "cell" }),
      soFar: h("span", { role: "cell" }),
      heard: h("span", { role: "cell", class: "quiet" }),
    };
    const element = h("div", { role: "row", class: "run" }, Object.values(cells));
    return { element, link, contract, chance, bar: bar.firstChild, line, word, seen, ...cells };
  }

  /** The past of a run that was under way before this page was opened, once it is in sight. */
  async function recall(run) {
    if (run.recalled || run.trail.length > 1 || run.step === 0) return;
    run.recalled = true;
    try {
      const found = await get(`/v1/runs/${run.id}?from=${Math.max(0, run.step - 40)}`);
      const known = found.answers.filter((one) => one.step < run.step).map((one) => one.p);
      run.trail = [...known.slice(-40), ...run.trail];
      paint();
    } catch { /* the line begins where the page was opened */ }
  }

  /**
   * Why the worst run's p is what it is: what moved it when the alarm was raised, or in its last step.
   * Asked for when another run is the worst, and now and then.
   */
  function explain(run) {
    const since = sinceStep(run.alarm);
    const step = since ? `?step=${since}` : "";
    const of = `/v1/runs/${run.id}/why${step}`;
    const now = Date.now();
    if (now - told.at >= (told.of === of ? EXPLAIN : EXPLAIN / 2) && !(told.of === of && step && told.words)) ask(of, now);
    return told.of === of ? told.words : "";
  }

  async function ask(of, now) {
    told = { of, words: told.of === of ? told.words : "", at: now };
    try {
      const words = explained(await get(of));
      if (told.of !== of) return;
      told.words = words;
      paint();
    } catch { /* a run that cannot be explained: its reason stands alone */ }
  }

  function write(shown, run, place) {
    recall(run);
    const found = run.stands;
    const horizon = contracts.horizon(run.contract);
    mark(shown.link, "href", `#/run/${run.id}`);
    say(shown.link, `${run.agent} · ${run.run}`);
    mark(shown.link, "title", `${run.agent} · ${run.run}`);
    say(shown.contract, contracts.label(run.contract));
    say(shown.chance, percent(run.p));
    shown.bar.style.width = `${100 * (run.p ?? 0)}%`;
    say(shown.spread, range(run.spread));
    const drawn = spark(run.trail);
    if (shown.drawn !== drawn) { shown.line.setAttribute("d", drawn); shown.drawn = drawn; }
    const seen = live.seen.get(run.alarm);
    say(shown.word, `${found.mark} ${found.word}`);
    say(shown.seen, seen ? `seen by ${seen}` : "");
    mark(shown.status, "title", `${run.reason}${seen ? ` · seen by ${seen}` : ""}`);
    say(shown.step, horizon ? `${run.step} of ${horizon}` : String(run.step));
    say(shown.soFar, amount(run.soFar, contracts.spec(run.contract)));
    say(shown.heard, ago(Date.now() - run.heard).replace(" ago", ""));
    mark(shown.element, "class", `run ${found.kind}`);
    mark(shown.element, "aria-rowindex", String(place + 2));
    shown.element.style.transform = `translateY(${place * ROW}px)`;
  }

  function paint() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - AROUND);
    const last = Math.min(order.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + AROUND);
    body.style.height = `${order.length * ROW}px`;
    mark(list, "aria-rowcount", String(order.length + 1));
    const places = new Set();
    for (let place = first; place < last; place += 1) {
      const slot = place % (last - first || 1);
      places.add(slot);
      let shown = rows.get(slot);
      if (!shown) { shown = row(); rows.set(slot, shown); body.append(shown.element); }
      write(shown, order[place], place);
    }
    for (const [slot, shown] of rows) {
      if (!places.has(slot)) { shown.element.remove(); rows.delete(slot); }
    }
    const under = [...live.runs.values()].filter((run) => !run.ended);
    const count = (found) => under.filter(found).length.toLocaleString("en-US");
    const gone = under.filter((run) => run.stands === STATUS.LOST);
    const counted = (status, stands) => {
      const decided = count((run) => run.status === status && run.stands === stands);
      return `${count((run) => run.status === status)} ${status === "ALARM" ? "in alarm" : "without an alarm"}${decided === "0" ? "" : ` (${decided} of them ${stands.word})`}`;
    };
    say(summary, `${under.length.toLocaleString("en-US")} ${under.length === 1 ? "run" : "runs"} under way: `
      + `${counted("ALARM", STATUS.LOST)}, ${count((run) => run.status === "UNKNOWN")} unknown, ${counted("OK", STATUS.WON)}.`
      + (live.full ? " There are more runs; only those that reported last are shown." : ""));
    say(targets, aims());
    showWorst(worstOf(under));
    showLost(gone);
    empty.hidden = order.length > 0;
    list.hidden = order.length === 0;
    say(empty, live.runs.size ? "No run fits the filter." : "No run is under way. The page fills as soon as an agent reports a step.");
  }

  /** What runs should end in, by contract. */
  function aims() {
    const all = contracts.all();
    const said = all.slice(0, 3).map((one) => `${goal(one.spec.target, one.spec)}${all.length > 1 ? ` (${one.spec.name})` : ""}`);
    return said.length ? `The target: ${said.join(", ")}${all.length > 3 ? ", others under Contracts" : ""}.` : "";
  }

  function showWorst(run) {
    worst.hidden = !run;
    if (!run) return;
    mark(worstLink, "href", `#/run/${run.id}`);
    say(worstLink, `${run.agent} · ${run.run}`);
    const [chanceNow, limit] = run.threshold ? apart(run.p, run.threshold) : [percent(run.p), ""];
    const below = limit ? ` (alarm below ${limit})` : "";
    const since = sinceStep(run.alarm);
    const words = explain(run);
    const why = words ? ` Why: ${words}` : "";
    const chance = isDecided(run.stands) ? "" : `, p is ${chanceNow} at step ${run.step}${below}`;
    say(worstSays, `: ${run.stands.word}${since === null ? "" : `${isDecided(run.stands) ? ", in alarm" : ""} since step ${since}`}${chance}${because(run)}.${why}`);
    mark(worst, "class", `lead ${run.stands.kind}`);
  }

  /** The runs that nothing can save any more, so that they are not taken for runs in danger. */
  function showLost(gone) {
    const first = gone.sort(byName).slice(0, 5);
    const key = `${gone.length} ${first.map((run) => run.id).join(" ")}`;
    lost.hidden = gone.length === 0;
    if (key === lostShown) return;
    lostShown = key;
    const links = first.flatMap((run, k) => [k ? ", " : "", h("a", { href: `#/run/${run.id}` }, `${run.agent} · ${run.run}`)]);
    const more = gone.length - first.length;
    fill(lost, `Already lost: `, links, more ? ` and ${more.toLocaleString("en-US")} more` : "",
      ". Whatever happens next, their outcome is outside the target.");
  }

  const controls = h("div", { class: "controls" },
    h("label", { for: "search" }, "Search ", search), h("label", { for: "status" }, "Status ", status));
  const sorted = h("p", { class: "note" }, "First the runs in alarm that can still be saved, the lowest p on top; then those already lost, unknown, without an alarm, already met, and ended.");
  const view = h("section", {}, h("h1", {}, "Fleet"), summary, targets, worst, lost, controls, sorted, empty, list);
  const stop = live.watch(() => { if (!held) sort(); paint(); });
  sort();
  requestAnimationFrame(paint);
  const resized = new ResizeObserver(() => paint());
  resized.observe(list);
  return { view, title: "Fleet", close: () => { stop(); resized.disconnect(); } };
}

function byDanger(a, b) {
  return a.stands.rank - b.stands.rank || (a.p ?? 2) - (b.p ?? 2) || byName(a, b);
}

function byName(a, b) {
  return compare(a.agent, b.agent) || compare(a.run, b.run);
}

function compare(a, b) { // a thousand runs are sorted four times a second: no localeCompare
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The run in most danger, of those that can still be saved; if there is none, one that is lost. */
function worstOf(under) {
  let found = null;
  for (const run of under) {
    if (run.p === null || run.stands === STATUS.WON) continue;
    if (!found || worseThan(run, found)) found = run;
  }
  return found;
}

function worseThan(a, b) {
  const lost = (run) => (run.stands === STATUS.LOST ? 1 : 0);
  return (lost(a) - lost(b) || byDanger(a, b)) < 0;
}
