// The drawing: the curves of live bytes above, the arena over time below, on one axis of steps.

const canvas = byId("map");
const tip = byId("tip");
const arena = Math.max(plan.totals.arena, 1);
const highest = Math.max(arena, ...(plan.eager || [0])) * 1.06;

/** What is in sight: ticks and bytes of the arena. */
const sight = { x0: 0, x1: END + 1, y0: 0, y1: arena };
let box = null;
let drag = null;
let hovered = null;
let wanted = false;

function layout() {
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  const left = 74;
  const right = 10;
  const deep = Math.min(5, bodies.reduce((most, b) => Math.max(most, b.depth), 0));
  const strip = deep * 9;
  const curves = { top: 34, height: Math.max(80, Math.round(height * 0.24)) };
  const top = curves.top + curves.height + 26 + strip;
  return { width, height, left, right, plot: width - left - right, curves, strip, top, map: height - top - 40 };
}

/** Bodies of branches and loops, for the strip between curves and map. */
const bodies = plan.rows.filter((row) => row.step === undefined && row.ticks);

const xOf = (tick) => box.left + ((tick - sight.x0) / (sight.x1 - sight.x0)) * box.plot;
const yOf = (byte) => box.top + box.map - ((byte - sight.y0) / (sight.y1 - sight.y0)) * box.map;
const curveY = (bytes) => box.curves.top + box.curves.height * (1 - bytes / highest);
const tickOf = (x) => Math.floor(sight.x0 + ((x - box.left) / box.plot) * (sight.x1 - sight.x0));
const byteOf = (y) => sight.y0 + ((box.top + box.map - y) / box.map) * (sight.y1 - sight.y0);

/** Distances between marks: 1, 2 or 5 times a power of ten, or a power of two. */
function decimalStep(span, most) {
  const raw = Math.max(1, span / most);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
}
/** A power of two in the unit that suits `most`. */
function round(byte, most) {
  const unit = Math.min(4, Math.floor(Math.log2(Math.max(1, most)) / 10));
  return byte === 0 ? "0" : `${Number((byte / 1024 ** unit).toPrecision(4))} ${["bytes", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}
const binaryStep = (span, most) => 2 ** Math.ceil(Math.log2(Math.max(1, span / most)));

function redraw() {
  if (wanted) return;
  wanted = true;
  requestAnimationFrame(() => {
    wanted = false;
    draw();
  });
}

function draw() {
  box = layout();
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(box.width * scale);
  canvas.height = Math.round(box.height * scale);
  const g = canvas.getContext("2d");
  g.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(name).trim();
  g.font = `12px ${style.fontFamily}`;
  drawAxes(g, ink);
  inside(g, box.curves.top - 4, box.curves.height + 4, () => drawCurves(g, ink));
  inside(g, box.top - box.strip - 4, box.strip + 4, () => drawBodies(g, ink));
  inside(g, box.top, box.map, () => drawBlocks(g, ink));
  drawChosen(g, ink);
  drawTitles(g, ink);
}

function inside(g, top, height, paint) {
  g.save();
  g.beginPath();
  g.rect(box.left, top, box.plot, height + 0.5);
  g.clip();
  paint();
  g.restore();
}

function drawAxes(g, ink) {
  g.textBaseline = "middle";
  const line = (x0, y0, x1, y1, colour) => {
    g.strokeStyle = ink(colour);
    g.lineWidth = 1;
    g.beginPath();
    g.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
    g.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
    g.stroke();
  };
  g.textAlign = "right";
  const rows = (from, to, count, y) => {
    const step = binaryStep(to - from, count);
    for (let byte = Math.ceil(from / step) * step; byte <= to; byte += step) {
      line(box.left, y(byte), box.width - box.right, y(byte), "--grid");
      g.fillStyle = ink("--soft");
      g.fillText(round(byte, to), box.left - 6, y(byte));
    }
  };
  rows(0, highest, 5, curveY);
  rows(sight.y0, sight.y1, 7, yOf);
  const bottom = box.top + box.map;
  const step = decimalStep(sight.x1 - sight.x0, Math.max(3, box.plot / 80));
  g.textAlign = "center";
  for (let tick = Math.ceil(sight.x0 / step) * step; tick < Math.min(sight.x1, END); tick += step) {
    const x = xOf(tick + 0.5);
    if (x < box.left || x > box.width - box.right) continue;
    line(x, bottom, x, bottom + 4, "--soft");
    g.fillStyle = ink("--soft");
    g.fillText(String(tick), x, bottom + 12);
  }
  line(box.left, box.curves.top + box.curves.height, box.width - box.right, box.curves.top + box.curves.height, "--soft");
  line(box.left, bottom, box.width - box.right, bottom, "--soft");
  g.fillStyle = ink("--ink");
  g.fillText("step, in running order", box.left + box.plot / 2, bottom + 30);
}

/** What the two parts show; drawn over the line of the chosen step. */
function drawTitles(g, ink) {
  g.textAlign = "left";
  g.textBaseline = "middle";
  const title = (text, y) => {
    g.fillStyle = ink("--card");
    g.fillRect(0, y - 8, g.measureText(text).width + 8, 16);
    g.fillStyle = ink("--ink");
    g.fillText(text, 4, y);
  };
  title("bytes live at each step", 8);
  title("offset in the arena, bytes", box.top - box.strip - 13);
}

/** A curve over ticks as a staircase; the higher value where several ticks fall on one pixel. */
function stairs(g, list) {
  const from = Math.max(0, Math.floor(sight.x0));
  const to = Math.min(list.length, Math.ceil(sight.x1));
  g.beginPath();
  let first = true;
  for (let tick = from; tick < to; ) {
    let next = tick + 1;
    let value = list[tick];
    while (next < to && xOf(next) - xOf(tick) < 0.7) value = Math.max(value, list[next++]);
    const y = curveY(value);
    if (first) g.moveTo(xOf(tick), y);
    else g.lineTo(xOf(tick), y);
    g.lineTo(xOf(next), y);
    first = false;
    tick = next;
  }
}

function drawCurves(g, ink) {
  const base = curveY(0);
  stairs(g, plan.live);
  g.strokeStyle = ink("--live");
  g.lineWidth = 1.5;
  g.stroke();
  g.lineTo(xOf(Math.min(plan.live.length, sight.x1)), base);
  g.lineTo(xOf(Math.max(0, sight.x0)), base);
  g.fillStyle = ink("--fill");
  g.fill();
  const curve = (list, colour, dash) => {
    g.setLineDash(dash);
    g.strokeStyle = ink(colour);
    stairs(g, list);
    g.stroke();
    g.setLineDash([]);
  };
  if (plan.eager) curve(plan.eager, "--eager", [6, 3]);
  if (plan.least) curve(plan.least, "--least", [2, 3]);
  const level = (bytes, colour, dash) => {
    g.setLineDash(dash);
    g.strokeStyle = ink(colour);
    g.lineWidth = 1.5;
    g.beginPath();
    g.moveTo(box.left, curveY(bytes));
    g.lineTo(box.left + box.plot, curveY(bytes));
    g.stroke();
    g.setLineDash([]);
  };
  level(plan.totals.arena, "--ink", []);
  level(plan.totals.bound, "--mark", [7, 5]);
}

function drawBodies(g, ink) {
  for (const body of bodies) {
    const [x0, x1] = [xOf(body.ticks[0]), xOf(body.ticks[1])];
    const y = box.top - box.strip - 3 + 9 * (Math.min(body.depth, 5) - 1);
    g.fillStyle = ink(BODIES[body.body].colour);
    g.fillRect(x0, y, Math.max(1, x1 - x0 - 1), 7);
  }
}

/** The rectangles of a buffer, in pixels; at least one pixel either way. */
function rectangles(b) {
  const offset = plan.buffers[b].offset;
  return blocksOf(b).map(([from, to, low, high]) => {
    const x = xOf(from);
    const y = yOf(offset + high);
    return { x, y, w: Math.max(1, xOf(to) - x), h: Math.max(1, yOf(offset + low) - y) };
  });
}
/** The largest of them, which has room for a name. */
const rectangle = (b) => rectangles(b).reduce((most, r) => (r.w * r.h > most.w * most.h ? r : most));
const inSight = (r) => r.x + r.w >= box.left && r.x <= box.left + box.plot && r.y + r.h >= box.top && r.y <= box.top + box.map;

function drawBlocks(g, ink) {
  const palette = new Map();
  const paint = (name) => {
    if (!palette.has(name)) palette.set(name, ink(name));
    return palette.get(name);
  };
  let thin = 0;
  g.textBaseline = "top";
  g.textAlign = "left";
  for (const b of placed) {
    const all = rectangles(b);
    const r = rectangle(b);
    if (!all.some(inSight) || plan.buffers[b].bytes === 0) continue;
    g.fillStyle = paint(colourOf(b));
    all.forEach((part, i) => {
      const roomy = part.w > 3 && part.h > 3;
      // A gap keeps neighbours of one colour apart, but not the steps of one buffer.
      g.fillRect(part.x, part.y, roomy && i === all.length - 1 ? part.w - 1 : part.w, roomy ? part.h - 1 : part.h);
    });
    if (r.h <= 1) thin += 1;
    if (r.w > 46 && r.h > 15) label(g, b, r, paint("--block-ink"));
  }
  byId("thin").textContent = thin
    ? `${plural(thin, "buffer is", "buffers are")} thinner than a pixel at this scale and drawn as ${thin === 1 ? "a hairline" : "hairlines"}: zoom in, or use the list.`
    : "";
}

const widths = new Map();
function label(g, b, r, colour) {
  const x = Math.max(r.x, box.left) + 6;
  const room = Math.min(r.x + r.w, box.left + box.plot) - x - 5;
  const top = Math.max(r.y, box.top) + (r.h > 34 ? 5 : 2);
  const high = Math.min(r.y + r.h, box.top + box.map) - top;
  if (room < 36 || high < 12) return;
  if (!widths.has("0")) widths.set("0", g.measureText("mm0e_/nn").width / 8);
  const fits = Math.floor(room / widths.get("0"));
  const name = tail(nameOf(b), fits);
  const bytes = size(plan.buffers[b].bytes);
  g.fillStyle = colour;
  if (high > 28) {
    g.fillText(name, x, top, room);
    if (bytes.length <= fits + 1) g.fillText(bytes, x, top + 14, room);
  } else if (fits >= 5) {
    g.fillText(`${name}${name.length + bytes.length + 2 <= fits ? `  ${bytes}` : ""}`, x, top, room);
  }
}

function drawChosen(g, ink) {
  const step = chosen.step !== null ? chosen.step : stepAt(chosen.tick);
  const [from, to] = chosen.step !== null ? plan.steps[step].ticks : [chosen.tick, chosen.tick + 1];
  g.save();
  g.beginPath();
  g.rect(box.left, 0, box.plot, box.top + box.map);
  g.clip();
  const x = xOf(from);
  const w = Math.max(1.5, xOf(to) - x);
  g.strokeStyle = ink("--ink");
  g.lineWidth = 1;
  g.fillStyle = ink("--ink");
  g.globalAlpha = 0.14;
  g.fillRect(x, box.curves.top, w, box.top + box.map - box.curves.top);
  g.globalAlpha = 1;
  g.strokeRect(x, box.curves.top - 0.5, w, box.top + box.map - box.curves.top);
  note(g, ink, plan.peak, `peak, ${tickName(plan.peak)}: ${size(plan.live[plan.peak])}`, "--mark");
  if (chosen.tick !== plan.peak) note(g, ink, chosen.tick, `${tickName(chosen.tick)}: ${size(plan.live[chosen.tick])}`, "--ink");
  g.restore();
  inside(g, box.top, box.map, () => {
    const outline = (b, width, colour) => {
      if (!plan.buffers[b] || plan.buffers[b].ticks === null) return;
      for (const [paint, line] of [["--edge", width + 2], [colour, width]]) {
        g.strokeStyle = ink(paint);
        g.lineWidth = line;
        for (const r of rectangles(b)) g.strokeRect(r.x + width / 2, r.y + width / 2, Math.max(0.5, r.w - 1 - width), Math.max(0.5, r.h - 1 - width));
      }
    };
    if (step !== null) {
      for (const v of plan.steps[step].reads) outline(plan.values[v].buffer, 1, "--ink");
      for (const v of plan.steps[step].writes) outline(plan.values[v].buffer, 2.5, "--ink");
    }
    if (hovered !== null) outline(hovered, 2, "--accent");
    if (chosen.buffer !== null) outline(chosen.buffer, 3, "--accent");
  });
  if (drag && drag.moved) {
    g.strokeStyle = ink("--accent");
    g.setLineDash([4, 3]);
    g.strokeRect(Math.min(drag.x, drag.toX), Math.min(drag.y, drag.toY), Math.abs(drag.toX - drag.x), Math.abs(drag.toY - drag.y));
    g.setLineDash([]);
  }
}

/** Words at the top of a tick's line in the curves. */
function note(g, ink, tick, text, colour) {
  const x = xOf(tick + 0.5);
  if (x < box.left || x > box.left + box.plot) return;
  const width = g.measureText(text).width;
  const right = x + 6 + width < box.left + box.plot;
  g.fillStyle = ink("--card");
  // The note of the peak has a line of its own; the other one stands beside the title of the curves.
  const y = tick === plan.peak ? 24 : 8;
  const free = y > 20 ? 0 : g.measureText("bytes live at each step").width + 16;
  g.globalAlpha = 0.85;
  const from = Math.max(free, right ? x + 6 : x - width - 6);
  g.fillRect(from - 3, y - 7, width + 6, 14);
  g.globalAlpha = 1;
  g.fillStyle = ink(colour);
  g.textBaseline = "middle";
  g.textAlign = "left";
  g.fillText(text, from, y);
}

// What is in sight, and where the pointer is.

function look(x0, x1, y0, y1) {
  const across = Math.max(Math.min(4, END + 1), Math.min(END + 1, x1 - x0));
  const up = Math.max(Math.min(64, arena), Math.min(arena, y1 - y0));
  sight.x0 = Math.max(0, Math.min(END + 1 - across, x0));
  sight.x1 = sight.x0 + across;
  sight.y0 = Math.max(0, Math.min(arena - up, y0));
  sight.y1 = sight.y0 + up;
  redraw();
}
function zoom(factor, tick, byte) {
  const x = (edge) => tick + (edge - tick) * factor;
  const y = (edge) => byte + (edge - byte) * factor;
  look(x(sight.x0), x(sight.x1), y(sight.y0), y(sight.y1));
}
function zoomAtChosen(factor) {
  const buffer = plan.buffers[chosen.buffer === null ? -1 : chosen.buffer];
  const byte = buffer ? buffer.offset + buffer.bytes / 2 : (sight.y0 + sight.y1) / 2;
  zoom(factor, chosen.tick + 0.5, byte);
}
const lookAtAll = () => look(0, END + 1, 0, arena);

/** Moves so that a tick, and a buffer if there is one, is in sight. */
function bring(tick, b) {
  let { x0, x1, y0, y1 } = sight;
  if (tick < x0 || tick + 1 > x1) [x0, x1] = [tick + 0.5 - (x1 - x0) / 2, tick + 0.5 + (x1 - x0) / 2];
  if (b !== null) {
    const middle = plan.buffers[b].offset + plan.buffers[b].bytes / 2;
    if (middle < y0 || middle > y1) [y0, y1] = [middle - (y1 - y0) / 2, middle + (y1 - y0) / 2];
  }
  look(x0, x1, y0, y1);
}

/** The buffer under a point; near it where it is too small to hit. */
function bufferAt(x, y) {
  if (!box || y < box.top - 2 || y > box.top + box.map + 2) return null;
  const near = (b, slack) => rectangles(b).some((r) => x >= r.x - slack && x <= r.x + r.w + slack && y >= r.y - slack && y <= r.y + r.h + slack);
  const hit = placed.filter((b) => near(b, 0));
  if (hit.length) return hit[hit.length - 1];
  return placed.find((b) => near(b, 3)) ?? null;
}

function place(event) {
  const frame = canvas.getBoundingClientRect();
  return { x: event.clientX - frame.left, y: event.clientY - frame.top };
}
function showTip(b, x, y) {
  hovered = b;
  if (b === null) tip.hidden = true;
  else {
    tip.replaceChildren(bufferFacts(b, true));
    tip.hidden = false;
    const left = x + 14 + tip.offsetWidth < box.width ? x + 14 : Math.max(0, x - 14 - tip.offsetWidth);
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.max(0, Math.min(y + 14, box.height - tip.offsetHeight))}px`;
  }
  redraw();
}

function startMap() {
  canvas.addEventListener("pointerdown", (event) => {
    const at = place(event);
    if (event.button === 0 && at.x >= box.left) drag = { ...at, toX: at.x, toY: at.y, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = place(event);
    if (drag && event.buttons & 1) {
      [drag.toX, drag.toY] = [at.x, at.y];
      drag.moved ||= Math.abs(at.x - drag.x) + Math.abs(at.y - drag.y) > 6;
      showTip(null);
    } else showTip(bufferAt(at.x, at.y), at.x, at.y);
  });
  canvas.addEventListener("pointerleave", () => showTip(null));
  canvas.addEventListener("pointerup", () => {
    if (drag && drag.moved) lookAtBox(drag);
    else if (drag) choose({ tick: tickOf(drag.x), buffer: bufferAt(drag.x, drag.y) });
    drag = null;
    redraw();
  });
  canvas.addEventListener("dblclick", lookAtAll);
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const at = place(event);
    zoom(event.deltaY > 0 ? 1.25 : 0.8, tickOf(at.x) + 0.5, byteOf(at.y));
  }, { passive: false });
  canvas.addEventListener("keydown", keys);
  canvas.addEventListener("blur", () => showTip(null));
  new ResizeObserver(redraw).observe(canvas);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  listeners.push((change) => {
    if ("tick" in change || "buffer" in change) bring(chosen.tick, chosen.buffer);
    redraw();
  });
}

function lookAtBox({ x, y, toX, toY }) {
  const at = (px) => sight.x0 + ((px - box.left) / box.plot) * (sight.x1 - sight.x0);
  const inMap = Math.max(y, toY) > box.top;
  const [y0, y1] = inMap ? [byteOf(Math.max(y, toY)), byteOf(Math.min(y, toY))] : [sight.y0, sight.y1];
  look(at(Math.min(x, toX)), at(Math.max(x, toX)), y0, y1);
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const far = event.shiftKey ? 10 : 1;
  const live = liveAt(chosen.tick).sort((a, b) => plan.buffers[b].offset - plan.buffers[a].offset);
  const next = (by) => {
    const now = live.indexOf(chosen.buffer);
    const to = now < 0 ? (by > 0 ? 0 : live.length - 1) : Math.max(0, Math.min(live.length - 1, now + by));
    if (live[to] === undefined) return;
    choose({ buffer: live[to] });
    const r = rectangle(live[to]);
    showTip(live[to], Math.max(box.left, xOf(chosen.tick)), r.y + r.h / 2);
  };
  const actions = {
    ArrowLeft: () => choose({ tick: chosen.tick - far, buffer: null }),
    ArrowRight: () => choose({ tick: chosen.tick + far, buffer: null }),
    ArrowUp: () => next(-1),
    ArrowDown: () => next(1),
    Home: () => choose({ tick: 0, buffer: null }),
    End: () => choose({ tick: END, buffer: null }),
    Escape: () => choose({ buffer: null }),
    "+": () => zoomAtChosen(0.5),
    "=": () => zoomAtChosen(0.5),
    "-": () => zoomAtChosen(2),
    0: lookAtAll,
    p: () => choose({ tick: plan.peak, buffer: null }),
    P: () => choose({ tick: plan.peak, buffer: null }),
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  if (event.key !== "ArrowUp" && event.key !== "ArrowDown") showTip(null);
  actions[event.key]();
}
