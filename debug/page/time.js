// Bars over time: flushes and compactions, and stalls.
import { byId, bytes, clock, duration, el, fill, many, number, svg, table } from "./dom.js";

const left = 40, right = 12, foot = 20;

// lanes puts bars that overlap below each other.
function lanes(bars) {
  const ends = [];
  for (const b of bars) {
    let i = ends.findIndex((end) => end <= b.from);
    if (i < 0) i = ends.length;
    ends[i] = Math.max(b.to, b.from + b.least);
    b.lane = i;
  }
  return ends.length;
}

// timeline draws groups of bars: [name, bars], a bar being {from, to, kind, text}.
function timeline(place, groups) {
  const width = Math.max(place.clientWidth, 320), laneHeight = 13;
  const all = groups.flatMap(([, bars]) => bars);
  const first = Math.min(...all.map((b) => b.from)), last = Math.max(...all.map((b) => b.to), first + 1000);
  const scale = (width - left - right) / (last - first);
  const x = (t) => left + (t - first) * scale;
  const at = (t) => clock(t) + (last - first < 20000 ? (t / 1000 % 1).toFixed(3).slice(1) : "");
  const parts = [];
  let y = 4;
  for (const [name, bars] of groups) {
    for (const b of bars) b.least = 2 / scale;
    const n = lanes(bars);
    parts.push(svg("text", { x: left - 6, y: y + 10, "text-anchor": "end" }, name));
    for (const b of bars) {
      parts.push(svg("rect", { class: b.kind, x: x(b.from).toFixed(1), y: y + b.lane * laneHeight, width: Math.max((b.to - b.from) * scale, 1.5).toFixed(1), height: laneHeight - 2, rx: 1.5 },
        svg("title", {}, b.text)));
    }
    y += n * laneHeight + 4;
    parts.push(svg("line", { x1: left, x2: width - right, y1: y - 2, y2: y - 2 }));
  }
  const ticks = Math.max(2, Math.floor((width - left - right) / 150));
  for (let i = 0; i <= ticks; i++) {
    const anchor = i === 0 ? "start" : i === ticks ? "end" : "middle";
    parts.push(svg("text", { x: left + (i * (width - left - right)) / ticks, y: y + 13, "text-anchor": anchor }, at(first + (i * (last - first)) / ticks)));
  }
  place.replaceChildren(svg("svg", { class: "time", width, height: y + foot, viewBox: `0 0 ${width} ${y + foot}`, role: "img" }, ...parts));
}

export function drawCompactions(list) {
  byId("compactions").parentElement.hidden = !list.length;
  if (!list.length) {
    fill("gantt", el("p", { class: "hint" }, "None since the store was opened."));
    fill("compactions");
    return;
  }
  const levels = new Map();
  for (const c of [...list].sort((a, b) => a.from - b.from)) {
    if (!levels.has(c.level)) levels.set(c.level, []);
    const reason = c.reason ? `: ${c.reason}` : "";
    levels.get(c.level).push({ from: c.from, to: c.to, kind: c.kind, text: `${c.kind} to L${c.level}${reason}\n${bytes(c.bytesIn)} in, ${bytes(c.bytesOut)} out, ${many(c.tables, "table")}\n${clock(c.from)}, ${duration(c.seconds)}` });
  }
  timeline(byId("gantt"), [...levels].sort((a, b) => a[0] - b[0]).map(([l, bars]) => [`L${l}`, bars]));
  byId("gantt").append(el("p", { class: "hint" }, "By the level of what came out. Green: flushes, blue: compactions."));
  fill("compactions", table(["time", "what", ">to level", ">in", ">out", ">tables", ">took", "reason"],
    [...list].reverse().map((c) => [clock(c.to), c.kind, "L" + c.level, bytes(c.bytesIn), bytes(c.bytesOut), number(c.tables), duration(c.seconds), c.reason])));
}

export function drawStalls(s, now) {
  if (!s.list.length && !s.writes) {
    fill("stalls", el("p", { class: "hint" }, "No writer has had to wait since the store was opened."));
    return;
  }
  const sum = `Writers waited ${duration(s.seconds)} in all: ${duration(s.memtables)} for flushes, ${duration(s.level0)} for compactions out of level 0; ${many(s.writes, "wait")}.`;
  if (!s.list.length) {
    fill("stalls", el("p", {}, sum));
    return;
  }
  const place = el("div");
  fill("stalls", el("p", {}, sum), place, el("p", { class: "hint" }, "Orange: memtables that wait for flushes; red: level 0 is too deep. The last ones; point at one for its cause."));
  const bars = s.list.map((b) => ({
    from: b.from, to: b.to || now, kind: (/level 0/.test(b.reason) ? "level0" : "memtables") + (b.to ? "" : " open"),
    text: `${b.reason}\n${clock(b.from)}, ${b.to ? duration((b.to - b.from) / 1000) + ", writers waited " + duration(b.seconds) : "not ended: the next write will tell"}`,
  }));
  const slowed = bars.filter((b, i) => s.list[i].reason.startsWith("slowed")), stopped = bars.filter((b) => !slowed.includes(b));
  timeline(place, [["slow", slowed], ["stop", stopped]].filter(([, b]) => b.length));
}
