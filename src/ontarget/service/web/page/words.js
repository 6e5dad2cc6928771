// Numbers, times and states as people read them.

export const STATUS = {
  ALARM: { mark: "▲", word: "alarm", kind: "alarm", rank: 0 },
  LOST: { mark: "✕", word: "already lost", kind: "lost", rank: 1 },
  UNKNOWN: { mark: "?", word: "unknown", kind: "unknown", rank: 2 },
  OK: { mark: "●", word: "no alarm", kind: "fine", rank: 3 },
  PENDING: { mark: "○", word: "not begun", kind: "unknown", rank: 4 },
  WON: { mark: "✓", word: "already met", kind: "fine", rank: 5 },
  DONE: { mark: "■", word: "ended", kind: "done", rank: 6 },
};

/** The status to show for a run. p is exactly 0 or 1 only if nothing can change the outcome any more. */
export function statusOf(answer) {
  if (!answer.end && answer.status !== "DONE") {
    if (answer.p === 0) return STATUS.LOST;
    if (answer.p === 1) return STATUS.WON;
  }
  return STATUS[answer.status] ?? STATUS.UNKNOWN;
}

export function isDecided(status) {
  return status === STATUS.LOST || status === STATUS.WON;
}

export function percent(p) {
  return p === null || p === undefined ? "–" : `${rounded(p)} %`;
}

/** A share in percent, rounded as everywhere on this page; a larger share never looks smaller. */
function rounded(p) {
  if (p > 0 && p < 0.01) return "< 1";
  if (p < 1 && p > 0.99) return "> 99";
  return String(Math.round(100 * p));
}

/** Two shares in percent, with as many decimals as tell them apart. */
export function apart(a, b) {
  let said = [percent(a), percent(b)];
  for (let decimals = 1; decimals <= 3 && a !== b && said[0] === said[1]; decimals += 1) {
    said = [a, b].map((p) => `${(100 * p).toFixed(decimals)} %`);
  }
  return said;
}

/** The reason of an answer, without a comparison that only says what p is. */
export function because(answer) {
  const rest = (answer.reason ?? "").replace(/^p = \S+, alarm below [^\s;]+(; )?/, "");
  return rest ? `: ${rest}` : "";
}

/** A share of steps without an answer and the reasons, as pairs with their numbers of steps. */
export function silence(steps, of, reasons) {
  const why = reasons.map(([reason, n]) => (reasons.length > 1 ? `${reason} (${n.toLocaleString("en-US")})` : reason)).join("; ");
  return `${percent(steps / of)} of ${of.toLocaleString("en-US")} steps: ${why}`;
}

/** Why an alarm was raised; a comparison of p in percent, as everywhere on the page. */
export function reasonOf(alarm) {
  const found = /^p = (\S+), alarm below ([^\s;]+)(; .*)?$/.exec(alarm.reason);
  if (!found) return alarm.reason;
  const [p, below] = found.slice(1, 3).map(Number);
  const more = found[3] ?? "";
  if (p === below) return `p fell just below ${(100 * below).toFixed(1)} %, where alarms begin${more}`;
  const [said, limit] = apart(p, below);
  return `p fell to ${said} (alarm below ${limit})${more}`;
}

/** A change of p in percentage points. */
export function points(change) {
  return `${change >= 0 ? "+" : "−"}${Math.abs(100 * change).toFixed(1)}`;
}

/** Why p is what it is, in a sentence or two. */
export function explained(found) {
  const moved = causes(found).filter((one) => Math.abs(one.change) >= 0.0005).slice(0, 3)
    .map((one) => `${one.cause} ${points(one.change)}`);
  const said = [];
  if (found.culprit) said.push(`${found.culprit} is the likely culprit.`);
  if (found.p_before !== null) {
    said.push(Math.abs(found.change) < 0.005 ? `p hardly moved at step ${found.t}.`
      : `At step ${found.t}, p ${found.change < 0 ? "fell" : "rose"} from ${percent(found.p_before)} to ${percent(found.p)}: ${moved.join(", ")} points.`);
  }
  if (found.missed !== null) said.push(`If it goes on as the recorded runs most like it did, it misses the target in ${percent(found.missed)} of these cases (weighted).`);
  return said.join(" ");
}

/** What moved p, the most first; causes that always move together count as one. */
function causes(found) {
  const joint = found.contributions.filter((one) => found.together.includes(one.cause));
  if (joint.length < 2) return found.contributions;
  const names = joint.map((one) => one.cause);
  const change = joint.reduce((total, one) => total + one.change, 0);
  const one = { cause: `${names.slice(0, -1).join(", ")} and ${names.at(-1)} together`, change };
  return [...found.contributions.filter((each) => !joint.includes(each)), one]
    .sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
}

/** The step at which an alarm was raised: its id ends in it. */
export function sinceStep(alarm) {
  const found = /-(\d+)$/.exec(alarm ?? "");
  return found ? Number(found[1]) : null;
}

export function range(pair) {
  if (!pair) return "–";
  if (pair[0] === pair[1]) return "certain"; // only what is decided has no spread
  const [low, high] = pair.map(rounded); // as p is, so that the range that is shown holds it
  return low === high ? `${low} %` : `${low} to ${high} %`;
}

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return minus(value.toLocaleString("en-US"));
  const size = Math.abs(value);
  return minus(value.toLocaleString("en-US", { maximumFractionDigits: size >= 100 ? 1 : size >= 1 ? 2 : 4 }));
}

function minus(text) {
  return text.replace("-", "−");
}

export function ago(milliseconds) {
  const seconds = Math.max(0, milliseconds / 1000);
  if (seconds < 2) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

export function moment(text) {
  if (!text) return "–";
  const at = new Date(text);
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString("en-CA")} `;
  return day + at.toLocaleTimeString("en-GB");
}

/** The unit of a contract's behavior; of several, of the one with this name. */
export function unitOf(spec, behavior) {
  const unit = spec?.unit ?? "";
  return typeof unit === "string" ? unit : unit[behavior] ?? "";
}

/** A number with its unit; of several behaviors, each by its name. */
export function amount(value, spec, behavior) {
  if (value !== null && typeof value === "object") {
    return Object.entries(value).map(([name, one]) => `${name} ${amount(one, spec, name)}`).join(", ");
  }
  const unit = unitOf(spec, behavior);
  return unit && value !== null && value !== undefined ? `${number(value)} ${unit}` : number(value);
}

/** LO:HI, or conditions on several behaviors, as a person would say it. */
export function goal(target, spec) {
  if (/[<>=]|\bin\b/.test(target)) return conditions(target, spec);
  const unit = unitOf(spec);
  return bounds(target) + (unit ? ` ${unit}` : "");
}

function bounds(target) {
  const parts = target.split("|").map((one) => one.trim());
  return parts.map((part) => {
    const found = /^\(?\[?([^:]*):([^:]*?)\)?\]?$/.exec(part);
    if (!found) return part;
    const [low, high] = found.slice(1).map((one) => one.trim());
    if (low && high) return `from ${minus(low)} to ${minus(high)}`;
    if (low) return `at least ${minus(low)}`;
    if (high) return `at most ${minus(high)}`;
    return part;
  }).join(" or ");
}

/** A target as the service writes it, such as [0, 5] | [10, inf), as a person would say it. */
export function intervals(target, spec, behavior) {
  const unit = unitOf(spec, behavior);
  const said = target.split("|").map((part) => {
    const found = /^([[(])(\S+), (\S+)([\])])$/.exec(part.trim());
    if (!found) return part.trim();
    const [, left, low, high, right] = found;
    if (low === "-inf" && high === "inf") return "anywhere";
    if (low === "-inf") return `${right === "]" ? "at most" : "less than"} ${minus(high)}`;
    if (high === "inf") return `${left === "[" ? "at least" : "more than"} ${minus(low)}`;
    return `from ${minus(low)} to ${minus(high)}`;
  }).join(" or ");
  return unit && said !== "anywhere" ? `${said} ${unit}` : said;
}

function conditions(target, spec) {
  const signs = { ">=": "at least", "<=": "at most", ">": "more than", "<": "less than" };
  const unit = (name) => (unitOf(spec, name) ? ` ${unitOf(spec, name)}` : "");
  return target
    .replace(/([^\W\d]\w*)\s*(>=|<=|>|<)\s*([-+.\w]+)/gu, (_, name, sign, value) => `${name} ${signs[sign]} ${minus(value)}${unit(name)}`)
    .replace(/([^\W\d]\w*)\s+in\s+([^&|()]+)/gu, (_, name, range) => `${name} ${bounds(range.trim())}${unit(name)} `)
    .replace(/\s*&\s*/g, " and ").replace(/\s*\|\s*/g, " or ").trim();
}

/** The ends of a target, for lines in a picture. */
export function ends(target) {
  return target.split(/[|:()[\]]/).map((one) => one.trim()).filter(Boolean).map(Number).filter(Number.isFinite);
}

/** What share of the runs that meet the target may get an alarm. */
export function promise(spec) {
  if (spec.alarm_below !== undefined) return "nothing is promised";
  const sure = spec.confidence ? `, with ${percent(spec.confidence)} confidence` : " on average";
  return `promised: at most ${percent(spec.ruled_out ?? spec.false_alarm_rate ?? 0.05)}${sure}`;
}

export function rule(spec) {
  if (spec.ruled_out !== undefined) return `alarm when the target is ruled out at ${percent(spec.ruled_out)}`;
  if (spec.alarm_below !== undefined) return `alarm when p is below ${percent(spec.alarm_below)}`;
  const rate = spec.false_alarm_rate ?? 0.05;
  const sure = spec.confidence ? `, with ${percent(spec.confidence)} confidence` : " on average";
  return `of the runs that meet the target, at most ${percent(rate)} get an alarm${sure}`;
}
