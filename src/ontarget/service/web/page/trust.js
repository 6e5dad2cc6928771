// Whether the monitor can be believed: what it said against what came true.

import { get } from "./api.js";
import { reliability } from "./chart.js";
import { fill, h, table } from "./dom.js";
import { percent, rule } from "./words.js";

const EVERY = 15_000;

const VERDICT = {
  "calibrated": ["●", "fine", "What it said came true as often as it said."],
  "drifting": ["▲", "alarm", "What it says no longer comes true. Recalibrate it with new runs, or fit it anew."],
  "too few runs": ["?", "unknown", "Too few runs have ended to tell."],
};

export function trust(live, contracts) {
  const view = h("section", {}, h("h1", {}, "Trust"), h("p", {}, "loading"));

  async function load() {
    try {
      await contracts.load();
      const parts = await Promise.all(contracts.all().map(async (one) => part(one, await get(`/v1/contracts/${encodeURIComponent(one.spec.name)}/health`))));
      fill(view, h("h1", {}, "Trust"), parts);
    } catch (error) {
      fill(view, h("h1", {}, "Trust"), h("p", { role: "alert" }, error.message));
    }
  }

  function part(contract, found) {
    const [mark, kind, says] = VERDICT[found.verdict] ?? VERDICT["too few runs"];
    return h("article", { class: "contract" },
      h("h2", {}, contract.spec.name, h("span", { class: "quiet" }, ` version ${contract.version}`)),
      h("p", { class: `lead ${kind}` }, h("strong", {}, `${mark} ${found.verdict}`), ` · ${says}`),
      h("p", {}, `${found.runs.toLocaleString("en-US")} ${found.runs === 1 ? "run has" : "runs have"} ended without anybody stepping in.`),
      alarmsKept(contract, found),
      evidence(found),
      found.bins.length ? h("div", { class: "pair" },
        h("figure", {}, reliability(`What ${contract.spec.name} said, and how often it came true`, found.bins),
          h("figcaption", {}, "Dots on the line: what was said came true as often as it said. Larger dots stand for more runs.")),
        table("By what was said", ["p said", "mean p", "met the target", "runs counted"],
          found.bins.map((bin) => [`${Math.round(100 * bin.least)} to ${Math.round(100 * bin.least + 10)} %`, percent(bin.mean_p),
            percent(bin.met / bin.runs), bin.runs.toLocaleString("en-US")]), [1, 2, 3])) : null);
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

function evidence(found) {
  if (found.guard) return h("p", { class: "note" }, `There is no drift guard: ${found.guard}`);
  return h("p", {}, `The drift guard has counted ${found.guarded.toLocaleString("en-US")} runs. Its evidence of a change is `
    + `${found.evidence < 1000 ? found.evidence.toPrecision(2) : Math.round(found.evidence).toLocaleString("en-US")}; at 100 it says that something has changed.`);
}
