// The rates, drawn by uPlot.
import { byId, bytes, clock, colour, el, percent, short } from "./dom.js";

const charts = [
  { title: "Lookups a second", unit: short, lines: [["gets", "all", "blue"], ["misses", "absent", "orange"], ["readsSaved", "reads saved by filters", "green"]] },
  { title: "Lookups of absent keys that cost a block", unit: percent, lines: [["fpr", "measured", "red"]] },
  { title: "Blocks read from disk a second", unit: short, lines: [["blockReads", "blocks", "blue"], ["falsePositives", "for false positives", "red"]] },
  { title: "Cache hits", unit: percent, lines: [["cacheHitRatio", "of all blocks looked into", "green"]], max: 1 },
  { title: "Writes a second", unit: short, lines: [["writes", "operations", "blue"]] },
  { title: "Bytes written a second", unit: bytes, lines: [["writtenBytes", "by the program", "blue"], ["flushBytes", "flushes", "green"], ["compactBytes", "compactions", "violet"]] },
  { title: "Time that writers were held back", unit: percent, lines: [["stalled", "of all time", "red"]] },
];

const binary = Array.from({ length: 50 }, (_, i) => 2 ** i); // steps between ticks of bytes
const height = 150;
const samples = []; // rows of api/rates
let names = [];

export const lastSample = () => (samples.length ? samples[samples.length - 1][0] : 0);

export function addRates(rates) {
  names = rates.series;
  for (const s of rates.samples) if (s[0] > lastSample()) samples.push(s);
  samples.splice(0, samples.length - 600);
  if (window.uPlot) draw();
}

// draw draws the charts that have something to show: two samples, and one of them not nothing. It names the others.
function draw() {
  for (const c of charts) { // all at once, in their order
    if (!c.place) byId("charts").append(c.place = el("div", { class: "chart" }));
    c.place.hidden = !c.plot && !(samples.length > 1 && samples.some((s) => c.lines.some(([name]) => s[names.indexOf(name)] > 0)));
  }
  const quiet = charts.filter((c) => c.place.hidden).map((c) => c.title[0].toLowerCase() + c.title.slice(1));
  byId("quiet").textContent = quiet.length ? `Nothing so far: ${quiet.join(", ")}.` : "";
  const times = samples.map((s) => s[0] / 1000);
  for (const c of charts) {
    if (c.place.hidden) continue;
    const data = [times, ...c.lines.map(([name]) => samples.map((s) => s[names.indexOf(name)]))];
    if (!c.plot) make(c, data);
    else if (!zoomed(c)) c.plot.setData(data);
  }
}

const clockOf = (t) => clock(1000 * t);
const zoomed = (c) => c.zoom;

function make(c, data) {
  const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
  // Next to the name of a line stands its value: at the cursor, or else the last.
  const value = (text) => (u, v, line, i) => {
    const at = i == null ? u.data[line].at(-1) : v;
    return at == null ? "–" : text(at);
  };
  c.plot = new uPlot({
    title: c.title, width: c.place.clientWidth, height,
    cursor: { sync: { key: "shale" }, drag: { x: true, y: false } },
    hooks: { setSelect: [() => { c.zoom = true; }] },
    scales: { y: { range: (u, lo, hi) => [0, c.max || (hi > 0 ? hi * 1.1 : 1)] } },
    axes: [{ ...axis, space: 64, values: (u, ticks) => ticks.map(clockOf) }, { ...axis, size: 64, ...(c.unit === bytes ? { incrs: binary } : {}), values: (u, ticks) => ticks.map((v) => c.unit(v).replace(/\.0+(?=\D|$)/, "")) }],
    series: [{ value: value(clockOf) },
      ...c.lines.map(([, label, col]) => ({ label, stroke: colour(col), width: 1.5, points: { show: data[0].length < 3 }, value: value(c.unit) }))],
  }, data, c.place);
  c.plot.over.addEventListener("dblclick", () => { c.zoom = false; });
}

export function resize() {
  for (const c of charts) if (c.plot) c.plot.setSize({ width: c.place.clientWidth, height });
}

// restart draws all anew, in other colours.
export function restart() {
  for (const c of charts) {
    if (!c.plot) continue;
    c.plot.destroy();
    c.plot = null;
    c.zoom = false;
  }
  if (window.uPlot) draw();
}
