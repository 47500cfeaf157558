// The head of the page, and what starts the rest.

function fillSummary() {
  const t = plan.totals;
  const step = stepAt(plan.peak);
  const top = liveAt(plan.peak);
  byId("name").textContent = plan.name;
  byId("about").textContent = [`memory plan: ${plural(plan.steps.length, "step", "steps")}, ${plural(placed.length, "buffer", "buffers")} in the arena`, plan.producer ? `model by ${plan.producer}` : ""].filter(Boolean).join("; ");
  const ties = plan.live.filter((n) => n === plan.live[plan.peak]).length - 1;
  const lower = t.step >= t.bound
    ? "No other order could lower it: one step alone needs as much. Only a smaller tensor there would."
    : `Another order might lower it, but to no less than ${size(t.step)}, which one step needs alone.`;
  const lead = top.slice(0, 3).reduce((sum, b) => sum + neededAt(b, plan.peak), 0);
  byId("answer").append(
    el("p", { class: "main" }, "A run needs ", el("b", {}, size(t.arena)), " in one arena", plan.least ? ", also at smaller extents" : "", ...(t.weights > 0 ? [", and ", el("b", {}, size(t.weights)), " of weights beside it."] : ["; there are no weights."]), plan.inputs.length > 0 ? " The inputs stay the caller's." : ""),
    el("p", {}, "The most is live at ", el("b", {}, tickName(plan.peak)), step === null ? "" : ` (${plan.steps[step].kind} ${tail(plan.steps[step].name, 60)})`, `: ${both(plan.live[plan.peak])} in ${plural(top.length, "buffer", "buffers")}${top.length > 3 ? `, the three largest make ${percent(lead, plan.live[plan.peak])}` : ""}.`, ties > 0 ? ` As much is live at ${plural(ties, "other step", "other steps")}.` : ""),
    el("p", { class: "soft" }, `The arena is ${t.arena === t.bound ? "exactly that" : `${ratio(t.arena, t.bound)} times that`}${t.optimal ? ", the smallest possible for this order of steps" : ""}. ${lower}`),
  );
  const most = Math.max(t.naive, t.arena, t.eager, 1);
  const rows = [
    ["Naive: each tensor apart", t.naive, ""],
    ["Eager executor, peak", t.eager, ""],
    ["Arena, static executor", t.arena, "strong"],
    ["Lower bound: most live at once", t.bound, "strong"],
    ["Order bound: largest single step", t.step, ""],
  ];
  byId("bars").append(
    el("tbody", {}, ...rows.map(([name, n, kind]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, el("div", { class: `bar ${kind}`, style: `width: ${(100 * n) / most}%` })), el("td", { class: "number", title: `${whole(n)} bytes` }, size(n))))),
  );
}

function fillLegend() {
  const swatch = (colour) => el("span", { class: "swatch", style: `background: var(${colour})` });
  const line = (colour, kind, text) => el("li", {}, el("span", { class: `swatch line ${kind}`, style: `border-color: var(${colour})` }), text);
  const items = [];
  if (colours.by === "kind") {
    const there = KINDS.filter((kind) => placed.some((b) => plan.buffers[b].kind === kind));
    items.push(...there.map((kind) => el("li", {}, swatch(`--${kind}`), kind)));
  } else {
    items.push(...primitives.map((name, i) => el("li", {}, swatch(`--c${i}`), name)));
    if (placed.some((b) => !primitives.includes(writerKind(b)))) items.push(el("li", {}, swatch("--c7"), "others"));
  }
  items.push(line("--live", "", plan.eager ? "live bytes" : "live bytes, also the eager executor's"));
  if (plan.eager) items.push(line("--eager", "dashed", plan.symbols.length > 0 ? "eager executor, free dims at their largest" : "eager executor"));
  if (plan.least) items.push(line("--least", "dotted", "eager executor, free dims at their smallest"));
  items.push(line("--ink", "", `arena ${size(plan.totals.arena)}`), line("--mark", "dashed", `bound ${size(plan.totals.bound)}`));
  for (const [body, { name, colour }] of Object.entries(BODIES)) {
    if (bodies.some((b) => b.body === body)) items.push(el("li", {}, swatch(colour), `strip: ${name}`));
  }
  if (bodies.some((b) => b.body === "else")) items.push(el("li", {}, "the branches of an If are drawn one after the other; one of them runs"));
  items.push(el("li", {}, "outlined: what the chosen step reads (thin) and writes (thick)"));
  byId("legend").replaceChildren(...items);
}

fillSummary();
fillLegend();
fillTables();
startPanel();
startMap();
byId("go-peak").addEventListener("click", () => choose({ tick: plan.peak, buffer: null }));
byId("zoom-in").addEventListener("click", () => zoomAtChosen(0.5));
byId("zoom-out").addEventListener("click", () => zoomAtChosen(2));
byId("fit").addEventListener("click", lookAtAll);
byId("colours").addEventListener("change", (event) => {
  colours.by = event.target.value;
  shownTick = null;
  fillLegend();
  choose({});
});
choose({});
