"use strict";
// The page of who holds the memory. All of it is made from the data in the page; nothing is fetched.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#bab0ac"];
const LIBRARY = /[\\/](tocha|site-packages)[\\/]/;

const blocks = data.blocks.map(([begin, end, bytes, operator, ranges, modules, lines, name, category]) => ({
  begin: begin === null ? -1 : begin,
  end: end === null ? Infinity : end,
  bytes,
  operator: data.texts[operator],
  ranges: ranges.map((i) => data.texts[i]),
  modules: modules.map((i) => data.texts[i]),
  lines: lines.map((i) => data.texts[i]),
  name: data.texts[name],
  category: data.texts[category],
}));
for (const b of blocks) b.line = b.lines.find((line) => !LIBRARY.test(line)) || b.lines[0] || "";

const GROUPS = {
  "who holds it": (b) => b.name || (b.modules[0] ? `${b.modules[0]}, ${b.operator}` : b.line || b.operator),
  module: (b) => b.modules[0] || "(no module)",
  operator: (b) => b.operator || "(no operator)",
  "line of the program": (b) => b.line || "(before it was recorded)",
  purpose: (b) => b.category || "(unknown)",
};

function shownBytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  while (Math.abs(n) >= 1024 && i < units.length - 1) { n /= 1024; i += 1; }
  return `${i ? n.toFixed(2) : n} ${units[i]}`;
}
const shownTime = (us) => (us < 0 ? "before" : us >= 1e6 ? `${(us / 1e6).toFixed(3)} s` : us >= 1e3 ? `${(us / 1e3).toFixed(3)} ms` : `${us.toFixed(1)} µs`);

function make(tag, attributes, ...children) {
  const svg = ["path", "line", "rect", "text"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Bytes in use after each change, by category.
const categories = [...new Set(blocks.map((b) => b.category))];
const changes = [];
for (const b of blocks) {
  changes.push([b.begin, b, b.bytes]);
  if (b.end !== Infinity) changes.push([b.end, b, -b.bytes]);
}
changes.sort((x, y) => x[0] - y[0] || x[2] - y[2]);
const moments = [];
{
  const now = categories.map(() => 0);
  for (const [time, b, bytes] of changes) {
    now[categories.indexOf(b.category)] += bytes;
    const last = moments[moments.length - 1];
    if (last && last.time === time) last.bytes = [...now];
    else moments.push({ time, bytes: [...now] });
  }
}
const total = (m) => m.bytes.reduce((a, b) => a + b, 0);
let peak = 0;
moments.forEach((m, i) => { if (total(m) > total(moments[peak])) peak = i; });
let chosen = Math.max(0, peak);
let grouping = "who holds it";

function drawCards() {
  const last = moments.length ? total(moments[moments.length - 1]) : 0;
  const figures = [
    ["at the peak", moments.length ? shownBytes(total(moments[peak])) : "0 B"], ["at the end", shownBytes(last)], ["blocks", blocks.length + data.left[0]],
    ["held at the end", blocks.filter((b) => b.end === Infinity).length],
  ];
  byId("cards").replaceChildren(...figures.map(([name, value]) => make("div", { class: "card", "data-figure": name }, make("b", {}, String(value)), make("span", {}, name))));
}

// At most as many moments as there are points to draw, the highest of each span.
function drawn(width) {
  if (moments.length <= width) return moments.map((m, i) => i);
  const found = [];
  for (let x = 0; x < width; x += 1) {
    const [from, to] = [Math.floor((x * moments.length) / width), Math.floor(((x + 1) * moments.length) / width)];
    let best = from;
    for (let i = from; i < to; i += 1) if (total(moments[i]) > total(moments[best])) best = i;
    found.push(best);
  }
  return found;
}

const [WIDE, HIGH] = [1000, 220];
function place(i) { return moments.length > 1 ? (i / (moments.length - 1)) * WIDE : 0; }

function drawChart() {
  const svg = byId("chart");
  svg.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
  svg.setAttribute("preserveAspectRatio", "none");
  const parts = [];
  if (moments.length) {
    const top = total(moments[peak]) || 1;
    const shown = drawn(WIDE);
    const below = shown.map(() => 0);
    categories.forEach((category, c) => {
      const heights = shown.map((i, k) => below[k] + moments[i].bytes[c]);
      const up = shown.map((i, k) => `${place(i).toFixed(1)},${(HIGH - (heights[k] / top) * (HIGH - 8)).toFixed(1)}`);
      const down = shown.map((i, k) => `${place(i).toFixed(1)},${(HIGH - (below[k] / top) * (HIGH - 8)).toFixed(1)}`).reverse();
      parts.push(make("path", { d: `M${[...up, ...down].join("L")}Z`, fill: COLOURS[c % COLOURS.length], "data-category": category }));
      heights.forEach((h, k) => { below[k] = h; });
    });
    parts.push(make("line", { x1: place(chosen), x2: place(chosen), y1: 0, y2: HIGH, stroke: "var(--text)", "stroke-width": 2, "vector-effect": "non-scaling-stroke" }));
  }
  svg.replaceChildren(...parts);
  byId("legend").replaceChildren(...categories.map((category, c) => {
    const mark = make("i", { style: `background:${COLOURS[c % COLOURS.length]}` });
    return make("span", { class: "key" }, mark, ` ${(category || "unknown").toLowerCase().replace("_", " ")} `);
  }));
}

function drawTable() {
  if (!moments.length) { byId("view").replaceChildren(make("p", {}, "Nothing was recorded.")); return; }
  const at = moments[chosen].time;
  const wanted = byId("search").value.toLowerCase();
  const live = blocks.filter((b) => b.begin <= at && b.end > at);
  const matching = wanted ? live.filter((b) => [b.name, b.operator, b.category, ...b.modules, ...b.lines, ...b.ranges].join("\n").toLowerCase().includes(wanted)) : live;
  const groups = new Map();
  for (const b of matching) {
    const key = GROUPS[grouping](b);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(b);
  }
  const sum = (list) => list.reduce((n, b) => n + b.bytes, 0);
  const all = sum(live) || 1;
  const rows = [...groups].map(([key, list]) => [key, list, sum(list)]).sort((a, b) => b[2] - a[2]);
  byId("moment").textContent = `${shownTime(at)}: ${shownBytes(sum(live))} in ${live.length} blocks${wanted ? `, ${matching.length} match` : ""}`;
  const body = rows.slice(0, 500).map(([key, list, bytes]) => {
    const details = make("details", {}, make("summary", {}, key));
    details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) details.append(listOf(list)); });
    const bar = make("div", { class: "roof" }, make("i", { style: `width:${(100 * bytes) / all}%` }));
    return make("tr", { "data-group": key }, make("td", {}, details), make("td", { class: "n" }, String(list.length)), make("td", { class: "n" }, shownBytes(bytes)), make("td", {}, bar));
  });
  const head = make("tr", {}, make("th", {}, grouping), make("th", { class: "n" }, "blocks"), make("th", { class: "n" }, "bytes"), make("th", {}, "share"));
  byId("view").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

function listOf(list) {
  const shown = [...list].sort((a, b) => b.bytes - a.bytes).slice(0, 20);
  const items = shown.map((b) => {
    const facts = [shownBytes(b.bytes), b.name, b.operator, b.modules.length ? `in ${b.modules.join(" in ")}` : "", b.begin < 0 ? "from before" : `since ${shownTime(b.begin)}`].filter(Boolean);
    return make("li", {}, facts.join(", "), ...(b.lines.length ? [make("pre", {}, b.lines.join("\n"))] : []));
  });
  if (list.length > shown.length) items.push(make("li", {}, `and ${list.length - shown.length} more`));
  return make("ul", {}, ...items);
}

function choose(i) {
  chosen = Math.max(0, Math.min(moments.length - 1, i));
  drawChart();
  drawTable();
}

byId("chart").addEventListener("click", (e) => {
  const box = byId("chart").getBoundingClientRect();
  choose(Math.round(((e.clientX - box.left) / box.width) * (moments.length - 1)));
});
byId("at-peak").addEventListener("click", () => choose(peak));
byId("at-end").addEventListener("click", () => choose(moments.length - 1));
byId("search").addEventListener("input", drawTable);
for (const name of Object.keys(GROUPS)) byId("group").append(make("option", {}, name));
byId("group").addEventListener("change", (e) => { grouping = e.target.value; drawTable(); });

function setTheme(name) { document.documentElement.dataset.theme = name; }
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
const otherTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
byId("theme").addEventListener("click", otherTheme);
document.addEventListener("keydown", (e) => {
  if (e.target.matches("input, select")) { if (e.key === "Escape") e.target.blur(); return; }
  const keys = {
    t: otherTheme, p: () => choose(peak), e: () => choose(moments.length - 1), "/": () => { byId("search").focus(); },
    ArrowLeft: () => choose(chosen - 1), ArrowRight: () => choose(chosen + 1),
  };
  if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
});

byId("version").textContent = data.version;
byId("title").textContent = data.title;
byId("about").textContent = `${data.made}; ${data.machine}${data.left[0] ? `; ${data.left[0]} small blocks (${shownBytes(data.left[1])} in all) are left out` : ""}`;
drawCards();
drawChart();
drawTable();
