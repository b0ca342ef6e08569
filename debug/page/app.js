// The page asks for its panels: the quick ones each second, the others every
// few seconds, and none while nobody sees it.
import { byId, bytes, clock, duration, el, fill, number, percent, short, table } from "./dom.js";
import { addRates, lastSample, resize, restart } from "./charts.js";
import { drawCompactions, drawStalls } from "./time.js";

let copy = false; // a state that was opened read-only, without the program that writes it

async function get(url) {
  const response = await fetch(url, { cache: "no-store" });
  if (!response.ok) throw new Error((await response.text()).trim() || `status ${response.status}`);
  return response;
}
const json = async (url) => (await get(url)).json();

function problem(text) {
  byId("problem").hidden = !text;
  byId("problem").textContent = text;
}

const tile = (value, label) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, label));

function showOverview(o) {
  copy = o.asOf > 0;
  document.body.classList.toggle("copy", copy);
  byId("title").textContent = o.title;
  document.title = `${o.title} · shale`;
  byId("note").hidden = !copy && !o.note;
  byId("note").textContent = (copy ? `The state of ${clock(o.asOf)}. ` : "") + (o.note || "");
  byId("state").textContent = copy ? `read-only, as of ${clock(o.asOf)}` : o.error ? "takes no writes" : `${clock(Date.now())}`;
  problem(o.error);
  const misses = o.gets - o.hits;
  const tiles = [
    tile(number(o.entries), "entries, older versions included"), tile(bytes(o.bytes), `in ${number(o.tables)} tables`),
    tile(percent(o.predictedFPR), "false positives predicted, a miss"),
  ];
  if (!copy) {
    tiles.push(
      tile(misses ? percent(o.measuredFPR) : "–", "false positives measured, a miss"),
      tile(short(o.readsSaved), "reads saved by filters"), tile(short(o.gets), `lookups, ${short(misses)} of absent keys`),
      tile(o.writeAmp.toFixed(2), "write amplification"), tile(`${o.flushing} / ${o.compacting}`, "flushes / compactions now"));
  }
  tiles.push(tile(o.spaceAmp.toFixed(2), "space amplification"), tile(bytes(o.debt), "compaction debt"));
  if (!copy) tiles.push(tile(`${o.openIterators} / ${o.openSnapshots}`, "iterators / snapshots open"));
  fill("tiles", ...tiles);
}

function showMemory(list) {
  const most = Math.max(...list.map((m) => m.bytes), 1), sum = list.reduce((n, m) => n + m.bytes, 0);
  const bar = (n) => { const b = el("span", { class: "bar" }); b.style.width = `${(100 * n) / most}%`; return b; };
  fill("memory", table(["owner", ">bytes", ""], [...list.map((m) => [m.owner, bytes(m.bytes), bar(m.bytes)]), ["all", bytes(sum), ""]]));
}

function showCache(c) {
  const asked = c.hits + c.misses;
  fill("cache", table(["", ">"], [
    ["blocks looked into", number(asked)], ["found in the cache", asked ? `${number(c.hits)} (${percent(c.hitRatio)})` : "0"],
    ["read from disk", `${number(c.blockReads)} (${bytes(c.readBytes)})`], ["cache holds", bytes(c.bytes)],
    ["false positives remembered", `${number(c.remembered)} (${bytes(c.rememberedBytes)})`],
  ]));
}

function showTransactions(t) {
  fill("transactions", table(["", ">"], [
    ["committed", number(t.commits)], ["ended by a conflict", number(t.conflicts)], ["tries a commit", t.tries ? t.tries.toFixed(2) : "–"],
    ["open now", number(t.open)], ["oldest snapshot", duration(t.oldestSnapshotSeconds)],
  ]));
}

function showExpiry(x) {
  const of = (part, all) => number(part) + (all ? ` (${percent(part / all)})` : "");
  fill("expiry", table(["", ">"], [
    ["entries that expire", of(x.expiring, x.entries)], ["lookups that met one over", of(x.met, x.misses)],
  ]));
}

// rate shows a measured rate beside what was predicted.
function rate(measured, predicted, asked) {
  if (!asked) return "–";
  const expected = asked * predicted, got = asked * measured;
  const worse = got > 1.5 * expected && got > expected + 6 * Math.sqrt(expected) + 6;
  return [percent(measured), worse ? "bad" : "good"];
}

function showFilters(f) {
  fill("levels", table(["level", ">runs", ">tables", ">size", ">entries", ">deletions", ">expire", ">filters", ">bits/key", ">share of keys", ">predicted", ">measured", ">asked"],
    f.levels.map((l) => ["L" + l.level, number(l.runs), number(l.tables), bytes(l.bytes), number(l.entries), number(l.tombstones), number(l.expiring), bytes(l.filterBytes),
      l.filterBits.toFixed(1), percent(l.keyShare), percent(l.predictedFPR), l.asked ? percent(l.measuredFPR) : "–", number(l.asked)])));
  fill("worst", table(["table", "level", "filter", ">bits/key", ">predicted", ">measured", ">asked", "keys"],
    f.worst.map((t) => ["#" + String(t.table).padStart(6, "0"), `L${t.level} run ${t.run}`, t.kind + (t.file ? ` in ${t.file}` : ""), t.bits.toFixed(1),
      percent(t.predictedFPR), rate(t.measuredFPR, t.predictedFPR, t.asked), number(t.asked), [`${t.smallest} … ${t.largest}`, "key"]])));
}

async function showTree() {
  const text = await (await get(`tree.svg?by=${byId("by").value}&width=${Math.max(byId("tree").clientWidth, 600)}`)).text();
  const picture = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (picture.localName !== "svg") throw new Error("the picture of the tree is no SVG");
  fill("tree", document.importNode(picture, true));
}

function showTrouble(list) {
  if (!list.length) fill("trouble", el("p", { class: "hint" }, "None since the store was opened."));
  else fill("trouble", table(["time", "what", "why"], list.map((t) => [clock(t.at), t.kind, [[t.reason, t.error].filter(Boolean).join(": "), "key"]])));
}

function showExplanation(x) {
  const reads = (s) => s.blocks.map((b) => `${b.kind} ${bytes(b.bytes)} (${b.cached ? "cached" : "disk"})`).join(", ") || "–";
  const found = x.found ? `found, ${number(x.valueBytes)} bytes` + (x.value === null ? " (values are hidden)" : ": ") : "not found";
  const expires = (s) => s.expires ? (s.verdict === "found" ? ", expires " : " ") + `at ${new Date(s.expires).toISOString()}` : "";
  const verdict = (s) => [s.verdict + expires(s), /false/.test(s.verdict) ? "bad" : s.verdict === "found" ? "good" : ""];
  fill("explanation",
    el("p", {}, el("code", {}, x.key), ": ", found, x.value === null ? "" : el("code", {}, x.value)),
    table(["where", "table", "says", "blocks read", ">time"],
      x.steps.map((s) => [s.place, s.table ? "#" + String(s.table).padStart(6, "0") : "–", verdict(s), reads(s), duration(s.seconds)])),
    ...(x.rangeDelete ? [el("p", {}, `Covered by ${x.rangeDelete}.`)] : []),
    el("p", {}, `${x.saidNo} of ${x.covered} tables in range ruled out by their filters, ${x.falsePositives} false positives; ${x.blocksRead} blocks (${bytes(x.bytesRead)}) from disk; ${duration(x.seconds)}.`),
    el("p", { class: "hint" }, `Without filters: ${x.covered} blocks. False positives expected here: ${x.expectedFalsePositives.toPrecision(2)}; measured since the store was opened: ${percent(x.measuredFPR)} a miss.`));
}

async function explain(key) {
  try {
    showExplanation(await json("api/explain?key=" + encodeURIComponent(key)));
  } catch (e) {
    fill("explanation", el("p", { class: "bad" }, e.message));
  }
}

async function quick() {
  showOverview(await json("api/overview"));
  showMemory(await json("api/memory"));
  showCache(await json("api/cache"));
  showTransactions(await json("api/transactions"));
  showExpiry(await json("api/expiry"));
  if (!copy) addRates(await json("api/rates?since=" + lastSample()));
}

async function slow() {
  showFilters(await json("api/filters"));
  await showTree();
  showTrouble(await json("api/trouble"));
  if (copy) return;
  drawCompactions(await json("api/compactions"));
  drawStalls(await json("api/stalls"), Date.now());
}

let round = 0;
async function look() {
  if (byId("live").checked && !document.hidden) {
    try {
      await quick();
      if (round++ % 5 === 0) await slow();
    } catch (e) {
      round = 0;
      problem(e instanceof TypeError ? "The program does not answer." : e.message);
    }
  }
  setTimeout(look, 1000);
}

function explainHash() {
  const key = new URLSearchParams(location.hash.slice(1)).get("explain");
  if (key === null) return;
  byId("key").value = key;
  explain(key);
}

byId("explain").addEventListener("submit", (e) => {
  e.preventDefault();
  const hash = "#" + new URLSearchParams({ explain: byId("key").value });
  if (location.hash === hash) explainHash();
  else location.hash = hash;
});
byId("by").addEventListener("change", () => { showTree().catch((e) => problem(e.message)); });
addEventListener("hashchange", explainHash);
addEventListener("resize", resize);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restart);
explainHash();
look();
