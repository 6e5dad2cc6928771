// Whether the monitor can be trusted: its probabilities, and how often they came true.

import { get, post } from "./api.js";
import { reliability } from "./chart.js";
import { fill, h, table } from "./dom.js";
import { offBy } from "./health.js";
import { moment, percent, rule, silence } from "./words.js";

const EVERY = 15_000;

const VERDICT = {
  "calibrated": ["●", "fine", "You can trust it: new runs still behave like the runs that its model was made from."],
  "drifting": ["▲", "alarm", "Do not trust it: new runs no longer behave like the runs that its model was made from. Recalibrate it with new runs, or fit a new model."],
  "closed": ["▲", "alarm", "It takes no steps, because its model cannot be loaded. Its runs stay readable. Fit a new model on them, and add it as a new version of the contract."],
  "too few runs": ["?", "unknown", "Not known yet: too few runs have ended to tell."],
  "nothing learned": ["?", "unknown", "Do not trust it: neither p nor an alarm says anything about failures. Fit it on runs that met the target and on runs that missed it."],
};

const COUNTED = "Of each run up to four answers are counted: at the start, and at a quarter, half and three quarters of the horizon.";

export function trust(contracts, healths, mayAct) {
  const view = h("section", {}, h("h1", {}, "Trust"), h("p", {}, "loading"));
  const opened = new Set(); // older versions that somebody looks at

  async function load() {
    try {
      await healths.load();
      fill(view, h("h1", {}, "Trust"), contracts.all().filter((one) => healths.of(one.spec.name)).map((one) => part(one, healths.of(one.spec.name))));
    } catch (error) {
      fill(view, h("h1", {}, "Trust"), h("p", { role: "alert" }, error.message));
    }
  }

  /** Older versions, each read when it is opened; runs that began with one still use it. */
  function earlier(contract) {
    const versions = Array.from({ length: contract.version - 1 }, (_, k) => contract.version - 1 - k).slice(0, 20);
    return versions.map((version) => {
      const key = `${contract.spec.name}@${version}`;
      const inside = h("div", {}, h("p", {}, "loading"));
      async function read() {
        try {
          fill(inside, judged(contract, await get(`/v1/contracts/${encodeURIComponent(contract.spec.name)}/health?version=${version}`)));
        } catch (error) { fill(inside, h("p", { role: "alert" }, error.message)); }
      }
      const details = h("details", {}, h("summary", {}, `Version ${version} of ${contract.spec.name}`), inside);
      details.open = opened.has(key);
      if (details.open) read();
      details.addEventListener("toggle", () => {
        if (details.open && !opened.has(key)) read();
        if (details.open) opened.add(key); else opened.delete(key);
      });
      return details;
    });
  }

  function part(contract, found) {
    return h("article", { class: "contract" },
      h("h2", {}, contract.spec.name, h("span", { class: "quiet" }, ` version ${contract.version}`)),
      judged(contract, found), earlier(contract));
  }

  function judged(contract, found) {
    const verdict = found.one_sided && found.verdict !== "drifting" ? "nothing learned" : found.verdict;
    const [mark, kind, says] = VERDICT[verdict] ?? VERDICT["too few runs"];
    const newest = found.contract === `${contract.spec.name}@${contract.version}`;
    return h("div", {},
      h("p", { class: `lead ${kind}` }, h("strong", {}, `${mark} ${verdict}`), ` · ${says}`),
      found.closed ? h("p", { class: "lead unknown" }, `${found.closed}.`) : null,
      found.one_sided ? h("p", { class: "lead unknown" }, `${found.one_sided}.`) : null,
      unanswered(found.unanswered),
      h("p", {}, `${found.runs.toLocaleString("en-US")} ${found.runs === 1 ? "run has" : "runs have"} ended without anybody stepping in.`
        + (found.cut_off ? ` Another ${found.cut_off.toLocaleString("en-US")} ${found.cut_off === 1 ? "was" : "were"} cut off or taken over, and cannot be counted.` : "")),
      alarmsKept(contract, found),
      unknown(found),
      found.closed ? null : evidence(found),
      found.verdict === "drifting" ? aside(found) : null,
      mayAct && newest && found.verdict === "drifting" ? renewal(contract, found) : null,
      found.bins.length ? h("div", { class: "pair" },
        h("figure", {}, reliability(`What ${contract.spec.name} said, and how often it came true`, found.bins),
          h("figcaption", {}, `A dot on the line means that p came true as often as it said. Larger dots stand for more answers. ${COUNTED}`)),
        table("Answers by their p", ["p", "mean p", "met the target", "answers"],
          found.bins.map((bin) => [`${Math.round(100 * bin.least)} to ${Math.round(100 * bin.least + 10)} %`, percent(bin.mean_p),
            percent(bin.met / bin.runs), bin.runs.toLocaleString("en-US")]), [0, 1, 2, 3])) : null);
  }

  function renewal(contract, found) {
    const said = h("p", { role: "status", class: "note" });
    async function renew() {
      said.textContent = "recalibrating";
      try {
        const made = await post(`/v1/contracts/${encodeURIComponent(contract.spec.name)}/recalibrate`, {});
        said.textContent = `New runs now use version ${made.version}.`;
      } catch (error) { said.textContent = error.message; }
    }
    const { runs, counted, needed } = found.renewal;
    const many = (n) => n.toLocaleString("en-US");
    const met = contract.spec.alarm_below === undefined && contract.spec.ruled_out === undefined ? " that met the target" : "";
    const keepsP = contract.made_from.calibrate === undefined ? " p itself stays as it is: to correct p too, recalibrate with renew_p, or fit a new model." : "";
    return h("div", {},
      h("p", { class: "note" }, `A change was seen ${moment(new Date(1000 * found.drifted_at).toISOString())}. `
        + `${runs === 1 ? "1 run has" : `${many(runs)} runs have`} begun and ended since. A recalibration uses these alone: it needs at least ${many(needed)}${met}, and there ${counted === 1 ? "is" : "are"} ${many(counted)}.`),
      h("p", { class: "note" }, `Recalibrating makes version ${contract.version + 1}, whose promises are based on those runs.${keepsP} New runs use that version; runs under way keep theirs.`),
      h("button", { type: "button", onclick: renew, disabled: counted < needed }, runs === 1 ? "Recalibrate on 1 run" : `Recalibrate on ${many(runs)} runs`), said);
  }

  const timer = setInterval(load, EVERY);
  load();
  return { view, title: "Trust", close: () => clearInterval(timer) };
}

function alarmsKept(contract, found) {
  if (found.met === undefined || found.false_alarms === undefined) return null;
  const said = `${found.false_alarms.toLocaleString("en-US")} of the ${found.met.toLocaleString("en-US")} runs that met the target had an alarm`;
  const share = found.met ? ` (${percent(found.false_alarms / found.met)})` : "";
  return h("p", {}, `False alarms so far: ${said}${share}. The rule: ${rule(contract.spec)}.`);
}

/** Which categories of which columns no recorded run had. */
function unknown(found) {
  const told = (found.unknown_categories ?? []).slice(0, 5).map((one) => {
    const values = Object.entries(one.values).sort((a, b) => b[1] - a[1]).slice(0, 3).map(([value]) => `“${value}”`);
    const others = Object.values(one.values).slice(0, 3).reduce((sum, n) => sum + n, 0) < one.readings ? " and others" : "";
    return `${one.feature}: ${values.join(", ")}${others} (${one.readings.toLocaleString("en-US")} ${one.readings === 1 ? "reading" : "readings"})`;
  });
  return told.length ? h("p", { class: "note" }, `Since the service began, some readings were of categories that no recorded run had, and count as missing: ${told.join("; ")}. `
    + "Fit again once there are enough runs with them.") : null;
}

/** How many of the latest steps got no answer, and why. */
function unanswered(found) {
  if (!found?.steps) return null;
  const many = found.steps > 0.01 * found.of;
  return h("p", { class: many ? "lead unknown" : "note" }, `${many ? "? " : ""}No answer lately at ${silence(found.steps, found.of, Object.entries(found.reasons))}.`);
}

/** In which direction p was off, over all answers that are counted. */
function aside(found) {
  const off = offBy(found);
  return off ? h("p", {}, `On average over all counted answers, ${off}: ${off.endsWith("high") ? "fewer" : "more"} of their runs met the target than p said.`) : null;
}

/** Which open run holds ended runs back: runs are compared in the order in which they began. */
function waiting(found) {
  if (!found.waits_for) return "";
  const held = found.runs - found.guarded;
  return ` ${held.toLocaleString("en-US")} ended ${held === 1 ? "run is" : "runs are"} not compared yet: ${held === 1 ? "it" : "they"} began after the run of ${found.waits_for}, which is still open.`;
}

function evidence(found) {
  if (found.guard) return h("p", { class: "note" }, `There is no drift guard: ${found.guard}`);
  const shown = (one) => (one < 10 ? one.toPrecision(2) : Math.round(one).toLocaleString("en-US"));
  return h("p", {}, `Evidence from ${found.guarded.toLocaleString("en-US")} runs that something has changed: ${shown(found.evidence)}; `
    + `that p has become too high: ${shown(found.harm)}. Both begin at 1; at ${shown(found.limit)} the verdict is “drifting”. `
    + "While nothing changes, that happens in at most 1 of 100 services, however often you look."
    + waiting(found));
}
