// What is said below the map: the peak, the totals, the ports, what is checked, and what could not share memory.

function table(title, note, heads, rows, wide) {
  if (!rows.length) return null;
  const cells = (row) => row.map((cell, i) => el("td", { class: heads[i].class }, cell));
  return el(
    "section",
    { class: wide ? "table wide" : "table" },
    el("h2", {}, title),
    note ? el("p", {}, note) : null,
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { class: h.class, scope: "col" }, h.text)))), el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row)))))),
  );
}
const column = (text, kind) => ({ text, class: kind });

/** A name that shows its buffer in the map. */
function shows(b, tick, text) {
  return el("button", { type: "button", class: "link", click: () => {
    choose({ tick, buffer: b });
    byId("work").scrollIntoView({ block: "start" });
  } }, text);
}

function peakTable() {
  const live = liveAt(plan.peak);
  const most = 12;
  const rows = live.slice(0, most).map((b) => {
    const buffer = plan.buffers[b];
    const main = plan.values[mainValue(b)];
    return [shows(b, plan.peak, buffer.name), buffer.kind, main ? main.tensor : "", whole(neededAt(b, plan.peak)), percent(neededAt(b, plan.peak), plan.live[plan.peak]), lifetime(buffer), stepNames(writers[b], 1)];
  });
  const rest = live.slice(most).reduce((sum, b) => sum + neededAt(b, plan.peak), 0);
  if (live.length > most) rows.push([`${live.length - most} more`, "", "", whole(rest), percent(rest, plan.live[plan.peak]), "", ""]);
  const heads = [column("buffer"), column("holds", "keep"), column("tensor"), column("bytes", "number"), column("share", "number"), column("live"), column("written by")];
  return table("Live at the peak", `${tickName(plan.peak)}: ${both(plan.live[plan.peak])} in ${plural(live.length, "buffer", "buffers")}.`, heads, rows, true);
}

function totalsTable() {
  const t = plan.totals;
  const rows = [
    ["every activation and workspace in its own memory", t.naive, "naive"],
    ["most live at one step: no placement can be smaller in this order", t.bound, "lower bound"],
    ["the peak of the eager executor, which takes each buffer as a whole when a step first needs it and frees it after the last that does", t.eager, "eager peak"],
    ["the arena of the static executor", t.arena, "arena"],
    ["the part of the arena that keeps the model's states between runs", t.states, "states"],
    ["the most that a single step reads and writes: no order can need less, and perhaps none reaches it", t.step, "order bound"],
    ["constants, in their own file, not in the arena", t.weights, "weights"],
  ];
  const note = `With every free dim at its largest, aligned to ${whole(plan.align)} bytes. Not counted: the caller's inputs, code and stack.`;
  return table("Totals", note, [column("figure", "keep"), column("bytes", "number"), column("", "number"), column("what it is")], rows.map(([what, n, name]) => [name, whole(n), n < 1024 ? "" : size(n), what]));
}

function portsTable() {
  const tensor = (v) => (plan.values[v] ? plan.values[v].tensor : "");
  const rows = [
    ...plan.inputs.map((p) => ["input", p.name, p.tensor || "", "in the caller's memory"]),
    ...plan.outputs.map((p) => ["output", p.name, p.tensor || "", outputPlace(p)]),
    ...plan.states.map((s) => ["state", s.input, tensor(s.value), `left by ${s.output}`]),
    ...plan.symbols.map((s) => ["dim", s.name, s.range, s.source]),
  ];
  return table("Inputs, outputs, states, dims", "", [column("", "keep"), column("name"), column("type, dims or range"), column("where")], rows);
}
function outputPlace(port) {
  const b = plan.values[port.value] ? plan.values[port.value].buffer : -1;
  const buffer = plan.buffers[b];
  if (!buffer || buffer.ticks === null) return buffer ? `a ${buffer.kind}` : "";
  return shows(b, buffer.ticks[0], `byte ${whole(buffer.offset)} of the arena`);
}

function refusalsTable() {
  const reasons = new Map();
  for (const refusal of plan.refusals) {
    if (!reasons.has(refusal.reason)) reasons.set(refusal.reason, []);
    reasons.get(refusal.reason).push(refusal);
  }
  if (!reasons.size) return null;
  const groups = [...reasons].sort((a, b) => b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1));
  const lists = groups.map(([reason, list]) => {
    const details = el("details", { open: groups.length * list.length <= 12 }, el("summary", {}, `${plural(list.length, "time", "times")}: ${reason}`));
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      const rows = list.map((r) => el("tr", {}, el("td", {}, shows(plan.values[r.value].buffer, firstTick(r.value), plan.values[r.value].name)), el("td", {}, plan.values[r.value].tensor), el("td", {}, `at ${r.step}`)));
      details.append(el("table", {}, el("tbody", {}, ...rows)));
    });
    return details;
  });
  const note = "Where a step could not write over what it reads, or a copy could not be saved, and why.";
  return el("section", { class: "table wide" }, el("h2", {}, `Memory that could not be shared: ${whole(plan.refusals.length)}`), el("p", {}, note), ...lists);
}
function firstTick(v) {
  const ticks = plan.buffers[plan.values[v].buffer].ticks;
  return ticks ? ticks[0] : plan.peak;
}

function fillTables() {
  const guards = plan.guards.map((g) => [g.holds, g.what]);
  const profiles = plan.profiles.map((p) => [p.ranges || "no free dims", whole(p.arena), whole(p.bound)]);
  const parts = [
    peakTable(),
    totalsTable(),
    portsTable(),
    table("Checked when a run begins", "A run that breaks one of these is refused before anything is touched.", [column("must hold"), column("why")], guards),
    table("Profiles", profiles.length === 1 ? "One plan serves the whole of the ranges." : "Each is a plan for a part of the ranges.", [column("ranges"), column("arena, bytes", "number"), column("bound, bytes", "number")], profiles),
    refusalsTable(),
  ];
  byId("tables").append(...parts.filter(Boolean));
}
