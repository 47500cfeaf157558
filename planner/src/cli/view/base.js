// What all parts share: the plan's data, what follows from it, text with units, elements, and what is chosen.

const plan = JSON.parse(document.getElementById("plan").textContent);
const END = plan.ticks.length;
const KINDS = ["activation", "output", "workspace", "state"];
const BODIES = {
  then: { name: "if true", colour: "--c2" },
  else: { name: "if false", colour: "--c1" },
  body: { name: "each turn", colour: "--c4" },
};

/** An element. Text is never read as markup. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else if (name === "style") node.style.cssText = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

const byId = (id) => document.getElementById(id);
const whole = (n) => n.toLocaleString("en-US");

/** Bytes in the unit that suits them: `15.2 MiB`. */
function size(n) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = n;
  while (value >= 1024 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  if (unit === 0) return n === 1 ? "1 byte" : `${n} bytes`;
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[unit]}`;
}
const both = (n) => (n < 1024 ? size(n) : `${size(n)} (${whole(n)} bytes)`);
const percent = (part, all) => (all > 0 ? `${((100 * part) / all).toFixed(part === all ? 0 : 1)} %` : "");
const ratio = (a, b) => (b > 0 ? (a / b).toFixed(4) : "1");
const plural = (n, one, many) => `${whole(n)} ${n === 1 ? one : many}`;

/** The end of a name, which tells most of it. */
const tail = (name, n) => (name.length <= n ? name : `…${name.slice(name.length - n + 1)}`);

// What each buffer holds, and which steps write and read it.
const holds = plan.buffers.map(() => []);
const writers = plan.buffers.map(() => []);
const readers = plan.buffers.map(() => []);
plan.values.forEach((value, v) => {
  if (holds[value.buffer]) holds[value.buffer].push(v);
});
const once = (list, item) => {
  if (list && list[list.length - 1] !== item) list.push(item);
};
plan.steps.forEach((step, s) => {
  for (const v of step.reads) once(readers[plan.values[v].buffer], s);
  for (const v of step.writes) once(writers[plan.values[v].buffer], s);
  if (step.work !== null) once(writers[step.work], s);
});
const inRunningOrder = (a, b) => plan.steps[a].ticks[0] - plan.steps[b].ticks[0] || a - b;
writers.forEach((list) => list.sort(inRunningOrder));
readers.forEach((list) => list.sort(inRunningOrder));

/** The buffers of the arena, the largest first. */
const placed = plan.buffers
  .map((_, b) => b)
  .filter((b) => plan.buffers[b].ticks !== null)
  .sort((a, b) => plan.buffers[b].bytes - plan.buffers[a].bytes || a - b);
/** The blocks of a buffer: from which tick to which it needs which of its bytes. */
const blocksOf = (b) => plan.buffers[b].windows || [[...plan.buffers[b].ticks, 0, plan.buffers[b].bytes]];
const neededAt = (b, tick) => blocksOf(b).reduce((n, [from, to, low, high]) => (from <= tick && tick < to ? high - low : n), 0);
const holdsAt = (b, tick) => blocksOf(b).some(([from, to]) => from <= tick && tick < to);
/** What is live, by what it needs, the most first. */
const liveAt = (tick) => placed.filter((b) => holdsAt(b, tick)).sort((a, b) => neededAt(b, tick) - neededAt(a, tick) || a - b);

/** The innermost step of a tick; none at the end of the run. */
const stepAt = (tick) => (tick < END ? plan.ticks[tick] : null);
const tickName = (tick) => (tick < END ? `step ${tick}` : "the end of the run");

/** A step by its number, or the numbers of the steps that it runs. */
function numbers(step) {
  const [from, to] = step.ticks;
  return to - from > 1 ? `${from} to ${to - 1}` : `${from}`;
}
function lifetime(buffer) {
  const [from, to] = buffer.ticks;
  if (buffer.kind === "state") return "the whole run, and to the next";
  if (to > END) return `step ${from} to the end of the run`;
  return to - from === 1 ? `step ${from} only` : `step ${from} to ${to - 1}`;
}

/** The tensor that a buffer is mostly about: the one it is named after, or the first that is written into it. */
function mainValue(b) {
  const named = holds[b].find((v) => plan.values[v].name === plan.buffers[b].name);
  if (named !== undefined) return named;
  const first = writers[b].length ? plan.steps[writers[b][0]] : null;
  const value = first ? first.writes.find((v) => plan.values[v].buffer === b) : undefined;
  return value !== undefined ? value : holds[b][0];
}

/** The name of a buffer where its colour, or a word beside it, says that it is a workspace. */
const nameOf = (b) => (plan.buffers[b].kind === "workspace" ? plan.buffers[b].name.replace(/ \(workspace\)$/, "") : plan.buffers[b].name);

// What is chosen: a tick, and perhaps a buffer. Whoever shows it subscribes.
const chosen = { tick: plan.peak, buffer: liveAt(plan.peak)[0] ?? null, step: null };
const listeners = [];
function choose(change) {
  if ("tick" in change) chosen.step = null;
  Object.assign(chosen, change);
  if (chosen.tick < 0) chosen.tick = 0;
  if (chosen.tick > END) chosen.tick = END;
  for (const listener of listeners) listener(change);
}

// Colours: by what a buffer holds, or by the primitive that writes it first.
const writerKind = (b) => (writers[b].length ? plan.steps[writers[b][0]].kind : "state");
const primitives = (() => {
  const bytes = new Map();
  for (const b of placed) {
    const span = plan.buffers[b].ticks[1] - plan.buffers[b].ticks[0];
    bytes.set(writerKind(b), (bytes.get(writerKind(b)) || 0) + plan.buffers[b].bytes * span);
  }
  return [...bytes].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 7).map((e) => e[0]);
})();
const colours = { by: "kind" };
function colourOf(b) {
  if (colours.by === "kind") return `--${plan.buffers[b].kind}`;
  const place = primitives.indexOf(writerKind(b));
  return `--c${place < 0 ? 7 : place}`;
}
