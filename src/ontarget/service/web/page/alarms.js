// Alarms: open, acknowledged, over; who has seen them, and whether the messages arrived.

import { all, post } from "./api.js";
import { fill, h, table } from "./dom.js";
import { moment } from "./words.js";

const EVERY = 5_000; // milliseconds between two looks

export function alarms(live, mayAct) {
  const view = h("section", {}, h("h1", {}, "Alarms"), h("p", {}, "loading"));
  const name = h("input", { id: "by", type: "text", maxlength: "200", autocomplete: "name", value: remembered() });
  const trouble = h("p", { role: "alert", class: "trouble" });
  const lists = h("div");
  let known = -1;

  async function load() {
    try {
      // Those that are open, however old they are, and the newest of all.
      const [open, newest] = await Promise.all([all("/v1/alarms?open=true", 2000), all("/v1/alarms", 2000)]);
      const known = new Map([...newest, ...open].map((one) => [one.id, one]));
      paint([...known.values()].sort((a, b) => (a.raised_at < b.raised_at ? 1 : a.raised_at > b.raised_at ? -1 : 0)));
      trouble.textContent = "";
    } catch (error) { trouble.textContent = error.message; }
  }

  function paint(found) {
    if (lists.contains(document.activeElement)) return; // somebody is writing a note
    const waiting = found.filter((one) => !one.cleared_at && !one.acknowledged_at);
    const seen = found.filter((one) => !one.cleared_at && one.acknowledged_at);
    const over = found.filter((one) => one.cleared_at);
    fill(lists,
      record(found),
      h("h2", {}, `Open: ${waiting.length}`),
      waiting.length ? h("ul", { class: "cards" }, waiting.map((one) => card(one))) : h("p", {}, "No alarm waits for anybody."),
      h("h2", {}, `Acknowledged: ${seen.length}`),
      seen.length ? rows("Alarms that somebody has seen", seen) : h("p", {}, "None."),
      h("h2", {}, over.length > 200 ? "Over: the newest 200" : `Over: ${over.length}`),
      over.length ? rows("Alarms that are over, the newest first", over.slice(0, 200)) : h("p", {}, "None."));
  }

  function card(one) {
    const note = h("input", { id: `note-${one.id}`, type: "text", maxlength: "2000" });
    const form = h("form", { onsubmit: (event) => { event.preventDefault(); acknowledge(one, note.value); } },
      h("label", { for: note.id }, "Note ", note),
      h("button", { type: "submit" }, "Acknowledge"),
      h("button", { type: "button", onclick: () => silence(one) }, "Silence for an hour"));
    return h("li", { class: "alarm" },
      h("p", {}, h("strong", {}, h("a", { href: `#/run/${one.run_id}` }, `${one.agent} · ${one.run}`)), ` · ${one.reason}`),
      h("p", { class: "note" }, `Raised ${moment(one.raised_at)}. ${delivered(one)}`),
      mayAct ? form : h("p", { class: "note" }, "Your token may only read: somebody with the scope admin can acknowledge this."));
  }

  function rows(caption, some) {
    return table(caption, ["run", "raised", "why", "over since", "was it right?", "seen by", "note", "messages"],
      some.map((one) => [h("a", { href: `#/run/${one.run_id}` }, `${one.agent} · ${one.run}`), moment(one.raised_at), one.reason,
        moment(one.cleared_at), right(one), one.acknowledged_by ? `${one.acknowledged_by}, ${moment(one.acknowledged_at)}` : "nobody",
        one.note || "", delivered(one)]));
  }

  async function acknowledge(one, note) {
    if (!name.value.trim()) { trouble.textContent = "Write your name first, so that others know who has seen the alarm."; name.focus(); return; }
    remember(name.value.trim());
    await act(() => post(`/v1/alarms/${one.id}/acknowledge`, { by: name.value.trim(), note }));
  }

  async function silence(one) {
    await act(() => post(`/v1/alarms/${one.id}/silence`, { minutes: 60 }));
  }

  async function act(work) {
    try {
      await work();
      document.activeElement?.blur();
      await load();
    } catch (error) {
      trouble.textContent = error.status === 403 ? "Your token may only read." : error.message;
    }
  }

  fill(view, h("h1", {}, "Alarms"),
    mayAct ? h("p", { class: "controls" }, h("label", { for: "by" }, "Your name ", name)) : null, trouble, lists);
  const stop = live.watch(() => {
    if (live.openAlarms.size !== known) { known = live.openAlarms.size; load(); }
  });
  const timer = setInterval(load, EVERY);
  load();
  return { view, title: "Alarms", close: () => { stop(); clearInterval(timer); } };
}

/** Whether an alarm was right, by what became of its run. */
function right(one) {
  if (one.kind === "silent") return "–";
  return { "met": "no: the run met its target", "missed": "yes: the run missed its target",
    "under way": "not known yet: the run goes on", "unknown": "cannot be told: the run was cut off, or somebody stepped in" }[one.outcome] ?? "–";
}

/** The last alarm that can be judged, and all of them. */
function record(found) {
  const judged = found.filter((one) => one.kind !== "silent" && (one.outcome === "met" || one.outcome === "missed"));
  if (!judged.length) return h("p", { class: "note" }, "No run with an alarm has ended yet, so none can be called right or false.");
  const last = judged[0], wrong = judged.filter((one) => one.outcome === "met").length;
  return h("p", { class: "lead" }, `The last alarm whose run has ended was ${last.outcome === "met" ? "false" : "right"}: `,
    h("a", { href: `#/run/${last.run_id}` }, `${last.agent} · ${last.run}`),
    ` ${last.outcome === "met" ? "met its target after all" : "missed its target"}. Of the ${judged.length === 1 ? "1 alarm" : `last ${judged.length.toLocaleString("en-US")} alarms`} that can be judged, ${wrong.toLocaleString("en-US")} ${wrong === 1 ? "was" : "were"} false.`);
}

function delivered(alarm) {
  const all = alarm.sent + alarm.waiting + alarm.dead;
  if (!all) return "No message was sent: there is no hook, or its agent is silenced.";
  return [`${alarm.sent} of ${all} ${all === 1 ? "message" : "messages"} sent`, alarm.waiting ? `${alarm.waiting} waiting` : "",
    alarm.dead ? `${alarm.dead} given up (${alarm.error})` : ""].filter(Boolean).join(", ") + ".";
}

function remembered() {
  try { return localStorage.getItem("ontarget.name") ?? ""; } catch { return ""; }
}

function remember(name) {
  try { localStorage.setItem("ontarget.name", name); } catch { /* private windows have no memory */ }
}
