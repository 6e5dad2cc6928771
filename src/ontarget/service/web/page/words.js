// Numbers, times and states as people read them.

export const STATUS = {
  ALARM: { mark: "▲", word: "alarm", kind: "alarm", rank: 0 },
  UNKNOWN: { mark: "?", word: "unknown", kind: "unknown", rank: 1 },
  OK: { mark: "●", word: "no alarm", kind: "fine", rank: 2 },
  PENDING: { mark: "○", word: "not begun", kind: "unknown", rank: 3 },
  DONE: { mark: "■", word: "ended", kind: "done", rank: 4 },
};

export function statusOf(answer) {
  return STATUS[answer.status] ?? STATUS.UNKNOWN;
}

export function percent(p) {
  if (p === null || p === undefined) return "–";
  if (p > 0 && p < 0.01) return "< 1 %";
  if (p < 1 && p > 0.99) return "> 99 %";
  return `${Math.round(100 * p)} %`;
}

/** The reason of an answer, unless it only says what p is. */
export function because(answer) {
  return answer.reason && !answer.reason.startsWith("p = ") ? `: ${answer.reason}` : "";
}

/** The step at which an alarm was raised: its id ends in it. */
export function sinceStep(alarm) {
  const found = /-(\d+)$/.exec(alarm ?? "");
  return found ? Number(found[1]) : null;
}

export function range(pair) {
  if (!pair) return "–";
  const [low, high] = pair.map((p) => Math.round(100 * p));
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

/** LO:HI as a person would say it. */
export function goal(target) {
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

/** The ends of a target, for lines in a picture. */
export function ends(target) {
  return target.split(/[|:()[\]]/).map((one) => one.trim()).filter(Boolean).map(Number).filter(Number.isFinite);
}

export function rule(spec) {
  if (spec.ruled_out !== undefined) return `alarm when the target is ruled out at ${percent(spec.ruled_out)}`;
  if (spec.alarm_below !== undefined) return `alarm when p is below ${percent(spec.alarm_below)}`;
  const rate = spec.false_alarm_rate ?? 0.05;
  const sure = spec.confidence ? `, with ${percent(spec.confidence)} confidence` : " on average";
  return `of the runs that meet the target, at most ${percent(rate)} get an alarm${sure}`;
}
