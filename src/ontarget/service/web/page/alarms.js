// Alarms: open, acknowledged, over; who has seen them, and whether the messages arrived.

import { all, post, some } from "./api.js";
import { fill, h, table } from "./dom.js";
import { STATUS, isDecided, moment, percent, reasonOf } from "./words.js";

const EVERY = 5_000; // milliseconds between two looks
const OPEN = 20_000; // open alarms that are read; no more runs are on the page either
const CARDS = 100; // open alarms that are shown before somebody asks for more
const PAGE = 50; // alarms that are over, shown before somebody asks for more
const MOST = 1_000; // alarms of one answer

export function alarms(live, contracts, healths, mayAct) {
  const view = h("section", {}, h("h1", {}, "Alarms"), h("p", {}, "loading"));
  const name = h("input", { id: "by", type: "text", maxlength: "200", autocomplete: "name", value: remembered() });
  const trouble = h("p", { role: "alert", class: "trouble" });
  const lists = h("div");
  let known = -1;
  let cards = CARDS;
  let shown = PAGE;
  let reach = PAGE; // how many of all alarms are read, at least
  let found = { items: [], more: false };
  let lost = false; // whether the trouble shown is that alarms could not be read
  const drafts = new Map(); // the notes being written, by alarm

  async function load() {
    try {
      // Those that are open, however old they are, and the newest of all.
      const [open, newest] = await Promise.all([all("/v1/alarms?open=true", OPEN), some("/v1/alarms", reach)]);
      const once = new Map([...newest.items, ...open].map((one) => [one.id, one]));
      const items = [...once.values()].sort((a, b) => (a.raised_at < b.raised_at ? 1 : a.raised_at > b.raised_at ? -1 : 0));
      found = { items, more: newest.more };
      live.takeAlarms(open);
      paint();
      if (lost) trouble.textContent = "";
      lost = false;
    } catch (error) { lost = true; trouble.textContent = error.message; }
  }

  async function showOlder(over) {
    shown *= 2;
    if (over < shown) reach = shown + MOST;
    document.activeElement?.blur();
    await load();
  }

  function paint() {
    if (lists.contains(document.activeElement)) return; // somebody is writing a note
    const { items, more } = found;
    const waiting = items.filter((one) => !one.cleared_at && !one.acknowledged_at);
    const seen = items.filter((one) => !one.cleared_at && one.acknowledged_at);
    const over = items.filter((one) => one.cleared_at);
    fill(lists,
      record(items, healths.kept()),
      h("h2", {}, `Open: ${waiting.length.toLocaleString("en-US")}`),
      waiting.length ? h("ul", { class: "cards" }, waiting.slice(0, cards).map((one) => card(one))) : h("p", {}, "No alarm is waiting to be acknowledged."),
      waiting.length > cards ? h("p", {}, `The newest ${cards} are shown. `, button("Show all", () => { cards = Infinity; document.activeElement?.blur(); paint(); })) : null,
      h("h2", {}, `Acknowledged: ${seen.length.toLocaleString("en-US")}`),
      seen.length ? rows("Alarms that somebody has seen, the newest first", seen) : h("p", {}, "None."),
      h("h2", {}, over.length > shown || more ? `Over: the newest ${Math.min(shown, over.length).toLocaleString("en-US")}` : `Over: ${over.length.toLocaleString("en-US")}`),
      over.length ? rows("Alarms that are over, the newest first", over.slice(0, shown)) : h("p", {}, "None."),
      over.length > shown || more ? h("p", {}, button("Show older ones", () => showOlder(over.length))) : null);
  }

  function button(text, act) {
    return h("button", { type: "button", onclick: act }, text);
  }

  function card(one) {
    const note = h("input", { id: `note-${one.id}`, type: "text", maxlength: "2000",
      oninput: (event) => drafts.set(one.id, event.target.value) });
    note.value = drafts.get(one.id) || "";
    const form = h("form", { onsubmit: (event) => { event.preventDefault(); acknowledge(one, note.value); } },
      h("label", { for: note.id }, "Note ", note),
      h("button", { type: "submit" }, "Acknowledge"),
      h("button", { type: "button", onclick: () => silence(one) }, "Silence for an hour"));
    return h("li", { class: "alarm" },
      h("p", {}, h("strong", {}, linked(one)), contractOf(one), ` · ${now(one)}`),
      h("p", { class: "note" }, `Raised ${moment(one.raised_at)}: ${reasonOf(one)}. ${delivered(one)}`),
      mayAct ? form : h("p", { class: "note" }, "Your token may only read: somebody with the scope admin can acknowledge this."));
  }

  /** The contract of an alarm's run, where there are several. */
  function contractOf(one) {
    const name = contracts.label(one.contract);
    return name ? h("span", { class: "quiet" }, ` ${name}`) : null;
  }

  /** How the run of an open alarm stands now. */
  function now(one) {
    const run = live.runs.get(one.run_id);
    if (one.kind === "silent") return "its agent has stopped reporting";
    if (!run) return "under way";
    if (run.stands === STATUS.LOST) return `already lost: whatever happens next, it ends outside the target (step ${run.step})`;
    return isDecided(run.stands) ? `${run.stands.word} (step ${run.step})` : `p is now ${percent(run.p)} (step ${run.step})`;
  }

  function rows(caption, some) {
    return table(caption, ["run", "raised", "why", "over since", "was it right?", "seen by", "note", "messages"],
      some.map((one) => [h("span", {}, linked(one), contractOf(one)), time(one.raised_at), reasonOf(one),
        time(one.cleared_at), right(one), one.acknowledged_by ? `${one.acknowledged_by}, ${moment(one.acknowledged_at)}` : "nobody",
        one.note || "", delivered(one)]));
  }

  async function acknowledge(one, note) {
    if (!name.value.trim()) { trouble.textContent = "Write your name first, so that others know who has seen the alarm."; name.focus(); return; }
    remember(name.value.trim());
    await act(() => post(`/v1/alarms/${one.id}/acknowledge`, { by: name.value.trim(), note }));
    drafts.delete(one.id);
  }

  async function silence(one) {
    await act(() => post(`/v1/alarms/${one.id}/silence`, { minutes: 60 }));
  }

  async function act(work) {
    try {
      await work();
      trouble.textContent = "";
      document.activeElement?.blur();
      await load();
    } catch (error) {
      trouble.textContent = error.status === 403 ? "Your token may only read." : error.message;
    }
  }

  fill(view, h("h1", {}, "Alarms"),
    mayAct ? h("p", { class: "controls" }, h("label", { for: "by" }, "Your name ", name)) : null, trouble, lists);
  const stop = live.watch(() => {
    if (live.waiting !== known) { known = live.waiting; load(); }
  });
  const timer = setInterval(load, EVERY);
  load();
  return { view, title: "Alarms", refresh: paint, close: () => { stop(); clearInterval(timer); } };
}

/** Whether an alarm was right, by what became of its run. */
function right(one) {
  if (one.kind === "silent") return "–";
  return { "met": "no: the run met its target", "missed": "yes: the run missed its target",
    "under way": "not known yet: the run goes on", "unknown": "cannot be told: the run was cut off, or somebody stepped in" }[one.outcome] ?? "–";
}

function linked(one) {
  return h("a", { href: `#/run/${one.run_id}` }, `${one.agent} · ${one.run}`);
}

/** Whether the last alarm that can be judged was right, how many were, and what is promised. */
function record(found, kept) {
  const judged = found.filter((one) => one.kind !== "silent" && (one.outcome === "met" || one.outcome === "missed"));
  if (!judged.length) return h("p", { class: "note" }, "No run with an alarm has ended yet, so none can be called right or false.");
  const last = judged[0], wrong = judged.filter((one) => one.outcome === "met").length;
  return h("p", { class: "lead" }, `The last alarm whose run has ended was ${last.outcome === "met" ? "false" : "right"}: `,
    linked(last),
    ` ${last.outcome === "met" ? "met its target after all" : "missed its target"}. Of the ${judged.length === 1 ? "1 alarm" : `last ${judged.length.toLocaleString("en-US")} alarms`} that can be judged, ${wrong.toLocaleString("en-US")} ${wrong === 1 ? "was" : "were"} false (${percent(wrong / judged.length)} of alarms).`,
    kept.length ? ` Runs that met the target and still had an alarm: ${kept.slice(0, 5).join("; ")}${kept.length > 5 ? "; others under Trust" : ""}.` : "");
}

function time(text) {
  return h("time", {}, moment(text));
}

/** What became of the messages about an alarm. */
function delivered(alarm) {
  const all = alarm.sent + alarm.waiting + alarm.dead;
  const silenced = alarm.silenced_until && new Date(alarm.silenced_until) > new Date()
    ? `${alarm.agent} is silenced until ${moment(alarm.silenced_until)}: no message is sent about it. ` : "";
  if (!all) return silenced || "No message was sent: the service was given no address to send alarms to, or the agent was silenced.";
  const to = alarm.to.join(" and ");
  if (alarm.sent === all) {
    const told = [alarm.told_at ? `Alarm delivered to ${to} ${moment(alarm.told_at)}` : "",
      alarm.told_over_at ? `${alarm.told_at ? "its end" : `End of the alarm delivered to ${to}`} ${moment(alarm.told_over_at)}` : ""];
    return `${silenced}${told.filter(Boolean).join(", ")}.`;
  }
  if (alarm.waiting === all) return `${silenced}Still to be sent to ${to}.`;
  const counts = [`${alarm.sent} of ${all} ${all === 1 ? "message" : "messages"} sent to ${to}`, alarm.waiting ? `${alarm.waiting} still to be sent` : "", alarm.dead ? `${alarm.dead} given up (${alarm.error})` : ""];
  return `${silenced}${counts.filter(Boolean).join(", ")}.`;
}

function remembered() {
  try { return localStorage.getItem("ontarget.name") ?? ""; } catch { return ""; }
}

function remember(name) {
  try { localStorage.setItem("ontarget.name", name); } catch { /* private windows have no memory */ }
}
