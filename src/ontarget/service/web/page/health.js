// How each contract's probabilities compare with the outcomes of its runs, for every view.

import { get } from "./api.js";
import { percent, promise, silence } from "./words.js";

const OFTEN = 0.1; // of the latest steps without an answer

export class Healths {
  constructor(contracts) { this._contracts = contracts; this._found = new Map(); }

  async load() {
    await this._contracts.load();
    const names = this._contracts.all().map((one) => one.spec.name);
    const found = await Promise.all(names.map((name) => get(`/v1/contracts/${encodeURIComponent(name)}/health`)));
    this._found = new Map(names.map((name, k) => [name, found[k]]));
  }

  of(name) { return this._found.get(name); }

  get drifts() { return [...this._found.values()].some((found) => found.verdict === "drifting"); }

  /** Which contracts cannot be trusted, and why, in a line; empty if all can. */
  warning() {
    const bad = [...this._found].map(([name, found]) => [name, trouble(found)]).filter(([, why]) => why);
    const said = bad.slice(0, 3).map(([name, why]) => `${name}: ${why}`);
    return said.join("; ") + (bad.length > 3 ? `; and ${bad.length - 3} more contracts` : "");
  }

  /** For each contract: how many of the runs that met the target had an alarm, and what is promised. */
  kept() {
    const all = this._contracts.all().filter((one) => this.of(one.spec.name)?.met);
    return all.map((one) => {
      const { met, false_alarms: wrong } = this.of(one.spec.name);
      const name = this._contracts.several ? `${one.spec.name}: ` : "";
      return `${name}${wrong.toLocaleString("en-US")} of ${met.toLocaleString("en-US")} (${percent(wrong / met)}; ${promise(one.spec)})`;
    });
  }
}

/** Why a contract cannot be trusted: it is closed, it drifts, it has nothing to learn from, or it often has no answer. */
function trouble(found) {
  if (found.closed) return `closed, ${found.closed}`;
  if (found.verdict === "drifting") return offBy(found) ?? "new runs are no longer like the recorded ones";
  if (found.one_sided) return found.one_sided;
  const { steps, of, reasons } = found.unanswered ?? { steps: 0, of: 0 };
  return steps > OFTEN * of ? `no answer lately at ${silence(steps, of, Object.entries(reasons).slice(0, 1))}` : "";
}

/** How many percentage points p was too high or too low on average; null if less than half a point. */
export function offBy(found) {
  const answers = found.bins.reduce((sum, bin) => sum + bin.runs, 0);
  const off = found.bins.reduce((sum, bin) => sum + bin.runs * bin.mean_p - bin.met, 0) / Math.max(answers, 1);
  if (Math.abs(off) < 0.005) return null;
  return `p was ${Math.round(100 * Math.abs(off))} percentage points too ${off > 0 ? "high" : "low"}`;
}
