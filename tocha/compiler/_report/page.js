"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const VIEWS = [["source", "Source"], ["graphs", "Graphs"], ["kernels", "Kernels"], ["memory", "Memory"], ["guards", "Guards"],
  ["recompilations", "Recompilations"], ["timeline", "Timeline"], ["compare", "Compare"]];
const state = { view: "source", at: 0, graph: 0, search: "", hit: -1, other: D.other || null };

// ---- small things
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k.startsWith("on")) made.addEventListener(k.slice(2), v);
    else if (v !== null && v !== undefined && v !== false) made.setAttribute(k, v === true ? "" : v);
  }
  made.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return made;
}
function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k.startsWith("on")) made.addEventListener(k.slice(2), v);
    else made.setAttribute(k, v);
  }
  made.append(...children);
  return made;
}
const bytes = (n) => n === null || n === undefined ? "?" : n < 1024 ? `${n} B` : n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : n < 1 << 30 ? `${(n / (1 << 20)).toFixed(1)} MiB` : `${(n / (1 << 30)).toFixed(2)} GiB`;
const count = (n) => n === null || n === undefined ? "?" : n >= 1e9 ? `${(n / 1e9).toFixed(2)} G` : n >= 1e6 ? `${(n / 1e6).toFixed(2)} M` : n >= 1e3 ? `${(n / 1e3).toFixed(1)} k` : String(n);
const seconds = (s) => s >= 1 ? `${s.toFixed(2)} s` : s >= 1e-3 ? `${(s * 1e3).toFixed(1)} ms` : `${(s * 1e6).toFixed(0)} µs`;
const sum = (xs) => xs.reduce((a, b) => a + (b || 0), 0);
const current = () => D.compilations[state.at];
const matches = (text) => state.search && text.toLowerCase().includes(state.search.toLowerCase());
const table = (head, rows) => el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, head.map((h) => el("th", { class: h[1] || null, scope: "col" }, h[0])))), el("tbody", {}, rows)));
const row = (cells, text) => el("tr", { class: matches(text) ? "found-row" : null }, cells);
const nothing = (text) => el("p", { class: "soft" }, text);

// ---- figures that the cards and the comparison show
function figures(d) {
  const all = d.compilations, steps = all.flatMap((c) => c.programs.flatMap((p) => p.steps));
  const kernels = steps.filter((s) => s.kind !== "call");
  return {
    "compilations": all.length,
    "graphs": sum(all.map((c) => c.graphs.filter((g) => g.stage === "captured").length)),
    "graph breaks": sum(all.map((c) => c.breaks.length)),
    "recompilations": all.filter((c) => c.recompiled).length,
    "kernels": kernels.length,
    "native calls": steps.length - kernels.length,
    "bytes moved": sum(steps.map((s) => s.bytes)),
    "FLOPs": sum(steps.map((s) => s.flops)),
    "compile seconds": sum(all.flatMap((c) => c.stages.filter((s) => s.depth === 0).map((s) => s.ended - s.began))) / 1e9,
    "guards": sum(all.map((c) => c.guards.length)),
    "cache hits": sum(all.map((c) => c.cache.filter((a) => a.hit).length)),
    "cache misses": sum(all.map((c) => c.cache.filter((a) => !a.hit).length)),
  };
}
const shown = (name, v) => name === "bytes moved" ? bytes(v) : name === "FLOPs" ? count(v) : name === "compile seconds" ? seconds(v) : String(v);

function cards() {
  const f = figures(D);
  $("cards").replaceChildren(...Object.entries(f).slice(0, 9).map(([name, v]) => {
    const watched = name === "graph breaks" || name === "recompilations";
    return el("div", { class: `card ${watched ? (v ? "bad" : "good") : ""}`, "data-figure": name }, el("b", {}, shown(name, v)), el("span", {}, name));
  }));
}

// ---- which compilation
function choose(i) {
  state.at = Math.max(0, Math.min(D.compilations.length - 1, i));
  state.graph = 0;
  show();
}
function list() {
  const label = (c) => `[${c.id}] ${c.function}`;
  $("list").replaceChildren(...D.compilations.map((c, i) => el("li", { role: "option", "aria-selected": i === state.at ? "true" : "false", onclick: () => choose(i) },
    label(c), el("small", {}, `${c.outcome}${c.breaks.length ? `, ${c.breaks.length} break${c.breaks.length > 1 ? "s" : ""}` : ""}${c.recompiled ? ", captured again" : ""}`))));
  $("choose").replaceChildren(...D.compilations.map((c, i) => el("option", { value: i, selected: i === state.at }, label(c))));
}

// ---- source
function source() {
  const out = [];
  const c = current();
  const files = Object.keys(D.files).sort((a, b) => (b === c.file) - (a === c.file));
  for (const file of files) {
    const { spans } = D.files[file], marks = D.marks[file] || {};
    const lines = [];
    for (const [first, text] of spans) {
      text.forEach((line, i) => {
        const n = first + i, mark = marks[n] || { ops: [], breaks: [] };
        const kind = mark.breaks.length ? "broken" : mark.ops.length ? "captured" : "";
        lines.push(el("div", { class: kind, id: `L${n}`, "data-line": n }, el("span", { class: "number" }, String(n)), line || " ",
          mark.ops.length ? el("span", { class: "note" }, `  ${mark.ops.slice(0, 6).join(", ")}${mark.ops.length > 6 ? ` and ${mark.ops.length - 6} more` : ""}`) : null));
        for (const b of mark.breaks) lines.push(el("div", { class: "why" }, `graph break ${b.number} (${b.name}): ${b.reason}\n${b.hint}`));
      });
      lines.push(el("div", { class: "soft" }, "⋯"));
    }
    out.push(el("h2", {}, file), el("div", { class: "source scroll" }, lines));
  }
  out.unshift(el("p", { class: "soft" }, "Green lines are in graphs, with their operators; red lines end one."));
  return out.length > 1 ? out : [nothing("No source: the functions were not in files.")];
}

// ---- graphs
let pan = null;
function graphs() {
  const c = current();
  if (!c.graphs.length) return [nothing("Nothing was captured here.")];
  state.graph = Math.min(state.graph, c.graphs.length - 1);
  const g = c.graphs[state.graph];
  const picker = el("select", { id: "stage", "aria-label": "stage", onchange: (e) => { state.graph = Number(e.target.value); show(); } },
    c.graphs.map((x, i) => el("option", { value: i, selected: i === state.graph }, `${x.stage}: ${x.nodes.length} nodes`)));
  const details = el("div", { id: "details", class: "soft" }, "Choose a node.");
  const drawing = draw(g, details);
  const bar = el("div", { class: "bar" }, picker,
    el("button", { type: "button", id: "zoom-in", onclick: () => pan.zoom(0.7) }, "+"), el("button", { type: "button", id: "zoom-out", onclick: () => pan.zoom(1 / 0.7) }, "−"),
    el("button", { type: "button", id: "zoom-all", onclick: () => pan.all() }, "All"), el("span", { class: "soft", id: "hits" }, ""));
  const code = el("details", {}, el("summary", {}, "As Python"), el("pre", {}, g.code));
  return [bar, el("div", { class: "graph" }, drawing), details, code];
}
const W = 190, H = 64, READABLE = 300;
function draw(g, details) {
  const nodes = g.nodes, at = new Map(nodes.map((n) => [n.name, n])), users = new Map(nodes.map((n) => [n.name, []]));
  const wide = (Math.max(0, ...nodes.map((n) => n.x)) + 1) * W, high = (Math.max(0, ...nodes.map((n) => n.y)) + 1) * H;
  let lines = "";
  for (const n of nodes) for (const i of n.inputs) {
    const from = at.get(i);
    if (!from) continue;
    users.get(i).push(n.name);
    const x1 = from.x * W + W / 2, y1 = from.y * H + H - 16, x2 = n.x * W + W / 2, y2 = n.y * H + 8;
    lines += `M${x1} ${y1}C${x1} ${y1 + 14} ${x2} ${y2 - 14} ${x2} ${y2}`;
  }
  const boxes = nodes.map((n) => svg("g", { class: n.op === "placeholder" ? "input" : "", "data-node": n.name },
    svg("rect", { x: n.x * W + 8, y: n.y * H + 8, width: W - 16, height: H - 24, rx: 5 })));
  const picture = svg("svg", { role: "img", "aria-label": `${g.stage} graph`, tabindex: 0 }, svg("path", { d: lines }), ...boxes);
  picture.addEventListener("click", (e) => { const box = e.target.closest("[data-node]"); if (box) pick(box.dataset.node); });
  const view = { x: 0, y: 0, w: wide, h: high };
  const labelled = new Set();
  // Text takes most of the time of drawing: nodes get theirs when they come into view, and few enough to be read.
  function label() {
    const near = nodes.map((n, i) => [n, i]).filter(([n]) => n.x * W < view.x + view.w && (n.x + 1) * W > view.x && n.y * H < view.y + view.h && (n.y + 1) * H > view.y);
    if (near.length > READABLE) return;
    for (const [n, i] of near) if (!labelled.has(i)) {
      labelled.add(i);
      const name = svg("text", { x: n.x * W + 15, y: n.y * H + 25 });
      name.textContent = n.name.length > 19 ? `${n.name.slice(0, 18)}…` : n.name;
      boxes[i].append(name);
      if (n.value) { const t = svg("text", { x: n.x * W + 15, y: n.y * H + 40, class: "value", opacity: .65 }); t.textContent = n.value.slice(0, 24); t.style.fontSize = "11px"; boxes[i].append(t); }
    }
  }
  const put = () => { picture.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`); label(); };
  pan = {
    zoom(by) { const cx = view.x + view.w / 2, cy = view.y + view.h / 2; view.w *= by; view.h *= by; view.x = cx - view.w / 2; view.y = cy - view.h / 2; put(); },
    all() { Object.assign(view, { x: 0, y: 0, w: wide, h: high }); put(); },
    move(dx, dy) { view.x += dx * view.w; view.y += dy * view.h; put(); },
    centre(n) { view.w = Math.min(wide, W * 6); view.h = view.w * 0.6; view.x = n.x * W + W / 2 - view.w / 2; view.y = n.y * H + H / 2 - view.h / 2; put(); },
    view,
  };
  if (high > 12 * H) { view.h = 12 * H; view.w = Math.min(wide, 8 * W); }
  put();
  picture.addEventListener("wheel", (e) => { e.preventDefault(); pan.zoom(e.deltaY > 0 ? 1.15 : 0.87); }, { passive: false });
  let drag = null;
  picture.addEventListener("pointerdown", (e) => { drag = { x: e.clientX, y: e.clientY }; });
  picture.addEventListener("pointermove", (e) => {
    if (!drag || !e.buttons) return;
    const scale = view.w / picture.clientWidth;
    view.x -= (e.clientX - drag.x) * scale; view.y -= (e.clientY - drag.y) * scale; drag = { x: e.clientX, y: e.clientY }; put();
  });
  function pick(name) {
    const n = at.get(name);
    for (const b of boxes) b.classList.toggle("chosen", b.dataset.node === name);
    const link = (x) => el("button", { type: "button", onclick: () => { pick(x); pan.centre(at.get(x)); } }, x);
    const kernel = current().programs.flatMap((p) => p.steps).filter((s) => s.operators.includes(name)).map((s) => s.name);
    details.replaceChildren(el("h3", {}, name), el("p", {}, el("code", {}, `${n.op} ${n.target}`)), el("p", {}, `${n.value} ${n.bytes ? `(${bytes(n.bytes)})` : ""}`),
      el("p", {}, "reads ", ...n.inputs.map(link)), el("p", {}, "read by ", ...users.get(name).map(link)),
      n.place ? el("p", {}, `${n.place.file}:${n.place.line} in ${n.place.function}`) : "", kernel.length ? el("p", {}, `in ${kernel.join(", ")}`) : "");
  }
  const found = nodes.filter((n) => matches(n.name) || matches(n.target));
  const names = new Set(found.map((n) => n.name));
  for (const b of boxes) b.classList.toggle("found", names.has(b.dataset.node));
  if (found.length) { state.hit = (state.hit + 1) % found.length; queueMicrotask(() => { const hits = $("hits"); if (hits) hits.textContent = `${state.hit + 1} of ${found.length}`; }); pan.centre(found[state.hit]); }
  else if (state.search) queueMicrotask(() => { const hits = $("hits"); if (hits) hits.textContent = "no match"; });
  return picture;
}

// ---- kernels
function kernels() {
  const c = current();
  if (!c.programs.length) return [nothing(c.uncompiled.length ? `Runs operator by operator: ${c.uncompiled.join("; ")}` : "No native code here.")];
  const out = [];
  c.programs.forEach((p, i) => {
    const rows = p.steps.map((s) => {
      const text = `${s.name} ${s.operators.join(" ")}`;
      const least = s.bytes === null || s.flops === null ? null : Math.max(s.bytes / (D.peak.bandwidth * 1e9), s.flops / (D.peak.flops * 1e9));
      const took = s.us ? s.us / 1e6 : null, part = took && least !== null ? Math.min(1, least / took) : null;
      const bound = least === null ? "" : s.bytes / D.peak.bandwidth > s.flops / D.peak.flops ? "memory" : "arithmetic";
      return row([el("td", {}, s.source ? el("details", { open: matches(text) }, el("summary", {}, s.name), el("pre", {}, s.source)) : s.name), el("td", {}, s.kind), el("td", {}, s.operators.join(", ")),
        el("td", { class: "n" }, bytes(s.bytes)), el("td", { class: "n" }, bytes(s.saved)), el("td", { class: "n" }, count(s.flops)), el("td", { class: "n" }, took ? seconds(took) : ""),
        el("td", { title: bound ? `bound by ${bound}: at least ${seconds(least)}` : "" }, part === null ? bound : [el("div", { class: "roof" }, el("i", { style: `width:${(part * 100).toFixed(0)}%` })), el("small", { class: "soft" }, `${(part * 100).toFixed(0)}% ${bound}`)])], text);
    });
    out.push(el("h2", {}, `Program ${i + 1} of ${c.programs.length}`),
      table([["kernel"], ["kind"], ["fused operators"], ["bytes", "n"], ["kept out of memory", "n"], ["FLOPs", "n"], ["time", "n"], ["of the roofline"]], rows),
      el("details", {}, el("summary", {}, "All of the source"), el("pre", {}, p.source)));
  });
  return out;
}

// ---- memory
const COLOURS = ["#5b8ff9", "#61ddaa", "#f6bd16", "#7262fd", "#78d3f8", "#9661bc", "#f6903d", "#008685", "#f08bb4", "#9db3d8"];
function memory() {
  const c = current();
  if (!c.programs.length) return [nothing("No memory plan here.")];
  return c.programs.flatMap((p, i) => {
    const m = p.memory, steps = Math.max(1, m.steps), live = new Array(steps).fill(0);
    for (const b of m.buffers) if (b.place !== "input") for (let s = b.first; s <= b.last; s++) live[s] += b.bytes || 0;
    const top = Math.max(1, ...live), wide = 900, x = (s) => s / steps * wide;
    const chart = svg("svg", { class: "memory", viewBox: `0 0 ${wide} 160`, role: "img", "aria-label": "live bytes by step" },
      ...live.map((v, s) => { const r = svg("rect", { x: x(s), y: 150 - v / top * 140, width: wide / steps, height: v / top * 140, fill: COLOURS[0] }); r.append(svg("title")); r.firstChild.textContent = `step ${s}: ${bytes(v)}`; return r; }));
    const inside = m.buffers.filter((b) => b.offset !== null && b.offset !== undefined), height = 220;
    const arena = svg("svg", { class: "memory", viewBox: `0 0 ${wide} ${height}`, role: "img", "aria-label": "the arena" },
      ...inside.map((b, k) => { const r = svg("rect", { x: x(b.first), width: x(b.last + 1) - x(b.first), y: height - (b.offset + b.bytes) / m.arena * height, height: Math.max(1, b.bytes / m.arena * height), fill: COLOURS[k % COLOURS.length] }); r.append(svg("title")); r.firstChild.textContent = `${b.name}: ${bytes(b.bytes)} at ${b.offset}, steps ${b.first} to ${b.last}`; return r; }));
    const rows = m.buffers.map((b) => row([el("td", {}, b.name), el("td", {}, b.place), el("td", { class: "n" }, bytes(b.bytes)), el("td", { class: "n" }, b.offset ?? ""), el("td", { class: "n" }, `${b.first} to ${b.last}`)], b.name));
    return [el("h2", {}, `Program ${i + 1}: at most ${bytes(Math.max(0, ...live))} besides inputs, arena ${bytes(m.arena)}`), chart, inside.length ? el("h3", {}, "The arena: place over steps") : null, inside.length ? arena : null,
      table([["value"], ["lies in"], ["bytes", "n"], ["offset", "n"], ["steps", "n"]], rows)].filter(Boolean);
  });
}

// ---- guards and recompilations
function guards() {
  const c = current();
  const rows = c.guards.map((g) => row([el("td", {}, el("code", {}, g.text)), el("td", {}, g.kind), el("td", { class: "soft" }, g.why)], g.text));
  const symbols = c.symbols.map((s) => row([el("td", {}, s.name), el("td", {}, s.value), el("td", {}, s.sources.join(", ")), el("td", {}, s.range), el("td", {}, s.fixed_by)], s.name));
  return [el("h2", {}, `${rows.length} guards`), rows.length ? table([["what must hold"], ["kind"], ["why"]], rows) : nothing("None."),
    el("h2", {}, "Symbols"), symbols.length ? table([["symbol"], ["was"], ["from"], ["range"], ["fixed by"]], symbols) : nothing("All sizes and numbers are constants."),
    ...(c.shape_guards.length ? [el("h2", {}, "What was asked of them"), el("pre", {}, c.shape_guards.join("\n"))] : [])];
}
function recompilations() {
  const again = D.compilations.map((c, i) => [c, i]).filter(([c]) => c.recompiled);
  const breaks = D.compilations.flatMap((c) => c.breaks.map((b) => [c, b]));
  return [el("h2", {}, `${again.length} recompilations`), again.length ? table([["function"], ["because this failed"]], again.map(([c, i]) => row([el("td", {}, el("button", { type: "button", onclick: () => choose(i) }, `[${c.id}] ${c.function}`)), el("td", {}, el("code", {}, c.recompiled))], c.recompiled))) : nothing("None."),
    el("h2", {}, `${breaks.length} graph breaks`), breaks.length ? table([["function"], ["why"], ["where"], ["what helps"], ["cost"]], breaks.map(([c, b]) => row([el("td", {}, c.function), el("td", {}, b.reason), el("td", {}, b.stack.length ? `${b.stack.at(-1).file}:${b.stack.at(-1).line}` : ""), el("td", {}, b.hint), el("td", {}, b.skipped ? `runs uncaptured (${b.calls} operators)` : `${bytes(b.bytes)} through memory`)], b.reason))) : nothing("None.")];
}

// ---- timeline: a flame chart of the stages
function timeline() {
  const stages = D.compilations.flatMap((c) => c.stages.map((s) => ({ ...s, of: c })));
  if (!stages.length) return [nothing("Nothing was timed.")];
  const low = Math.min(...stages.map((s) => s.began)), high = Math.max(...stages.map((s) => s.ended));
  const depth = Math.max(...stages.map((s) => s.depth)) + 1, wide = 1000, lane = 24;
  const threads = [...new Set(stages.map((s) => s.thread))];
  const names = [...new Set(stages.map((s) => s.name))];
  const picture = svg("svg", { class: "flame", viewBox: `0 0 ${wide} ${depth * lane * threads.length}`, width: "100%", role: "img", "aria-label": "stages" });
  const fill = (from, to) => {
    picture.replaceChildren(...stages.filter((s) => s.ended >= from && s.began <= to).map((s) => {
      const x = Math.max(0, (s.began - from) / (to - from) * wide), end = Math.min(wide, (s.ended - from) / (to - from) * wide);
      const y = (threads.indexOf(s.thread) * depth + s.depth) * lane;
      const g = svg("g", { "data-stage": s.name, onclick: () => fill(s.began, s.ended) }, svg("rect", { x, y, width: Math.max(0.5, end - x), height: lane - 2, fill: COLOURS[names.indexOf(s.name) % COLOURS.length], rx: 2 }), svg("title"));
      g.lastChild.textContent = `${s.name} of [${s.of.id}] ${s.of.function}: ${seconds((s.ended - s.began) / 1e9)}`;
      if (end - x > 46) { const t = svg("text", { x: x + 4, y: y + 15 }); t.textContent = s.name; g.append(t); }
      return g;
    }));
  };
  fill(low, high);
  const totals = names.map((n) => [n, stages.filter((s) => s.name === n)]).map(([n, s]) => [n, sum(s.map((x) => x.ended - x.began)) / 1e9, s.length]).sort((a, b) => b[1] - a[1]);
  return [el("div", { class: "bar" }, el("button", { type: "button", id: "flame-all", onclick: () => fill(low, high) }, "All"), el("span", { class: "soft" }, "Click a stage to look closer.")), el("div", { class: "scroll" }, picture),
    el("h2", {}, "Seconds by stage"), table([["stage"], ["seconds", "n"], ["times", "n"]], totals.map(([n, s, k]) => row([el("td", {}, n), el("td", { class: "n" }, seconds(s)), el("td", { class: "n" }, k)], n)))];
}

// ---- comparison with another report
function compare() {
  const file = el("input", { type: "file", id: "other", accept: ".html,.json", "aria-label": "another report", onchange: async (e) => {
    const text = await e.target.files[0].text();
    const held = new DOMParser().parseFromString(text, "text/html").getElementById("data");
    try { state.other = JSON.parse(held ? held.textContent : text); show(); } catch { alert("That is no report."); }
  } });
  const out = [el("p", {}, "Another report, to hold beside this one: ", file)];
  if (!state.other) return out;
  const mine = figures(D), theirs = figures(state.other);
  const change = (a, b) => a === b ? "" : b === 0 ? "new" : `${((a / b - 1) * 100).toFixed(1)}%`;
  out.push(el("h2", {}, "All"), table([["figure"], ["this one", "n"], ["the other", "n"], ["change", "n"]], Object.keys(mine).map((k) => el("tr", { "data-figure": k }, el("td", {}, k), el("td", { class: "n" }, shown(k, mine[k])), el("td", { class: "n" }, shown(k, theirs[k])), el("td", { class: "n" }, change(mine[k], theirs[k]))))));
  const byName = (d) => { const m = new Map(); for (const c of d.compilations) { const f = figures({ compilations: [c] }); const old = m.get(c.function); if (old) for (const k in f) old[k] += f[k]; else m.set(c.function, f); } return m; };
  const a = byName(D), b = byName(state.other);
  out.push(el("h2", {}, "By function"), table([["function"], ["kernels", "n"], ["bytes", "n"], ["breaks", "n"], ["seconds", "n"]], [...new Set([...a.keys(), ...b.keys()])].map((name) => {
    const x = a.get(name), y = b.get(name), pair = (k) => `${x ? shown(k, x[k]) : "none"} / ${y ? shown(k, y[k]) : "none"}`;
    return row([el("td", {}, name), ...["kernels", "bytes moved", "graph breaks", "compile seconds"].map((k) => el("td", { class: "n" }, pair(k)))], name);
  })));
  return out;
}

// ---- the page
const PAGES = { source, graphs, kernels, memory, guards, recompilations, timeline, compare };
function show() {
  $("tabs").replaceChildren(...VIEWS.map(([id, name], i) => el("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-selected": id === state.view ? "true" : "false", title: String(i + 1), onclick: () => { state.view = id; show(); } }, name)));
  list();
  pan = null;
  $("view").replaceChildren(...(D.compilations.length ? PAGES[state.view]() : [nothing("Nothing was compiled.")]));
}
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("tocha-theme", name); } catch { /* files may have no storage */ }
}
function startTheme() {
  let kept = null;
  try { kept = localStorage.getItem("tocha-theme"); } catch { /* likewise */ }
  document.documentElement.dataset.theme = kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}
const otherTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

$("version").textContent = D.version;
$("about").textContent = `${D.machine}; ${D.made}`;
$("theme").addEventListener("click", otherTheme);
$("help").addEventListener("click", () => $("keys").showModal());
$("choose").addEventListener("change", (e) => choose(Number(e.target.value)));
$("search").addEventListener("input", (e) => { state.search = e.target.value; state.hit = -1; show(); });
$("search").addEventListener("keydown", (e) => { if (e.key === "Enter") show(); if (e.key === "Escape") e.target.blur(); });
document.addEventListener("keydown", (e) => {
  if (["INPUT", "SELECT", "TEXTAREA"].includes(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey) return;
  const n = Number(e.key);
  if (n >= 1 && n <= VIEWS.length) { state.view = VIEWS[n - 1][0]; show(); }
  else if (e.key === "j") choose(state.at + 1);
  else if (e.key === "k") choose(state.at - 1);
  else if (e.key === "/") { e.preventDefault(); $("search").focus(); }
  else if (e.key === "t") otherTheme();
  else if (e.key === "?") $("keys").showModal();
  else if (pan && e.key === "+") pan.zoom(0.7);
  else if (pan && e.key === "-") pan.zoom(1 / 0.7);
  else if (pan && e.key === "0") pan.all();
  else if (pan && e.key.startsWith("Arrow")) { e.preventDefault(); pan.move({ ArrowLeft: -.15, ArrowRight: .15 }[e.key] || 0, { ArrowUp: -.15, ArrowDown: .15 }[e.key] || 0); }
});
startTheme();
cards();
show();
