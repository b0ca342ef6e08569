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

const height = 150;
const samples = []; // rows of api/rates
let names = [];

export const lastSample = () => (samples.length ? samples[samples.length - 1][0] : 0);

export function addRates(rates) {
  names = rates.series;
  for (const s of rates.samples) if (s[0] > lastSample()) samples.push(s);
  samples.splice(0, samples.length - 600);
  if (samples.length && window.uPlot) draw();
}

function draw() {
  for (const c of charts) { // all places first: how wide they are depends on how many there are
    if (!c.place) byId("charts").append(c.place = el("div", { class: "chart" }));
  }
  const times = samples.map((s) => s[0] / 1000);
  for (const c of charts) {
    const data = [times, ...c.lines.map(([name]) => samples.map((s) => s[names.indexOf(name)]))];
    if (!c.plot) make(c, data);
    else if (!zoomed(c)) c.plot.setData(data);
  }
}

const clockOf = (t) => clock(1000 * t);
const zoomed = (c) => c.zoom;

function make(c, data) {
  const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
  c.plot = new uPlot({
    title: c.title, width: c.place.clientWidth, height,
    cursor: { sync: { key: "shale" }, drag: { x: true, y: false } },
    hooks: { setSelect: [() => { c.zoom = true; }] },
    scales: { y: { range: (u, lo, hi) => [0, c.max || (hi > 0 ? hi * 1.1 : 1)] } },
    axes: [{ ...axis, values: (u, ticks) => ticks.map(clockOf) }, { ...axis, size: 64, values: (u, ticks) => ticks.map((v) => c.unit(v)) }],
    series: [{ value: (u, t) => (t == null ? "" : clockOf(t)) },
      ...c.lines.map(([, label, col]) => ({ label, stroke: colour(col), width: 1.5, points: { show: data[0].length < 3 }, value: (u, v) => (v == null ? "" : c.unit(v)) }))],
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
  if (samples.length && window.uPlot) draw();
}
