// What is known of every run, kept up to date by the stream of events.
//
// Nothing grows without end: a run has one record and the last values of p, runs that have ended are
// dropped after some minutes or when there are many, and events are folded in as they come. Views are told of changes at
// most four times a second.

import { all } from "./api.js";
import { statusOf } from "./words.js";

const TRAIL = 60; // values of p behind a run's present one
const KEPT = 5 * 60_000; // milliseconds after which an ended run is dropped
const ENDED = 500; // ended runs that are kept at most
const MOST = 20_000; // runs
const PAINT = 250; // milliseconds between two paintings
const ALARMS = 30_000; // milliseconds between two looks at alarms that no step has raised
const QUIET = 20_000; // milliseconds without an event, after which the service is asked

export class Live {
  constructor() {
    this.runs = new Map();
    this.full = false; // whether there are more runs than are kept
    this.openAlarms = new Set();
    this.seen = new Map(); // who has acknowledged an open alarm
    this.state = "connecting";
    this.since = Date.now(); // when the state became what it is
    this.heard = 0; // when something was last heard
    this._views = new Set();
    this._runViews = new Map();
    this._planned = false;
    this._source = null;
  }

  /** Load what is there and follow what comes; again after signing in. */
  async start() {
    this._source?.close();
    this._follow();
    await this._load();
  }

  /** What is under way now: at the start, and after the connection was lost. */
  async _load() {
    try {
      const asked = Date.now();
      const open = await all("/v1/runs?open=true", MOST);
      const ids = new Set(open.map((run) => run.id));
      for (const [id, run] of this.runs) { // over since the connection was lost
        if (!run.ended && !ids.has(id) && run.heard < asked) this.runs.delete(id);
      }
      for (const run of open) this._know(run);
      await this._loadAlarms();
    } catch (error) {
      if (error.status !== 401) this._became("lost");
    }
    this._changed();
  }

  async _loadAlarms() {
    this._alarmsRead = Date.now();
    this.takeAlarms(await all("/v1/alarms?open=true", MOST));
  }

  /** Alarms that wait for somebody. */
  get waiting() {
    let seen = 0;
    for (const id of this.seen.keys()) if (this.openAlarms.has(id)) seen += 1;
    return this.openAlarms.size - seen;
  }

  /** What the service says of all open alarms. */
  takeAlarms(found) {
    this.seen = new Map(found.filter((one) => one.acknowledged_at).map((one) => [one.id, one.acknowledged_by]));
    // Of a run that is known, its last answer says more: it may have come meanwhile.
    const others = found.filter((alarm) => alarm.kind !== "target" || !this.runs.has(alarm.run_id));
    this.openAlarms = new Set(others.map((alarm) => alarm.id));
    for (const run of this.runs.values()) if (run.alarm) this.openAlarms.add(run.alarm);
    this._changed();
  }

  stop() {
    this._source?.close();
    this._source = null;
  }

  /** Call a function after changes; what comes back stops that. */
  watch(act) {
    this._views.add(act);
    return () => this._views.delete(act);
  }

  /** Call a function with every answer of one run. */
  watchRun(id, act) {
    this._runViews.set(act, id);
    return () => this._runViews.delete(act);
  }

  _follow() {
    const source = this._source = new EventSource("/v1/events");
    source.addEventListener("open", () => {
      this.heard = Date.now();
      const lost = this.state === "lost";
      this._became("live");
      if (lost) this._load();
    });
    source.addEventListener("error", () => this._became("lost"));
    source.addEventListener("answer", (event) => {
      this.heard = Date.now();
      this._became("live");
      this._take(JSON.parse(event.data));
    });
    clearInterval(this._timer);
    this._timer = setInterval(() => this._look(), 5_000);
  }

  /** Drop what is over, and make sure that silence is not a dead connection. */
  async _look() {
    const now = Date.now();
    this._drop([...this.runs.values()].filter((run) => run.ended), ENDED, now - KEPT);
    this.full = this.runs.size >= MOST;
    this._drop([...this.runs.values()], MOST, 0);
    if (this._source?.readyState === EventSource.CLOSED) this._follow();
    if (this.state === "live" && now - this.heard > QUIET) {
      try {
        const found = await fetch("/readyz");
        if (found.ok) this.heard = Date.now();
        else this._became("lost");
      } catch { this._became("lost"); }
    }
    if (this.state === "live" && now - (this._alarmsRead ?? 0) > ALARMS) {
      try { await this._loadAlarms(); } catch { /* at the next look */ }
    }
    this._changed();
  }

  /** Of these runs, keep those heard of since a moment, and of them so many: the last heard of. */
  _drop(some, most, since) {
    some.sort((a, b) => b.heard - a.heard);
    for (const [k, run] of some.entries()) {
      if (k >= most || run.heard < since) this.runs.delete(run.id);
    }
  }

  _know(run) {
    const known = this.runs.get(run.id);
    if (known && known.step >= run.last.step) return;
    this._record(run.last).heard = Math.min(Date.now(), Date.parse(run.last.at));
  }

  _take(answer) {
    const known = this.runs.get(answer.id);
    if (known && (known.step > answer.step || (known.step === answer.step && !answer.end))) return;
    this._record(answer);
    for (const [act, id] of this._runViews) if (id === answer.id) act(answer);
    this._changed();
  }

  _record(answer) {
    let record = this.runs.get(answer.id);
    if (!record) {
      record = { id: answer.id, agent: answer.agent, run: answer.run, trail: [] };
      this.runs.set(answer.id, record);
    }
    const wasIn = record.alarm;
    Object.assign(record, {
      contract: answer.contract, step: answer.step, p: answer.p, spread: answer.spread,
      status: answer.status, reason: answer.reason ?? "", soFar: answer.so_far,
      threshold: answer.threshold, alarm: answer.alarm ?? "", ended: answer.end ?? false,
      at: answer.at, heard: Date.now(), stands: statusOf(answer),
    });
    record.trail.push(answer.p);
    if (record.trail.length > TRAIL) record.trail.shift();
    if (wasIn && wasIn !== record.alarm) this.openAlarms.delete(wasIn);
    if (record.alarm) this.openAlarms.add(record.alarm);
    return record;
  }

  _became(state) {
    if (this.state === state) return;
    this.state = state;
    this.since = Date.now();
    this._changed();
  }

  _changed() {
    if (this._planned) return;
    this._planned = true;
    const wait = Math.max(0, PAINT - (performance.now() - (this._painted ?? 0)));
    setTimeout(() => requestAnimationFrame(() => {
      this._planned = false;
      this._painted = performance.now();
      for (const act of this._views) act();
    }), wait);
  }
}
