// One run: p and its spread, the score so far, alarms, and everything as a table.

import { get } from "./api.js";
import { overSteps } from "./chart.js";
import { fill, h, table } from "./dom.js";
import { STATUS, amount, because, ends, explained, goal, intervals, isDecided, moment, number, percent, points, range, reasonOf, rule, silence, sinceStep, statusOf, unitOf } from "./words.js";

const PAINT = 250; // milliseconds between two paintings
const EXPLAIN = 2_000; // and between two explanations, which cost the service more

export function run(live, contracts, id) {
  const view = h("section", {}, h("h1", {}, "Run"), h("p", {}, "loading"));
  const answers = new Map(); // by step
  const states = new Map(); // what was reported, by step
  let about = null;
  let alarms = [];
  let why = null;
  let fall = null; // what moved p where it fell most
  let planned = 0;
  let asked = 0;

  async function load() {
    try {
      let from = 0;
      while (from !== null && from !== undefined) {
        const found = await get(`/v1/runs/${id}?from=${from}`);
        about = found.run;
        found.answers.forEach((one, k) => { answers.set(one.step, one); states.set(one.step, found.states[k]); });
        from = found.next;
      }
      alarms = (await get(`/v1/alarms?run=${id}`)).items;
      paint();
      await explain();
    } catch (error) {
      fill(view, h("h1", {}, "Run"), h("p", { role: "alert" }, error.message));
    }
  }

  async function explain() {
    try {
      why = await get(`/v1/runs/${id}/why`);
    } catch { why = null; }
    await explainFall();
    await reread();
    paint();
  }

  /** What moved p at the step where it fell most, unless that is the last one. */
  async function explainFall() {
    const known = [...answers.values()].filter((one) => one.p !== null && !one.end).sort((a, b) => a.step - b.step);
    const falls = known.slice(1).map((one, k) => ({ step: one.step, by: known[k].p - one.p, next: known[k].step + 1 === one.step }));
    const worst = falls.filter((one) => one.next && one.by >= 0.05).sort((a, b) => b.by - a.by)[0];
    if (!worst || worst.step === why?.t) { fall = null; return; }
    if (fall?.t === worst.step) return;
    try { fall = await get(`/v1/runs/${id}/why?step=${worst.step}`); } catch { fall = null; }
  }

  /** The states of the steps that have come since; events have answers alone. */
  async function reread() {
    const missing = [...answers.keys()].filter((step) => !states.has(step));
    if (!missing.length) return;
    try {
      const found = await get(`/v1/runs/${id}?from=${Math.min(...missing)}`);
      found.answers.forEach((one, k) => states.set(one.step, found.states[k]));
    } catch { /* at the next look */ }
  }

  /** A state as text: names and values, or values alone. */
  function reported(state) {
    if (!state) return "–";
    const names = contracts.of(about.last.contract)?.features ?? [];
    const pairs = Array.isArray(state) ? state.map((one, k) => [names[k] ?? String(k), one]) : Object.entries(state);
    return pairs.map(([name, one]) => `${name} ${value(one)}`).join(", ");
  }

  function plan(answer) {
    answers.set(answer.step, answer);
    if (about) about.last = answer;
    asked ||= setTimeout(() => { asked = 0; explain(); }, EXPLAIN);
    if (planned) return;
    planned = setTimeout(() => { planned = 0; paint(); }, PAINT);
  }

  function paint() {
    if (!about) return;
    const last = about.last;
    const found = statusOf(last);
    const spec = contracts.spec(last.contract);
    const horizon = contracts.horizon(last.contract) ?? Math.max(...answers.keys(), 1);
    const steps = [...answers.values()].sort((a, b) => a.step - b.step);
    const p = steps.map((one) => [one.step, one.p]);
    const spread = steps.map((one) => [one.step, one.spread]);
    const soFar = steps.map((one) => [one.step, one.so_far]);
    const raised = steps.filter((one, k) => one.alarm && (k === 0 || steps[k - 1].alarm !== one.alarm));
    const cleared = steps.filter((one, k) => k > 0 && steps[k - 1].alarm && !one.alarm);
    const threshold = last.threshold;
    const bounds = ends(about.target);
    const ahead = why?.path && !about.ended_at ? why.path : null;
    const foretold = ahead ? ahead.steps.map((step, k) => [step, ahead.lower[k], ahead.upper[k]]) : [];
    const values = [...soFar.map(([, v]) => v), ...bounds, ...foretold.flatMap((one) => one.slice(1))].filter((v) => v !== null && v !== undefined);
    const low = Math.min(...values, 0), high = Math.max(...values, 1e-9);
    fill(view,
      h("h1", {}, `${about.agent} · ${about.run}`),
      h("p", { class: `lead ${found.kind}` }, h("strong", {}, `${found.mark} ${found.word}${since(steps, found)}`), outlook(found, horizon), because(last)),
      h("p", { class: "note" }, `The target: ${goal(about.target, spec)}. ${spec ? `${capital(rule(spec))}.` : ""} Began ${moment(about.started_at)}.`),
      unanswered(steps),
      fall ? h("p", {}, `The largest fall of p: ${explained(fall)}`) : null,
      why ? h("p", {}, `${fall ? "The last step" : "Why"}: ${explained(why)}`) : null,
      h("figure", {},
        overSteps({
          title: `p over the steps: now ${percent(last.p)}`, horizon, low: 0, high: 1, shares: true,
          bands: [{ points: spread }], lines: [{ points: p, kind: "p" }],
          levels: threshold === null || threshold === undefined ? [] : [{ value: threshold, label: `alarm below ${percent(threshold)}`, kind: "threshold" }],
          marks: [...raised.map((one) => ({ step: one.step, label: "alarm" })), ...cleared.map((one) => ({ step: one.step, label: "cleared" }))],
        }),
        h("figcaption", {}, "The probability that the run ends in its target, with its spread.")),
      last.parts ? behaviors(last.parts, spec) : h("figure", {},
        overSteps({
          title: `the score so far: ${amount(last.so_far, spec)}`, horizon, low, high, unit: unitOf(spec),
          lines: [{ points: soFar, kind: "score" }],
          bands: [{ points: [[last.step, [last.so_far, last.so_far]], ...foretold.map(([step, a, b]) => [step, [a ?? low, b ?? high]])], kind: "score" }],
          levels: bounds.map((value) => ({ value, label: `target ${number(value)}`, kind: "target" })),
        }),
        h("figcaption", {}, `The score so far is ${amount(last.so_far, spec)}; the target is ${goal(about.target, spec)}.${ahead ? ` With a probability of ${percent(ahead.level)}, the rest of the run stays inside the band: at the end, ${between(foretold.at(-1), spec)}.` : ""}`)),
      fall ? movedBy(fall, `What moved p at step ${fall.t}, where it fell most, in percentage points`) : null,
      why ? moved(why, spec) : null,
      alarms.length ? alarmed() : null,
      h("h2", {}, "Every step"),
      table("Answers, the newest first", ["step", "p", "likely range", "so far", "status", "state", "heard"],
        steps.slice(-200).reverse().map((one) => [String(one.step), percent(one.p), range(one.spread), amount(one.so_far ?? null, spec),
          `${statusOf(one).word}${because(one)}`, reported(states.get(one.step)), moment(one.at)]), [0, 1, 2, 3, 6]));
  }

  /** Since which step a run has had its present status. */
  function since(steps, found) {
    if (!isDecided(found)) return sinceStep(about.last.alarm) === null ? "" : ` since step ${sinceStep(about.last.alarm)}`;
    const before = steps.findLastIndex((one) => statusOf(one) !== found);
    return steps[before + 1] ? ` since step ${steps[before + 1].step}` : "";
  }

  function outlook(found, horizon) {
    const last = about.last;
    if (about.ended_at) return ` · ended, and ${about.met === null ? "it is not known whether it met" : about.met ? "met" : "missed"} its target`;
    if (found === STATUS.LOST) return ` · now at step ${last.step} of ${horizon}. Whatever happens next, it ends outside the target`;
    if (found === STATUS.WON) return ` · now at step ${last.step} of ${horizon}. Whatever happens next, it ends in the target`;
    return ` · p is ${percent(last.p)}, likely ${range(last.spread)}, at step ${last.step} of ${horizon}`;
  }

  /** How each behavior stands by itself, for a goal over several. */
  function behaviors(parts, spec) {
    const told = new Map((why?.behaviors ?? []).map((one) => [one.name, one]));
    return table("Each behavior by itself", ["behavior", "should end", "so far", "p of ending there"],
      Object.entries(parts).map(([name, p]) => [name, told.has(name) ? intervals(told.get(name).target, spec, name) : "–",
        amount(told.get(name)?.so_far ?? null, spec, name), percent(p)]), [2, 3]);
  }

  function movedBy(found, caption) {
    return table(caption, ["", "from", "to", "moved p by"],
      found.contributions.slice(0, 8).map((one) => [one.cause, value(one.before), value(one.now), points(one.change)]), [1, 2, 3]);
  }

  function moved(found, spec) {
    return h("div", {},
      h("h2", {}, Math.abs(found.change) < 0.0005 ? "The recorded runs behind p" : "Why p changed"),
      Math.abs(found.change) >= 0.0005 ? movedBy(found, "What moved p in the last step, in percentage points") : null,
      found.precedents.length ? alike(found, spec) : null);
  }

  /** The recorded runs behind p: what each earned after its step, and where this run would then end. */
  function alike(found, spec) {
    const some = found.precedents.slice(0, 8), adds = some.some((one) => typeof one.rest === "number");
    const ending = (one) => {
      const sum = typeof one.rest === "number" ? `${number(one.ends_at - one.rest)} so far and ${number(one.rest)}: ` : "";
      return `${sum}ends in ${amount(one.ends_at, spec)}, ${one.met ? "inside" : "outside"} the target`;
    };
    return table("The recorded runs that are most like this one",
      ["recorded run", "at step", "weight", "its outcome", ...(adds ? ["of its outcome, after that step"] : []), "this run, if it goes on like that"],
      some.map((one) => [String(one.run), String(one.step), percent(one.weight), amount(one.outcome, spec),
        ...(adds ? [amount(one.rest ?? null, spec)] : []), ending(one)]), adds ? [1, 2, 3, 4] : [1, 2, 3]);
  }

  function alarmed() {
    return h("div", {}, h("h2", {}, "Alarms"), alarms.map((one) => h("p", {},
      `Raised ${moment(one.raised_at)}: ${reasonOf(one)}. `,
      one.acknowledged_at ? `Seen by ${one.acknowledged_by} ${moment(one.acknowledged_at)}${one.note ? `: “${one.note}”` : ""}.` : "Nobody has acknowledged it yet. ",
      one.acknowledged_at ? null : h("a", { href: "#/alarms" }, "To the alarms"))));
  }

  const stop = live.watchRun(id, plan);
  load();
  return { view, title: "Run", close: () => { stop(); clearTimeout(planned); clearTimeout(asked); } };
}

/** At how many steps of the run there was no answer, and why. */
function unanswered(steps) {
  const asked = steps.filter((one) => !one.end);
  const silent = asked.filter((one) => one.p === null);
  if (!silent.length) return null;
  const reasons = new Map();
  for (const one of silent) reasons.set(one.reason ?? "", (reasons.get(one.reason ?? "") ?? 0) + 1);
  const often = [...reasons].sort((a, b) => b[1] - a[1]).slice(0, 3);
  return h("p", { class: "note" }, `No answer at ${silence(silent.length, asked.length, often)}.`);
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function between([, low, high], spec) {
  if (low === null && high === null) return "anything";
  if (low === null) return `at most ${amount(high, spec)}`;
  if (high === null) return `at least ${amount(low, spec)}`;
  return `from ${number(low)} to ${amount(high, spec)}`;
}

function value(one) {
  return typeof one === "number" ? number(one) : String(one ?? "–");
}

