// Pictures of numbers: a line over steps with a band, a sparkline, a reliability diagram.

import { s } from "./dom.js";
import { number, percent } from "./words.js";

const NARROW = 704; // pixels: style.css says the same
const PAD = { left: 52, right: 16, top: 14, bottom: 34 };

function path(points, x, y) {
  let d = "";
  let pen = false;
  for (const [at, value] of points) {
    if (value === null || value === undefined) { pen = false; continue; }
    d += `${pen ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = true;
  }
  return d;
}

function band(points, x, y) {
  const known = points.filter(([, pair]) => pair);
  if (known.length < 2) return "";
  const up = known.map(([at, pair]) => `${x(at).toFixed(1)} ${y(pair[1]).toFixed(1)}`);
  const back = known.reverse().map(([at, pair]) => `${x(at).toFixed(1)} ${y(pair[0]).toFixed(1)}`);
  return `M${up.join("L")}L${back.join("L")}Z`;
}

function ticks(low, high, most = 5) {
  if (!(high > low)) return [low];
  const raw = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= raw);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) found.push(v === 0 ? 0 : v);
  return found;
}

/**
 * A chart over the steps of a run.
 *
 * lines: [{points: [[step, value]], kind}], bands: [{points: [[step, [low, high]]]}], levels:
 * [{value, label, kind}], marks: [{step, label}] are moments such as alarms.
 */
export function overSteps({ title, horizon, low, high, lines = [], bands = [], levels = [], marks = [], shares = false, unit = "" }) {
  const width = innerWidth < NARROW ? 400 : 720, height = 240; // so that text keeps its size
  const x = (at) => PAD.left + (at / Math.max(horizon, 1)) * (width - PAD.left - PAD.right);
  const y = (v) => height - PAD.bottom - ((v - low) / ((high - low) || 1)) * (height - PAD.top - PAD.bottom);
  const said = shares ? percent : number;
  return s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
    s("title", {}, title),
    ticks(low, high).map((v) => s("g", { class: "tick" },
      s("line", { x1: PAD.left, x2: width - PAD.right, y1: y(v), y2: y(v) }),
      s("text", { x: PAD.left - 8, y: y(v) + 4, "text-anchor": "end" }, shares ? `${Math.round(100 * v)} %` : said(v)))),
    ticks(0, horizon, width / 90).filter(Number.isInteger).map((t) => s("text", {
      class: "tick", x: x(t), y: height - PAD.bottom + 18, "text-anchor": "middle" }, String(t))),
    s("text", { class: "axis", x: (PAD.left + width - PAD.right) / 2, y: height - 2, "text-anchor": "middle" }, "step"),
    unit ? s("text", { class: "axis", x: 2, y: PAD.top - 3 }, unit) : null,
    bands.map((one) => s("path", { class: `band ${one.kind ?? ""}`, d: band(one.points, x, y) })),
    levels.map((one) => s("g", { class: `level ${one.kind ?? ""}` },
      s("line", { x1: PAD.left, x2: width - PAD.right, y1: y(one.value), y2: y(one.value) }),
      s("text", { x: width - PAD.right, y: y(one.value) - 5, "text-anchor": "end" }, one.label))),
    marks.map((one) => s("g", { class: "mark" },
      s("line", { x1: x(one.step), x2: x(one.step), y1: PAD.top, y2: height - PAD.bottom }),
      s("text", { x: x(one.step), y: PAD.top - 3, "text-anchor": x(one.step) > width - 90 ? "end" : "start" }, one.label))),
    lines.map((one) => s("path", { class: `line ${one.kind ?? ""}`, d: path(one.points, x, y) })),
    lines.map((one) => {
      const last = one.points.findLast(([, v]) => v !== null && v !== undefined);
      return last ? s("circle", { class: `dot ${one.kind ?? ""}`, cx: x(last[0]), cy: y(last[1]), r: 4 }) : null;
    }));
}

/** The path of a sparkline 96 wide and 24 high; values are shares, null where nothing is known. */
export function spark(values) {
  const x = (k) => 2 + (92 * k) / Math.max(values.length - 1, 1);
  const y = (p) => 22 - 20 * p;
  return path(values.map((p, k) => [k, p]), x, y);
}

/** What was said against what came true: one dot per bin, larger for more runs. */
export function reliability(title, bins) {
  const size = 320, pad = 50;
  const at = (p) => pad + p * (size - pad - 14);
  const up = (p) => size - pad - p * (size - pad - 14);
  const most = Math.max(1, ...bins.map((bin) => bin.runs));
  return s("svg", { class: "chart square", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": title },
    s("title", {}, title),
    [0, 0.25, 0.5, 0.75, 1].map((v) => s("g", { class: "tick" },
      s("line", { x1: at(0), x2: at(1), y1: up(v), y2: up(v) }),
      s("text", { x: at(0) - 13, y: up(v) + 4, "text-anchor": "end" }, `${100 * v}`),
      s("text", { x: at(v), y: up(0) + 17, "text-anchor": "middle" }, `${100 * v}`))),
    s("line", { class: "ideal", x1: at(0), y1: up(0), x2: at(1), y2: up(1) }),
    bins.map((bin) => s("circle", { class: "dot p", cx: at(bin.mean_p), cy: up(bin.met / bin.runs),
      r: 3 + 8 * Math.sqrt(bin.runs / most) })),
    s("text", { class: "axis", x: at(0.5), y: size - 6, "text-anchor": "middle" }, "p, in %"),
    s("text", { class: "axis", transform: `translate(12 ${up(0.5)}) rotate(-90)`, "text-anchor": "middle" }, "met the target, in %"));
}
