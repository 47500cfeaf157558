// The lists beside the map: what is live at a step, all steps, and the facts of one buffer.

function facts(...pairs) {
  const list = el("dl", { class: "facts" });
  for (const [term, ...values] of pairs) {
    if (values[0] === null || values[0] === undefined || values[0] === "") continue;
    list.append(el("dt", {}, term), el("dd", {}, ...values));
  }
  return list;
}

/** Some names, each on a line of its own, and how many more there are. */
function lines(list, most, line) {
  const shown = list.slice(0, most).map((item) => el("div", {}, line(item)));
  if (list.length > most) shown.push(el("div", { class: "soft" }, `and ${list.length - most} more`));
  return shown;
}
const stepLine = (s) => `${plan.steps[s].kind} ${tail(plan.steps[s].name, 44)} (step ${numbers(plan.steps[s])})`;

/** The names of some steps, with their numbers. */
function stepNames(list, most) {
  const some = list.slice(0, most).map(stepLine);
  if (list.length > most) some.push(`and ${list.length - most} more`);
  return some.join("; ");
}

/** Everything about a buffer; short where there is little room. */
function bufferFacts(b, short) {
  const buffer = plan.buffers[b];
  const tensors = holds[b].map((v) => plan.values[v]);
  const main = plan.values[mainValue(b)];
  const others = tensors.filter((t) => t !== main);
  const most = short ? 2 : 8;
  const nobody = buffer.kind === "output" ? "the caller" : "no step";
  return el(
    "div",
    {},
    el("p", { class: "title" }, short ? tail(buffer.name, 90) : buffer.name),
    facts(
      ["Holds", `${buffer.kind}${main ? `, ${main.tensor}` : ""}`],
      ["Bytes", `${both(buffer.bytes)}${buffer.needs !== buffer.bytes ? `, ${whole(buffer.needs)} before alignment` : ""}`],
      ["Formula", short ? null : buffer.formula],
      ["Offset", `${whole(buffer.offset)} in the arena`],
      ["Live", lifetime(buffer)],
      ["Written by", ...lines(writers[b], short ? 1 : 4, stepLine)],
      ["Read by", ...(readers[b].length ? lines(readers[b], most, stepLine) : [nobody])],
      ["Also holds", ...lines(others, most, (t) => `${tail(t.name, 40)} ${t.tensor}${t.strided ? ", strided" : ""}`)],
      ["Kept alive by", ...lines([...new Set(buffer.pinned)].filter((v) => v !== mainValue(b)), most, (v) => tail(plan.values[v].name, 44))],
    ),
  );
}

function liveRow(b, tick, top) {
  const buffer = plan.buffers[b];
  const needed = neededAt(b, tick);
  const main = plan.values[mainValue(b)];
  const row = el(
    "button",
    { type: "button", class: "row", "data-buffer": b, tabindex: -1, click: () => choose({ buffer: b }), focus: () => choose({ buffer: b }) },
    el("span", { class: "top" }, el("span", { class: "swatch", style: `background: var(${colourOf(b)})` }), el("span", { class: "name", title: buffer.name }, tail(nameOf(b), 32)), el("span", { class: "number" }, size(needed))),
    el("div", { class: "bottom" }, `${buffer.kind}${main ? `, ${main.tensor}` : ""}, ${lifetime(buffer)}`),
    el("div", { class: "share", style: `background: var(${colourOf(b)}); width: ${(100 * needed) / Math.max(top, 1)}%` }),
  );
  return el("li", {}, row);
}

let shownTick = null;
function showLive() {
  const tick = chosen.tick;
  const step = stepAt(tick);
  const live = liveAt(tick);
  const what = step === null ? null : plan.steps[step];
  const place = what && what.block > 0 ? ` (step ${what.place} of block ${what.block})` : "";
  byId("here").replaceChildren(
    el("p", {}, el("b", {}, `${tick === plan.peak ? "The peak, " : ""}${tickName(tick)}${place}: ${size(plan.live[tick])}`), ` in ${plural(live.length, "buffer", "buffers")}, ${percent(plan.live[tick], plan.totals.arena)} of the arena`),
    el("p", { class: "soft" }, what ? `${what.kind} ${what.name}${what.note ? `, ${what.note}` : ""}${what.seam ? `; a device graph ends here: ${what.seam}` : ""}` : "Outputs are held until the caller has read them."),
  );
  const list = byId("live");
  if (shownTick !== tick) {
    list.replaceChildren(...live.map((b) => liveRow(b, tick, live.length ? neededAt(live[0], tick) : 1)));
    list.scrollTop = 0;
    shownTick = tick;
  }
  markRows(list, (row) => Number(row.dataset.buffer) === chosen.buffer);
}

/** Marks the current row, and makes it the one that the tab key reaches. */
function markRows(list, isCurrent) {
  let reached = false;
  for (const row of list.querySelectorAll(".row")) {
    const current = isCurrent(row);
    if (current) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
    row.tabIndex = current && !reached ? 0 : -1;
    reached ||= current;
  }
  const first = list.querySelector("li:not([hidden]) .row");
  if (!reached && first) first.tabIndex = 0;
}

/** Up and down move through the rows of a list that are shown. */
function moveInList(event) {
  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
  const move = moves[event.key];
  const row = event.target.closest(".row");
  if (!move || !row) return;
  event.preventDefault();
  const rows = [...event.currentTarget.querySelectorAll("li:not([hidden]) .row")];
  const to = Math.min(rows.length - 1, Math.max(0, rows.indexOf(row) + move));
  if (rows[to]) rows[to].focus();
}

function stepRow(s, depth) {
  const step = plan.steps[s];
  const names = (list) => list.map((v) => tail(plan.values[v].name, 32)).join(", ");
  const text = `${names(step.reads)} → ${names(step.writes)}`;
  const row = el(
    "button",
    { type: "button", class: "row", "data-step": s, tabindex: -1, style: `padding-left: ${8 + 16 * depth}px`, click: () => chooseStep(s), focus: () => chooseStep(s) },
    el("span", { class: "top" }, el("span", { class: "number soft" }, numbers(step)), el("b", {}, step.kind), el("span", { class: "name", title: step.name }, tail(step.name, 28)), el("span", { class: "number" }, size(Math.max(...plan.live.slice(step.ticks[0], step.ticks[1]))))),
    el("div", { class: "bottom", title: text }, step.note ? `${step.note}; ${text}` : text),
  );
  return el("li", { "data-step": s }, row);
}

function chooseStep(s) {
  if (stepAt(chosen.tick) !== s) choose({ tick: plan.steps[s].ticks[0], buffer: null, step: s });
}

const stepItems = new Map();
function fillSteps() {
  const items = plan.rows.map((row) => {
    if (row.step === undefined) {
      const span = row.ticks ? `, step ${numbers(row)}` : ", no steps";
      return el("li", {}, el("div", { class: "heading", style: `padding-left: ${8 + 16 * row.depth - 8}px` }, `${BODIES[row.body].name}${span}`));
    }
    const item = stepRow(row.step, row.depth);
    stepItems.set(row.step, item);
    return item;
  });
  byId("steps").replaceChildren(...items);
  byId("search").addEventListener("input", search);
  search();
}

const haystack = plan.steps.map((step) => {
  const tensors = [...step.reads, ...step.writes].map((v) => `${plan.values[v].name} ${plan.values[v].tensor}`);
  return [step.kind, step.name, step.note, ...tensors].join("\n").toLowerCase();
});
function search() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  plan.steps.forEach((_, s) => {
    const shown = words.every((w) => haystack[s].includes(w));
    n += shown ? 1 : 0;
    stepItems.get(s).hidden = !shown;
  });
  for (const heading of byId("steps").querySelectorAll(".heading")) heading.parentElement.hidden = words.length > 0;
  byId("found").textContent = words.length ? `${whole(n)} of ${whole(plan.steps.length)}` : plural(n, "step", "steps");
}

function showSteps() {
  const current = stepAt(chosen.tick);
  const list = byId("steps");
  markRows(list, (row) => Number(row.dataset.step) === current);
  const item = stepItems.get(current);
  if (!item || byId("page-steps").hidden || list.contains(document.activeElement)) return;
  list.scrollTop = item.offsetTop - list.offsetTop - list.clientHeight / 3;
}

function showDetail() {
  const detail = byId("detail");
  if (chosen.buffer === null) detail.replaceChildren(el("p", { class: "soft", style: "margin: 0" }, "Choose a buffer in the map or the list to see where it lies, who writes and reads it, and what keeps it."));
  else detail.replaceChildren(bufferFacts(chosen.buffer, false));
}

function chooseTab(name) {
  for (const tab of ["live", "steps"]) {
    const on = tab === name;
    byId(`tab-${tab}`).setAttribute("aria-selected", String(on));
    byId(`tab-${tab}`).tabIndex = on ? 0 : -1;
    byId(`page-${tab}`).hidden = !on;
  }
  showSteps();
}

function startPanel() {
  fillSteps();
  for (const tab of ["live", "steps"]) {
    byId(`tab-${tab}`).addEventListener("click", () => chooseTab(tab));
    byId(`tab-${tab}`).addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = tab === "live" ? "steps" : "live";
      chooseTab(other);
      byId(`tab-${other}`).focus();
    });
    byId(tab).addEventListener("keydown", moveInList);
  }
  listeners.push(showLive, showSteps, showDetail);
}
