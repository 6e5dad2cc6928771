// The contracts: the target of their runs, the alarm rule, and what is promised.

import { get } from "./api.js";
import { fill, h, table } from "./dom.js";
import { goal, percent, rule } from "./words.js";

const AGAIN = 10_000; // milliseconds between two looks for a contract that is not known

export class Contracts {
  constructor() { this._found = []; this._asked = 0; }

  async load() {
    this._asked = Date.now();
    this._found = await get("/v1/contracts");
  }

  all() { return this._found; }

  get several() { return this._found.length > 1; }

  /** The name of a contract, where there are others that it could be. */
  label(label) { return this.several ? this.of(label)?.spec.name ?? "" : ""; }

  /** The contract of a label such as river@2; an old version gets the newest one of its name. */
  of(label) {
    return this._found.find((one) => `${one.spec.name}@${one.version}` === label || one.spec.name === label)
      ?? this._found.find((one) => (label ?? "").startsWith(`${one.spec.name}@`))
      ?? this._ask();
  }

  /** Read the contracts again: one has come since, and nothing is known of it yet. */
  _ask() {
    if (Date.now() - this._asked > AGAIN) this.load().catch(() => {});
    return undefined;
  }

  spec(label) { return this.of(label)?.spec; }

  horizon(label) { return this.of(label)?.horizon; }
}

export function contractsView(live, contracts) {
  const view = h("section", {}, h("h1", {}, "Contracts"), h("p", {}, "loading"));

  async function load() {
    try {
      await contracts.load();
      fill(view, h("h1", {}, "Contracts"), contracts.all().map(part));
    } catch (error) {
      fill(view, h("h1", {}, "Contracts"), h("p", { role: "alert" }, error.message));
    }
  }

  function part(one) {
    const limits = one.thresholds.filter((value) => value !== null).map(percent);
    const parquet = `/v1/episodes.parquet?contract=${encodeURIComponent(one.spec.name)}`;
    return h("article", { class: "contract" },
      h("h2", {}, one.spec.name, h("span", { class: "quiet" }, ` version ${one.version}`)),
      table("What it says", ["", ""], [
        ...(one.closed ? [["closed", `It takes no steps: ${one.closed}`]] : []),
        ["target", goal(one.spec.target, one.spec)],
        ["rule", rule(one.spec)],
        ["threshold", limits.length ? `alarm when p falls below ${limits.join(", ")}` : "none"],
        ["horizon", `${one.horizon.toLocaleString("en-US")} steps at most`],
        ["features", one.features.join(", ")],
        ["made from", madeFrom(one.made_from)],
        ...(one.one_sided ? [["caution", one.one_sided]] : []),
        ["model file", `${one.spec.model.split(/[\\/]/).pop()}${one.spec.recalibrated_from ? ", recalibrated" : ""} (sha256 ${(one.spec.model_sha256 ?? "").slice(0, 12)}…)`],
      ]),
      h("p", {}, h("a", { href: parquet, download: `${one.spec.name}.parquet` }, "Download its finished runs"), " as Parquet, ready for ontarget fit."));
  }

  load();
  return { view, title: "Contracts", close: () => {} };
}

/** How many recorded runs a model was made from, by what they were used for. */
function madeFrom(sizes) {
  const uses = { learn: "to learn from", train: "to learn from", calibrate: "to calibrate on", assure: "for its promises" };
  return Object.entries(sizes).map(([part, n]) => `${n.toLocaleString("en-US")} runs ${uses[part] ?? part}`).join(", ");
}
