// The page: asks for JSON, draws it. What comes from runs only ever becomes text, never markup.
// Charts are drawn here: they need little, and no file of others is kept in this project.

const COLORS = ["#0b5cad", "#d55e00", "#009e73", "#cc79a7", "#e08e0b", "#56b4e9", "#7a4fb5", "#6b7280"];
const KINDS = { lost: "#7b241c", sample: "#4f93d2", update: "#e3812b", wait: "#c4ccd6", start: "#58b368", moved: "#1f7a4d", frozen: "#7fb7d8", checkpointed: "#31708f", restoring: "#c99a1e", part: "#b9551a", firing: "#7a4fb5" };
const WAITS = { rows: "#b4c3d3", version: "#cdbde6", slot: "#eea489", process: "#edd08a", device: "#e79fbd", firing: "#d9dee4", "hand-over": "#8f9cab", "scaled away": "#f1ede2", restart: "#d98880" };
const MARKS = { died: "#b3261e" }, MARK = "#7a4fb5";
const $ = (id) => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "rect", "text", "line", "title", "marker", "defs"].includes(tag) && attributes.svg;
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "svg" || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "color") node.style.background = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null).map((c) => (c instanceof Node ? c : String(c))));
  return node;
}

async function ask(path) {
  // A tunnel that stalls would be waited for without end, and nothing asked again.
  const answer = await fetch(`api/${path}`, { signal: AbortSignal.timeout(60000) });
  const found = await answer.json().catch(() => ({ error: ["the answer is no JSON: is this the dashboard?"] }));
  if (found.error) throw Object.assign(new Error(found.error.join("\n")), { away: answer.status === 503, later: +answer.headers.get("retry-after") });
  if (found.age) away(found.age);
  return found;
}

// A name of a file may be no text; the server knows it by what it looks like.
const shown = (text) => text.replace(/\p{Surrogate}/gu, "\ufffd");
const enc = (text) => encodeURIComponent(shown(String(text)));
const dec = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
const number = (value, digits = 4) => (value === null || value === undefined || value === "" ? "" :
  Math.abs(value) >= 1e4 ? Math.round(value).toLocaleString("en") : String(+Number(value).toPrecision(digits)));
const seconds = (value) => (Math.abs(value) < 1e-3 ? `${number(value * 1e6, 3)} µs` : Math.abs(value) < 1 ? `${number(value * 1e3, 3)} ms` :
  Math.abs(value) < 120 ? `${number(value)} s` : clock(value, Infinity));
const clock = (t, wide) => (wide < 300 ? `${number(t, 7)} s` : `${Math.floor(t / 3600)}:${String(Math.floor(t / 60) % 60).padStart(2, "0")}:${String(Math.floor(t % 60)).padStart(2, "0")}`);
const facts = (found) => Object.entries(found || {}).map(([name, value]) =>
  `${name}: ${typeof value === "object" ? shortened(JSON.stringify(value).replaceAll('","', '", "')) : value}`).join("\n");
const shortened = (text) => (text.length > 240 ? `${text.slice(0, 240)}…` : text);

function tip(event, text) {
  const box = $("tip");
  box.style.display = text ? "block" : "none";
  box.textContent = text || "";
  if (!text) return;
  box.style.left = `${Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8)}px`;
}

function table(head, rows) {
  const cell = (value) => (typeof value === "number" ? el("td", { class: "number" }, number(value, 6)) : el("td", {}, value));
  return el("table", {}, el("thead", {}, el("tr", {}, ...head.map((name) => el("th", {}, name)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell)))));
}

const keys = (found) => el("div", { class: "bar" }, ...found.map(([name, color]) =>
  el("span", { class: "key" }, el("i", { color }), name)));

// -- charts -------------------------------------------------------------------------------------

function surface(height) {
  const canvas = el("canvas", { height });
  canvas.style.height = `${height}px`;
  canvas.pen = () => {
    const scale = devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = canvas.clientHeight * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
    return pen;
  };
  return canvas;
}

// Whether numbers differ by more than what labels show; adding less than that may change nothing.
const apart = (low, high) => high - low > Math.max(Math.abs(low), Math.abs(high)) * 1e-12;

function ticks(low, high, count) {
  if (!apart(low, high)) return [low];
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough), first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
}

// Lines, bands between two lines, and points with bars, over one pair of axes.
function chart({ lines = [], bands = [], points = [], across, up = "", least: low = Infinity /* where counts begin */, height = 340 }) {
  const canvas = surface(height);
  const xs = [], ys = [];
  const take = (x, ...all) => { for (const v of x) xs.push(v); for (const y of all) for (const v of y) if (Number.isFinite(v)) ys.push(v); };
  lines.forEach((line) => take(line.x, line.y));
  bands.forEach((band) => take(band.x, band.low, band.high));
  points.forEach((each) => take([each.x], [each.y - each.bar, each.y + each.bar]));
  const least = (all) => all.reduce((a, b) => Math.min(a, b), Infinity), most = (all) => all.reduce((a, b) => Math.max(a, b), -Infinity);
  const box = { left: 64, right: 16, top: up ? 28 : 12, bottom: 40 };
  let [x0, x1, y0, y1] = xs.length ? [least(xs), most(xs), Math.min(low, least(ys)), most(ys)] : [0, 1, 0, 1];
  const pad = (at) => Math.max(1, Math.abs(at) * 1e-6);
  if (!apart(y0, y1)) [y0, y1] = [low < Infinity ? y0 : y0 - pad(y0), y1 + pad(y1)];
  if (!apart(x0, x1)) x1 = x0 + pad(x0);
  const draw = () => {
    const pen = canvas.pen(), wide = canvas.clientWidth - box.left - box.right, high = height - box.top - box.bottom;
    const px = (x) => box.left + ((x - x0) / (x1 - x0)) * wide, py = (y) => box.top + (1 - (y - y0) / (y1 - y0)) * high;
    canvas.px = px;
    pen.strokeStyle = "#e3e7ec"; pen.fillStyle = "#5f6b7a";
    pen.textAlign = "right";
    for (const y of ticks(y0, y1, 5).filter((y) => low === Infinity || Number.isInteger(y))) { pen.beginPath(); pen.moveTo(box.left, py(y)); pen.lineTo(box.left + wide, py(y)); pen.stroke(); pen.fillText(number(y), box.left - 6, py(y) + 4); }
    pen.textAlign = "center";
    const edge = (text) => canvas.clientWidth - pen.measureText(text).width / 2;
    for (const x of ticks(x0, x1, 7)) pen.fillText(number(x), Math.min(px(x), edge(number(x))), height - box.bottom + 16);
    pen.fillText(across, box.left + wide / 2, height - 6);
    pen.textAlign = "left"; pen.fillText(up, 4, 14);
    const trace = (x, y) => x.forEach((each, i) => (i && Number.isFinite(y[i - 1]) ? pen.lineTo(px(each), py(y[i])) : pen.moveTo(px(each), py(y[i]))));
    for (const { x, low, high: top, color } of bands) {
      pen.beginPath(); trace(x, top); [...x.keys()].reverse().forEach((i) => pen.lineTo(px(x[i]), py(low[i])));
      pen.globalAlpha = 0.18; pen.fillStyle = color; pen.fill(); pen.globalAlpha = 1;
    }
    for (const { x, y, color, thin } of lines) { pen.beginPath(); trace(x, y); pen.strokeStyle = color; pen.lineWidth = thin ? 1 : 2; pen.globalAlpha = thin ? 0.55 : 1; pen.stroke(); pen.globalAlpha = 1; }
    for (const { x, y, bar, color } of points) { pen.strokeStyle = pen.fillStyle = color; pen.lineWidth = 1; pen.beginPath(); pen.moveTo(px(x), py(y - bar)); pen.lineTo(px(x), py(y + bar)); pen.stroke(); pen.beginPath(); pen.arc(px(x), py(y), 3, 0, 7); pen.fill(); }
  };
  canvas.addEventListener("mousemove", (event) => {
    const at = event.offsetX, near = (x) => x.reduce((best, each, i) => (Math.abs(canvas.px(each) - at) < Math.abs(canvas.px(x[best]) - at) ? i : best), 0);
    tip(event, lines.filter((line) => line.x.length).map((line) => { const i = near(line.x); return `${line.label}: ${number(line.y[i], 6)} at ${number(line.x[i], 9)}`; }).slice(0, 12).join("\n"));
  });
  canvas.addEventListener("mouseleave", (event) => tip(event));
  new ResizeObserver(draw).observe(canvas);
  return canvas;
}

// A bar for each class, whose names are its lags: 0, 1, 2-3, 4-7.
function bars({ counts, mean, max }, across, of) {
  const classes = Object.entries(counts), total = classes.reduce((sum, [, n]) => sum + n, 0);
  const canvas = surface(300);
  const draw = () => {
    const pen = canvas.pen(), wide = canvas.clientWidth - 80, most = Math.max(1, ...classes.map(([, n]) => n));
    const each = Math.min(wide / Math.max(1, classes.length), 92);
    pen.textAlign = "center";
    classes.forEach(([name, n], i) => {
      const high = (n / most) * 220, left = 60 + i * each;
      pen.fillStyle = "#0b5cad"; pen.fillRect(left + 1, 250 - high, Math.max(1, each - 2), high);
      pen.fillStyle = "#5f6b7a"; pen.fillText(name, left + each / 2, 266, each);
    });
    pen.fillText(across, 60 + wide / 2, 288);
    pen.textAlign = "right";
    for (const y of ticks(0, most, 4)) pen.fillText(number(y), 54, 254 - (y / most) * 220);
  };
  new ResizeObserver(draw).observe(canvas);
  const said = [`${number(total, 9)} ${of}`, mean !== null && `mean ${number(mean)}`, max !== null && `at most ${max} versions old`];
  return [el("p", {}, said.filter(Boolean).join(", ")), canvas];
}

// -- views of all runs --------------------------------------------------------------------------

async function showCurves(view, query) {
  const what = query.get("what") || "return", across = query.get("across") || "steps", runs = query.get("runs") || "";
  const bar = el("div", { class: "bar" }), picture = el("div");
  const go = (more) => { location.hash = `#/curves?${new URLSearchParams({ what, across, runs, ...more })}`; };
  const choose = (name, options, now) => el("select", { "aria-label": name, onchange: (e) => go({ [name]: e.target.value }) },
    ...options.map((each) => el("option", { value: each, ...(each === now ? { selected: "" } : {}) }, each)));
  view.append(bar, picture);
  await whileLive(view, runs.split(",").filter(Boolean), `curves?${new URLSearchParams({ what, across, runs })}`, (found) => {
    const color = new Map(found.groups.map((group, i) => [group.name, COLORS[i % COLORS.length]]));
    const alone = found.curves.length <= COLORS.length && found.groups.every((group) => group.runs === 1);
    const colorOf = (curve, i) => (alone ? COLORS[i % COLORS.length] : color.get(curve.group) || "#6b7280");
    const several = found.groups.filter((group) => group.runs > 1);
    // Who is choosing goes on choosing.
    if (!bar.contains(document.activeElement)) bar.replaceChildren(choose("what", found.columns.includes(what) ? found.columns : [what, ...found.columns], what), "over", choose("across", ["steps", "seconds", "updates"], across),
      runs ? el("button", { onclick: () => go({ runs: "" }) }, "all runs") : el("span", {}, "(tick runs on the left to see only these)"),
      el("span", {}, several.length ? "line: mean of the runs that differ by their seed; band: from the lowest to the highest; both as far as all of them go" : "mean return of 100 episodes, or a column of progress.csv"));
    picture.replaceChildren(chart({
      across: found.across,
      up: what,
      bands: several.map((group) => ({ ...group, color: color.get(group.name) })),
      lines: [...found.curves.map((curve, i) => ({ ...curve, label: curve.name, color: colorOf(curve, i), thin: several.some((group) => group.name === curve.group) })),
        ...several.map((group) => ({ x: group.x, y: group.mean, label: `${group.name}, mean of ${group.runs}`, color: color.get(group.name) }))],
      points: found.curves.flatMap((curve, i) => (found.evaluations[curve.name] || []).map(([x, y, bar]) => ({ x, y, bar, color: colorOf(curve, i) }))),
    }),
    keys(alone ? found.curves.map((curve, i) => [curve.name, colorOf(curve, i)]) : found.groups.map((group) => [`${group.name} (${group.runs} ${group.runs > 1 ? "runs" : "run"}${group.seeds < group.runs ? ` of ${group.seeds} ${group.seeds > 1 ? "seeds" : "seed"}` : ""})`, color.get(group.name)])),
    ...Object.entries(found.faults).map(([name, why]) => el("p", {}, `${name}: ${why}`)));
  });
}

const past = { time: [], slots: [], devices: [], queue: [] }, GAP_SECONDS = 10;

// The learners of a head's runs that lease devices: run, learner, device, and what each does or waits for now.
const leasesOf = (found) => found.runs.filter((run) => !run.outcome && run.facts).flatMap((run) =>
  Object.entries(run.facts.leases || {}).map(([learner, device]) => ({ run, learner, device, now: (run.facts.waits || {})[learner] || "" })));

function remember(found) {
  const pool = found.pool || {}, alive = found.nodes.filter((node) => node.alive), now = Date.now() / 1e3;
  const add = (time, slots, devices, queue) => Object.entries({ time, slots, devices, queue }).forEach(([name, value]) => past[name].push(value));
  // Nobody looked meanwhile: what is not known is not drawn.
  if (now - past.time.at(-1) > GAP_SECONDS) add(now, NaN, NaN, NaN);
  add(now, alive.reduce((sum, node) => sum + node.actors, 0), found.pool ? pool.holders.length : leasesOf(found).length, (pool.queue || []).length + found.runs.filter((run) => run.waits_for).length);
  for (const each of Object.values(past)) if (each.length > 3600) each.shift();
}

const ofMachine = (pool) => [el("h3", {}, "Slots and devices of this machine"), pool.resources.length ? table(["resource", "held", "memory", "by"], pool.resources.map((each) => [each.name, `${each.holders} of ${each.share}`, each.memory_mb ? `${each.memory_taken_mb} of ${each.memory_mb} MB` : "", pool.holders.filter((who) => who.resource === each.name).map((who) => `${who.workload} for ${seconds(who.held_seconds)}`).join(", ")])) : el("p", {}, "nothing is leased here")];
const ofLearners = (found) => [el("h3", {}, "Devices that learners lease"), leasesOf(found).length ? table(["device", "on", "run", "learner", "held by the run", "now"], leasesOf(found).map(({ run, learner, device, now }) => [device, run.carrier || "the head's machine", run.name, learner, seconds(run.facts.usage.device_seconds_held || 0), now])) : el("p", {}, "no run leases any")];

function showCluster(view) {
  const render = (found) => {
    remember(found);
    const pool = found.pool || { resources: [], holders: [], queue: [] }, began = past.time[0];
    const names = [["slots", "actors that take part"], ["devices", found.pool ? "leases held on this machine" : "devices that learners lease"], ["queue", "waiting"]];
    view.replaceChildren(
      el("h3", {}, "Nodes"), table(["node", "state", "slots", "actors", "CPU", "memory", "devices", "runs"], found.nodes.map((node) => [node.name, node.alive ? node.leaves || "alive" : `gone for ${seconds(node.silent_seconds)}`, node.slots, node.actors, `${Math.round(node.cpu * 100)}%`, `${Math.round(node.memory * 100)}%`, node.devices, Object.entries(node.runs).map(([run, n]) => `${run} ${n}`).join(", ")])),
      el("h3", {}, "Over time, while this view is open"), chart({ across: "seconds", height: 200, least: 0, lines: names.map(([name, label], i) => ({ x: past.time.map((t) => t - began), y: past[name], label, color: COLORS[i] })) }),
      keys(names.map(([, label], i) => [label, COLORS[i]])),
      ...(found.pool ? ofMachine(found.pool) : ofLearners(found)),
      el("h3", {}, "Who waits"), table(["who", "for", "since", "lacks"], [...pool.queue.map((who) => [who.workload, [who.what, ...who.beside].join(" and "), seconds(who.waited_seconds), who.missing.join("; ") || who.why]), ...found.runs.filter((run) => run.waits_for).map((run) => [run.name, run.waits_for, "", ""])]),
      el("h3", {}, "Runs"), table(["run", "user", "state", "actors", "nodes", "about"], found.runs.map((run) => [el("a", { href: `#/run/${enc(run.name)}/timeline` }, run.name), run.user, run.outcome || run.state, run.actors, Object.keys(run.nodes).join(", "), run.waits_for ? `waits for ${run.waits_for}` : run.why.split("\n")[0]])));
  };
  listen("", render);
}

function showBill(view) {
  const names = ["cpu_seconds_held", "cpu_seconds_used", "device_seconds_held", "device_seconds_used", "parked_mb_seconds", "bytes_moved"];
  return whileLive(view, [], "bill", (found) => {
    const cost = found.total.cost !== undefined ? [`cost ${found.currency}`] : [];
    const row = (name, user, each) => [name, user, ...names.map((n) => each.usage[n]), Object.entries(each.usage.waits).filter(([, s]) => s >= 0.05).map(([what, s]) => `${what} ${seconds(s)}`).join(", "), ...(cost.length ? [each.cost] : [])];
    view.replaceChildren(table(["run", "user", "CPU s held", "CPU s used", "device s held", "device s used", "parked MB·s", "bytes moved", "waited", ...cost],
      [...found.runs.map((each) => row(each.name, each.user, each)), ...Object.entries(found.users).map(([user, each]) => row("all of this user", user, each)), row("all", "all", found.total)]),
    ...Object.entries(found.damage).map(([name, why]) => el("p", {}, `${name}: ${why}`)));
  });
}

// -- views of a run -----------------------------------------------------------------------------

const colorOf = (what, facts = {}) => (what.startsWith("wait") ? WAITS[facts.for || what.slice(9).split(":")[0]] || KINDS.wait : KINDS[what] || COLORS[[...what].reduce((sum, c) => sum + c.charCodeAt(0), 0) % COLORS.length]);
const kindOf = (span) => (span.kind === "start" && span.facts.to ? "moved" : ["wait", "start", "part", "firing"].includes(span.kind) ? span.kind : span.name);
// Drawn as a thin bar below what it is within.
const isWithin = (span) => span.kind === "part" || span.kind === "rest";

async function showTimeline(view, query, name) {
  const first = await ask(`runs/${enc(name)}/timeline?${new URLSearchParams({ from: query.get("from") || 0, to: query.get("to") || "inf" })}`);
  let found = first, since = first.from, until = Math.max(first.to, first.from + 1e-6), whole = [first.begin, Math.max(first.end, first.begin + 1e-6)], follow = false, due = 0, asked = 0, chosen = null;
  const ROW = 26, LEFT = 96, strip = surface(34), canvas = surface(60), said = el("span", {}), legend = el("div");
  strip.style.cursor = "pointer";
  const move = (a, b) => {
    const wide = Math.min(Math.max(b - a, 1e-4), whole[1] - whole[0]), start = Math.min(Math.max(a, whole[0]), whole[1] - wide);
    [since, until] = [start, start + wide];
    draw();
    clearTimeout(due);
    due = setTimeout(load, 120);
  };
  const load = async () => {
    const mine = ++asked, isLate = () => mine !== asked || !view.isConnected;
    try {
      const answer = await ask(`runs/${enc(name)}/timeline?${new URLSearchParams({ from: since, to: follow ? "inf" : until })}`);
      if (isLate()) return;
      found = answer;
      whole = [found.begin, Math.max(found.end, found.begin + 1e-6)];
      if (follow && found.end > until) { const wide = until - since; [since, until] = [found.end - wide, found.end]; }
      history.replaceState(null, "", `#/run/${enc(name)}/timeline?${new URLSearchParams({ from: since, to: until })}`);
      fault("");
      if (follow) tip({}, "");  // it would tell of what was there before
      draw();
    } catch (error) { if (!isLate()) fault(error.message); }
  };
  const px = (t) => LEFT + ((t - since) / (until - since)) * (canvas.clientWidth - LEFT - 8);
  const draw = () => {
    const members = found.members;
    canvas.style.height = `${members.length * ROW + 34}px`;
    const pen = canvas.pen(), right = canvas.clientWidth - 8, seen = new Map();
    members.forEach((member, i) => { pen.fillStyle = i % 2 ? "#fff" : "#f8fafb"; pen.fillRect(0, i * ROW, right, ROW); });
    pen.save(); pen.beginPath(); pen.rect(LEFT, 0, right - LEFT, members.length * ROW); pen.clip();
    const row = new Map(members.map((member, i) => [member, i * ROW]));
    for (const span of found.spans) {
      const kind = kindOf(span), x = px(span.from), wide = Math.max(px(span.to) - x, kind === "firing" ? 2 : 0.6), within = isWithin(span);
      if (x > right || x + wide < LEFT) continue;
      seen.set(span.kind === "part" ? "part of an update" : kind === "wait" ? `wait for ${span.facts.for || "?"}` : kind, colorOf(kind, span.facts));
      pen.fillStyle = colorOf(kind, span.facts);
      pen.fillRect(x, row.get(span.member) + (within ? 17 : 3), wide, within ? 5 : ROW - 6);
      if (wide > 46 && !within) { pen.fillStyle = kind === "wait" ? "#1d2733" : "#fff"; pen.save(); pen.beginPath(); pen.rect(x, 0, wide, 1e5); pen.clip(); pen.fillText(kind === "wait" ? `for ${span.facts.who || span.facts.for || "?"}` : span.name, x + 4, row.get(span.member) + 14); pen.restore(); }
    }
    for (const column of found.columns) {
      const x = px(column.from), wide = px(column.to) - x;
      for (const [member, shares] of Object.entries(column.shares)) {
        let top = row.get(member) + 3;
        for (const [what, share] of Object.entries(shares).sort(([a], [b]) => a.startsWith("wait") - b.startsWith("wait"))) { const high = share * (ROW - 6); seen.set(what.split(":")[0], colorOf(what)); pen.fillStyle = colorOf(what); pen.fillRect(x, top, wide + 0.5, high); top += high; }
      }
    }
    for (const mark of found.marks) { seen.set(mark.name, MARKS[mark.name] || MARK); pen.fillStyle = seen.get(mark.name); pen.fillRect(px(mark.at) - 1, mark.member ? row.get(mark.member) : 0, 2, mark.member ? ROW : members.length * ROW); }
    if (chosen) {
      pen.strokeStyle = "#10161d"; pen.lineWidth = 1.2;
      pen.strokeRect(px(chosen.from), row.get(chosen.member) + 2, Math.max(2, px(chosen.to) - px(chosen.from)), ROW - 4);
      const within = ([member, t]) => member === chosen.member && t >= chosen.from - 1e-5 && t <= chosen.to + 1e-5;
      for (const { from, to } of found.arrows.filter((arrow) => within(arrow.from) || within(arrow.to))) { pen.beginPath(); pen.moveTo(px(from[1]), row.get(from[0]) + ROW / 2); pen.lineTo(px(to[1]), row.get(to[0]) + ROW / 2); pen.stroke(); pen.beginPath(); pen.arc(px(to[1]), row.get(to[0]) + ROW / 2, 3, 0, 7); pen.fillStyle = "#10161d"; pen.fill(); }
    }
    pen.restore();
    pen.fillStyle = "#1d2733"; members.forEach((member, i) => pen.fillText(member, 4, i * ROW + 17, LEFT - 8));
    pen.fillStyle = "#5f6b7a"; pen.textAlign = "center";
    for (const t of ticks(since, until, 8)) pen.fillText(clock(t, until - since), px(t), members.length * ROW + 18);
    const top = strip.pen(), all = (t) => LEFT + ((t - whole[0]) / (whole[1] - whole[0])) * (right - LEFT);
    top.fillStyle = "#e9edf1"; top.fillRect(LEFT, 6, right - LEFT, 20);
    top.fillStyle = "#0b5cad"; top.fillRect(all(since), 6, Math.max(3, all(until) - all(since)), 20);
    top.fillStyle = "#5f6b7a"; top.fillText("whole run", 4, 20);
    said.textContent = `${seconds(since)} to ${seconds(until)} of ${seconds(whole[1])}` + (found.exact ? "" : ": each column is a sample; zoom in to see single rounds") + (found.damaged ? `; ${found.damaged} damaged lines are left out` : "") +
      (found.marks_left_out ? `; ${found.marks_left_out} deaths, moves and other marks are left out` : "") +
      (found.marks_to_find ? `; deaths, moves and other marks are still looked for in ${Math.ceil(100 * found.marks_to_find)}% of it` : "");
    legend.replaceChildren(keys([...seen].sort()));
  };
  const at = (event) => since + ((event.offsetX - LEFT) / (canvas.clientWidth - LEFT - 8)) * (until - since);
  const under = (event) => {
    const member = found.members[Math.floor(event.offsetY / ROW)], t = at(event), near = ((until - since) / canvas.clientWidth) * 2;
    return found.spans.filter((span) => span.member === member && span.from - near <= t && t <= span.to + near && (!isWithin(span) || event.offsetY % ROW > 16)).at(-1);
  };
  const marked = (event) => {
    const member = found.members[Math.floor(event.offsetY / ROW)], near = ((until - since) / canvas.clientWidth) * 3;
    return found.marks.filter((mark) => (!mark.member || mark.member === member) && Math.abs(mark.at - at(event)) <= near).slice(0, 4).map((mark) => `${mark.member || "run"}: ${mark.name} at ${seconds(mark.at)}\n${facts(mark.facts)}`.trim());
  };
  let held = null;
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); const t = at(event), by = 1.25 ** Math.sign(event.deltaY); move(t - (t - since) * by, t + (until - t) * by); }, { passive: false });
  canvas.addEventListener("mousedown", (event) => { held = { x: event.clientX, since, until, moved: false }; });
  canvas.addEventListener("mouseup", (event) => { if (held && !held.moved) { chosen = under(event) || null; draw(); } held = null; });
  canvas.addEventListener("mouseleave", (event) => { held = null; tip(event); });
  canvas.addEventListener("mousemove", (event) => {
    if (held && Math.abs(event.clientX - held.x) > 3) { held.moved = true; const by = ((event.clientX - held.x) / (canvas.clientWidth - LEFT)) * (held.until - held.since); move(held.since - by, held.until - by); return; }
    const span = under(event), column = found.columns.find((each) => each.from <= at(event) && at(event) < each.to), member = found.members[Math.floor(event.offsetY / ROW)];
    const told = span ? `${span.member}: ${span.kind === "wait" ? "waits" : span.name}, ${seconds(span.to - span.from)}\n${facts(span.facts)}` : column && column.shares[member] ? `${member}\n${Object.entries(column.shares[member]).map(([what, share]) => `${what} ${Math.round(share * 100)}%`).join("\n")}` : "";
    tip(event, [...marked(event), told].filter(Boolean).join("\n"));
  });
  let scrub = false;
  const jump = (event) => { const t = whole[0] + ((event.offsetX - LEFT) / (strip.clientWidth - LEFT - 8)) * (whole[1] - whole[0]), half = (until - since) / 2; move(t - half, t + half); };
  strip.addEventListener("mousedown", (event) => { scrub = true; jump(event); });
  strip.addEventListener("mousemove", (event) => { if (scrub) jump(event); });
  for (const end of ["mouseup", "mouseleave"]) strip.addEventListener(end, () => { scrub = false; });
  const zoom = (by) => { const middle = (since + until) / 2, half = ((until - since) / 2) * by; move(middle - half, middle + half); };
  const box = el("input", { type: "checkbox", onchange: (event) => { follow = event.target.checked; load(); } });
  view.append(el("div", { class: "bar" }, el("button", { onclick: () => move(...whole) }, "all"), el("button", { onclick: () => zoom(0.5) }, "zoom in"), el("button", { onclick: () => zoom(2) }, "zoom out"), el("label", {}, box, " follow"), said),
    strip, canvas, legend, el("p", { class: "bar" }, "Wheel: zoom. Drag: move. Click on a slice: what caused it, and what it caused. A wait is for the last thing that was missing."));
  new ResizeObserver(draw).observe(canvas);
  repeat(view, () => (follow || found.marks_to_find ? load() : undefined));
}

async function showPath(view, query, name) {
  const version = query.get("version") ?? "", update = query.get("update") ?? "", actor = query.get("actor") ?? "0", row = query.get("row") ?? "0", env = query.get("env") ?? "";
  const { learners } = (await ask(`runs/${enc(name)}`)).config, learner = query.get("learner") || learners[0] || "";
  const field = (label, value, more = {}) => el("input", { type: "number", min: 0, value, "aria-label": label, ...more });
  const fields = { actor: field("actor", actor), row: field("row", row), env: field("environment", env, { placeholder: "all" }), version: field("version", version || 1), update: field("update", update || 1), learner: el("select", { "aria-label": "learner" }, ...learners.map((each) => el("option", { value: each, ...(each === learner ? { selected: "" } : {}) }, each))) };
  const go = (...names) => { location.hash = `#/run/${enc(name)}/path?${new URLSearchParams(names.map((n) => [n, fields[n].value]))}`; };
  view.append(el("div", { class: "bar" }, "actor", fields.actor, "row", fields.row, "environment", fields.env, el("button", { onclick: () => go("actor", "row", "env") }, "path of the row"), ...(learners.length > 1 ? ["learner", fields.learner] : []), "update", fields.update, el("button", { onclick: () => go("update", "learner") }, "path of the update"), "version", fields.version, el("button", { onclick: () => go("version", "learner") }, "path of the version")));
  const found = await ask(`runs/${enc(name)}/path?${new URLSearchParams(update !== "" ? { update, learner } : version !== "" ? { version, learner } : { actor, row, env })}`);
  if (found.said) view.append(el("p", {}, found.said));
  if (found.lag !== null) view.append(el("p", {}, `lag: it was ${found.lag} versions old when it was learned from`));
  const MOST = 64, leads = (to, ...words) => el("a", { href: `#/run/${enc(name)}/${to}` }, ...words);
  // Rows of an actor, each range as a link to the path of its first one.
  const rows = (ranges) => ranges.slice(0, MOST).flatMap(([of, from, to, part]) => [" ", leads(`path?${new URLSearchParams({ actor: of, row: from, ...(part === undefined ? {} : { env: part }) })}`, `actor ${of}: rows ${from} to ${to - 1}${part === undefined ? "" : ` of environment ${part}`}`)]).concat(ranges.length > MOST ? [` and ${ranges.length - MOST} more`] : []);
  const told = ({ member, facts: { claims, claimed, ...others } }) => el("span", {}, shortened(facts(others).replaceAll("\n", ", ")),
    ...(claims ? [" claims:", ...rows(claims)] : []), ...(claimed ? [" claimed of it:", ...rows(claimed.map((range) => [member.slice(6), ...range]))] : []));
  const stations = (steps) => table(["what", "who", "from", "took", "facts"], steps.map((step) => [step.what, step.member, leads(`timeline?${new URLSearchParams({ from: step.from - 0.2, to: step.to + 0.2 })}`, `${number(step.from, 8)} s`), step.to > step.from ? seconds(step.to - step.from) : "", told(step)]));
  if (found.sources.length) view.append(el("h3", {}, "What went into it"), stations(found.sources), el("h3", {}, "The update, and what came of it"));
  view.append(stations(found.steps));
}

function showLags(view, query, name) {
  return whileLive(view, [name], `runs/${enc(name)}/lags`, (found) => {
    view.replaceChildren(...bars(found, "lag: versions between the one that sampled and the one that learned", found.of === "rows" ? "rows" : "claims of updates, by the mean lag of their rows"));
    if (!found.exact) view.append(el("p", {}, "of a sample of the journal"));
    const actors = Object.entries(found.by_actor);
    if (actors.length) view.append(table(["actor", "mean", "at most", "rows"], actors.map(([actor, each]) => [actor, each.mean, each.max, each.rows])));
  });
}

function showWiring(view, query, name) {
  const render = async () => {
    const found = await ask(`runs/${enc(name)}/wiring`), place = new Map(), WIDE = 250;
    const roles = found.nodes.filter((node) => node.kind === "role").sort((a, b) => (b.name === "actors") - (a.name === "actors")), stores = found.nodes.filter((node) => node.kind !== "role");
    roles.forEach((node, i) => place.set(node.name, { x: i % 2 ? 845 : 5, y: 80 + Math.floor(i / 2) * 180 }));
    stores.forEach((node, i) => place.set(node.name, { x: 425, y: 10 + i * 140 }));
    const high = Math.max(...[...place.values()].map((each) => each.y), 0) + 80, s = { svg: true };
    const svg = el("svg", { ...s, viewBox: `0 0 1100 ${high}`, width: 1100, height: high, role: "img" });
    svg.append(el("defs", s, el("marker", { ...s, id: "tip-of-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" }, el("path", { ...s, d: "M0 0 L8 4 L0 8 z", fill: "#5f6b7a" }))));
    const pairs = new Map(), labels = [], kinds = new Map(found.nodes.map((node) => [node.name, node.kind]));
    for (const edge of found.edges) {
      const a = place.get(edge.from), b = place.get(edge.to), right = b.x > a.x, below = b.x === a.x, key = [edge.from, edge.to].sort().join(), n = pairs.get(key) || 0;
      pairs.set(key, n + 1);
      const x1 = below ? a.x + WIDE / 2 : right ? a.x + WIDE : a.x, x2 = below ? x1 : right ? b.x : b.x + WIDE, y1 = a.y + (below ? 54 : 18 + n * 16), y2 = b.y + (below ? 0 : 18 + n * 16), bend = (x2 - x1) / 2;
      const rate = edge.per_second === null || edge.per_second === undefined ? "" : ` ${number(edge.per_second, 3)}/s`;
      const does = edge.target || (kinds.get(edge.from) === "role" ? "writes" : "is bound by"), label = `${does}${rate}`;
      svg.append(el("path", { ...s, d: `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, fill: "none", stroke: edge.target ? "#0b5cad" : "#9aa5b1", "stroke-width": 1.6, "marker-end": "url(#tip-of-arrow)" }, el("title", s, edge.target ? `${edge.trigger}\n${facts(edge.settings)}` : does)));
      labels.push(el("text", { ...s, x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 5, "text-anchor": "middle", class: "of-edge" }, label));
    }
    svg.append(...labels);
    for (const node of found.nodes) {
      const { x, y } = place.get(node.name), box = { role: ["#eaf2fb", 6], rows: ["#fdf3e4", 0], object: ["#eef7ee", 0], clock: ["#f4f4f4", 0] }[node.kind];
      svg.append(el("rect", { ...s, x, y, width: WIDE, height: 54, rx: box[1], fill: box[0], stroke: "#b9c3ce" }), el("text", { ...s, x: x + 10, y: y + 21 }, node.name), el("text", { ...s, x: x + 10, y: y + 41, class: "said" }, node.said));
    }
    view.replaceChildren(svg, table(["fires", "trigger", "watches", outcomes.get(shown(name)) ? "at its end" : "of late", "settings"], found.edges.filter((edge) => edge.target).map((edge) => [edge.target, edge.trigger, edge.from, edge.per_second ? `${number(edge.per_second, 3)}\u00a0per\u00a0second` : "", shortened(facts(edge.settings).replaceAll("\n", ", "))])));
  };
  repeat(view, () => render().catch((error) => fault(error.message)), 2000);
  return render();
}

async function showLogs(view, query, name) {
  let log = query.get("log") || "", offset = -20000, text = "";
  const out = el("pre"), choice = el("select", { "aria-label": "log", onchange: (event) => { location.hash = `#/run/${enc(name)}/logs?log=${enc(event.target.value)}`; } });
  view.append(el("div", { class: "bar" }, "log of", choice), out);
  if (!log) {
    const { logs } = await ask(`runs/${enc(name)}/logs`);
    log = logs.includes("run") ? "run" : logs[0] || "run";
  }
  const more = alone(async () => {
    const found = await ask(`runs/${enc(name)}/logs?${new URLSearchParams({ log, offset })}`);
    if (!choice.children.length) choice.append(...found.logs.map((each) => el("option", { value: each, ...(each === log ? { selected: "" } : {}) }, each)));
    const low = out.scrollTop + out.clientHeight >= out.scrollHeight - 8;
    offset = found.next;
    if (!found.text && text) return;
    text = (text + found.text).slice(-400000);
    out.textContent = text || "nothing has been written";
    if (low) out.scrollTop = out.scrollHeight;
  });
  repeat(view, () => more().catch((error) => fault(error.message)));
  return more();
}

function showRun(view, query, name) {
  return whileLive(view, [name], `runs/${enc(name)}`, (found) => {
    const told = found.facts || {};
    const known = [["state", found.outcome || found.state], ["why", found.why], ["waits for", found.waits_for], ["steps", told.steps], ["updates", told.updates], ["version", told.version], ["steps per second", told.steps_per_second], ["mean return of 100 episodes", told.mean_return_100], ["lag, mean and most", told.lag_mean === undefined || told.lag_mean === null ? "" : `${number(told.lag_mean)}, ${told.lag_max}`], ["rows lost", told.rows_lost], ["restarts", told.restarts], ["actors", found.actors], ["folder", found.folder], ["seed", found.config?.seed], ["journal", found.journal && (found.journal.damage || `${number(found.journal.bytes / 1e6)} MB, ${seconds(found.journal.to)}`)]];
    view.replaceChildren(table(["", ""], known.filter(([, value]) => value !== "" && value !== undefined && value !== null).map(([what, value]) => [what, typeof value === "number" ? number(value, 9) : value])));
    const waits = Object.entries(told.waits || {});
    if (waits.length && !found.outcome) view.append(el("h3", {}, "What members do now"), table(["member", ""], waits));
    view.append(el("h3", {}, "Settings"), table(["", ""], Object.entries(found.config?.settings || {}).map(([key, value]) => [key, value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value)])));
  });
}

// -- the frame ----------------------------------------------------------------------------------

const ALL = { curves: ["Curves", showCurves], cluster: ["Cluster", showCluster], bill: ["Bill", showBill] };
const ONE = { timeline: ["Timeline", showTimeline], path: ["Path of a row", showPath], lags: ["Lag", showLags], wiring: ["Wiring", showWiring], logs: ["Logs", showLogs], run: ["About", showRun] };
let stream = null, hears = () => {}, turn = 0, failed = false, outcomes = new Map();  // failed: the head was away when the view was drawn

// What the view, and what the stream of news has to complain of: each takes back its own only.
const faults = { view: "", stream: "", age: "" };
function fault(text, of = "view") {
  faults[of] = text;
  $("fault").textContent = [...new Set(Object.values(faults))].filter(Boolean).join("\n");
}
// Of a head that is away what is known is shown, and drawn anew once it is back.
function away(age) {
  failed = true;
  fault(`shown as it was ${seconds(age)} ago`, "age");
}
// Browsers have few connections to a host for all of their tabs: one that nobody looks at holds none.
function listen(run, say) {
  hears = () => { if (!document.hidden) hear(run, say); };
  hears();
}
function deafen() { stream?.close(); stream = null; }
document.addEventListener("visibilitychange", () => { deafen(); hears(); });
function hear(run, say) {
  const events = stream = new EventSource(`api/events?run=${enc(run)}`);
  events.onmessage = (event) => { const found = JSON.parse(event.data); fault(found.error ? found.error.join("\n") : "", "stream"); if (found.error) return; fault("", "age"); if (failed) show(); else say(found); };
  // A stream that was refused is closed: the view's own question was, too, and says why.
  events.onerror = () => { if (events.readyState !== EventSource.CLOSED) fault("the dashboard does not answer: is it still running? The page goes on when it comes back.", "stream"); };
}
// Calls made while one is under way share its answer.
function alone(act) {
  let asking = null;
  return () => (asking ??= act().finally(() => { asking = null; }));
}
// Again and again, as long as the view is there and looked at; not while the last time goes on.
function repeat(view, act, every = 1500) {
  const next = alone(async () => act());
  const clock = setInterval(() => { if (!view.isConnected) clearInterval(clock); else if (!document.hidden) next(); }, every);
}
// Draws an answer, and draws it anew as it changes while one of these runs lives; without names, any run.
async function whileLive(view, names, path, draw) {
  const known = () => (names.length ? names : [...outcomes.keys()]).map((name) => [name, outcomes.get(name) || ""]);
  let said = "", before = "", more = false;
  const again = async () => {
    const now = JSON.stringify(known()), found = await ask(path), text = JSON.stringify({ ...found, age: undefined });
    if (text !== said) draw(found);
    [said, before, more] = [text, now, !!found.copying];
  };
  await again();
  repeat(view, async () => {
    const now = known(), say = (text) => { if (view.isConnected) fault(text); };
    // Once more when the last of them has ended, and when there are others, or more of these.
    if (!(more || now.some(([, outcome]) => !outcome) || before !== JSON.stringify(now))) return;
    try { await again(); say(""); } catch (error) { say(error.message); }
  }, 2000);
}

// ``said``: what was answered before, if it asks again.
async function show(said = "") {
  const mine = ++turn, [path, query = ""] = location.hash.slice(2).split("?"), words = path.split("/").map(dec);
  deafen(); hears = () => {}; for (const of of Object.keys(faults)) fault("", of); tip({}, ""); failed = false;
  const run = words[0] === "run" ? words[1] : "", views = run ? ONE : ALL, word = run ? words[2] : words[0], [title, draw] = views[word] || views[Object.keys(views)[0]];
  $("title").textContent = run || title;
  document.title = `${run || title} · ARTOS`;
  $("about").textContent = "";
  $("all").replaceChildren(...Object.entries(ALL).map(([key, [name]]) => el("a", { href: `#/${key}`, class: !run && draw === ALL[key][1] ? "here" : "" }, name)));
  $("views").replaceChildren(...(run ? Object.entries(ONE).map(([key, [name]]) => el("a", { href: `#/run/${enc(run)}/${key}`, class: draw === ONE[key][1] ? "here" : "" }, name)) : []));
  const waits = said && el("p", {}, said), view = el("section", { id: "view", "data-view": word || "curves" }, waits);
  $("view").replaceWith(view);
  if (run) listen(run, (found) => { const told = found.facts || {}; $("about").textContent = [found.outcome || found.state, told.algorithm && `${told.algorithm}${told.env ? ` on ${told.env}` : ""}`, told.steps && `${told.steps.toLocaleString("en")} steps`, told.version >= 0 && `version ${told.version}`, told.steps_per_second && `${Math.round(told.steps_per_second).toLocaleString("en")} steps/s`, found.why].filter(Boolean).join(" · "); });
  try {
    await draw(view, new URLSearchParams(query), run);
    if (waits) waits.remove();
    if (mine === turn && failed && !stream) listen("", () => {});
  } catch (error) {
    if (error.later) {
      view.replaceChildren(el("p", {}, error.message));
      setTimeout(() => { if (mine === turn) show(error.message); }, 1000 * error.later);
      return;
    }
    if (mine === turn) { failed = !!error.away; fault(error.message); if (failed && !run) { deafen(); listen("", () => {}); } }
  }
  if (mine === turn) view.setAttribute("data-ready", "");
}

// The runs that are ticked in the view of curves; null in another view.
function curvesOf(hash) {
  const [path, query = ""] = hash.slice(2).split("?");
  return ["", "curves"].includes(path) ? (new URLSearchParams(query).get("runs") || "").split(",").filter(Boolean) : null;
}
function toggle(name) {
  const query = new URLSearchParams(location.hash.split("?")[1] || ""), drawn = curvesOf(location.hash);
  query.set("runs", (drawn.includes(name) ? drawn.filter((each) => each !== name) : [...drawn, name]).join(","));
  location.hash = `#/curves?${query}`;
}

const list = alone(async () => {
  const { runs } = await ask("runs"), sought = $("find").value.toLowerCase(), here = dec((location.hash.match(/^#\/run\/([^/]*)/) || [])[1] || "");
  outcomes = new Map(runs.map((run) => [shown(run.name), run.outcome]));
  const drawn = curvesOf(location.hash), tick = (run) => drawn && el("input", { type: "checkbox", "aria-label": `curves of ${run.name}`, ...(drawn.includes(shown(run.name)) ? { checked: "" } : {}), onchange: () => toggle(shown(run.name)) });
  $("runs").replaceChildren(...runs.filter((run) => run.name.toLowerCase().includes(sought)).reverse().slice(0, 500).map((run) => el("li", {}, tick(run), el("a", { href: `#/run/${enc(run.name)}/timeline`, title: `${run.name}: ${run.outcome || run.state}`, class: shown(run.name) === here ? "here" : "" }, el("span", { class: `dot ${/^[a-z]+$/.test(run.state) ? run.state : ""}` }), run.name))));
  if (!runs.length) $("runs").replaceChildren(el("li", {}, "there are no runs"));
});

addEventListener("hashchange", () => { show(); list().catch(() => {}); });
$("find").addEventListener("input", () => list().catch(() => {}));
setInterval(() => { if (!document.hidden) list().catch(() => {}); }, 5000);
list().catch((error) => fault(error.message));
show();
