// The page asks for its panels: the quick ones each second, the others every
// few seconds, and none while nobody sees it.
import { byId, bytes, chance, clock, duration, el, fill, many, number, percent, short, table, tableName } from "./dom.js";
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
  byId("note").hidden = !o.note;
  byId("note").textContent = o.note || "";
  byId("state").textContent = copy ? `read-only, as of ${clock(o.asOf)}` : o.error ? "takes no writes" : `${clock(Date.now())}`;
  problem(o.error);
  const misses = o.gets - o.hits;
  const tiles = [
    tile(number(o.entries), `${o.entries === 1 ? "entry" : "entries"}, older versions included`), tile(bytes(o.bytes), `in ${many(o.tables, "table")}`),
    tile(percent(o.predictedFPR), "of lookups of absent keys cost a block: predicted"),
  ];
  if (!copy) {
    tiles.push(
      tile(misses ? percent(o.measuredFPR) : "–", "of lookups of absent keys cost a block: measured"),
      tile(short(o.readsSaved), "reads saved by filters"), tile(short(o.gets), `${o.gets === 1 ? "lookup" : "lookups"}, ${short(misses)} of absent keys`),
      tile(o.writeAmp ? o.writeAmp.toFixed(2) : "–", "write amplification"), tile(`${o.flushing} / ${o.compacting}`, "flushes / compactions now"));
  }
  tiles.push(tile(o.tables ? o.spaceAmp.toFixed(2) : "–", "space amplification"), tile(bytes(o.debt), "compaction debt"));
  if (!copy) tiles.push(tile(`${o.openIterators} / ${o.openSnapshots}`, "iterators / snapshots open"));
  fill("tiles", ...tiles);
}

function showMemory(list) {
  const most = Math.max(...list.map((m) => m.bytes), 1), sum = list.reduce((n, m) => n + m.bytes, 0);
  const bar = (n) => { if (!n) return ""; const b = el("span", { class: "bar" }); b.style.width = `${(100 * n) / most}%`; return b; };
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
    ["committed", number(t.commits)], ["ended by a conflict", number(t.conflicts)], ["tries for a commit", t.tries ? t.tries.toFixed(2) : "–"],
    ["open now", number(t.open)], ["oldest snapshot", t.oldestSnapshotSeconds ? duration(t.oldestSnapshotSeconds) : "none"],
  ]));
}

function showExpiry(x) {
  const of = (part, all) => number(part) + (all ? ` (${percent(part / all)})` : "");
  fill("expiry", table(["", ">"], [
    ["entries that expire", of(x.expiring, x.entries)], ["lookups that met an expired one", of(x.met, x.misses)],
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
  byId("filters").classList.toggle("none", !f.levels.length);
  const runs = new Map(f.levels.map((l) => [l.level, l.runs]));
  fill("levels", table(["level", ">runs", ">tables", ">size", ">entries", ">deletions", ">expiring", ">filters", ">bits/key", ">share of keys", ">predicted", ">measured", ">asked"],
    f.levels.map((l) => ["L" + l.level, number(l.runs), number(l.tables), bytes(l.bytes), number(l.entries), number(l.tombstones), number(l.expiring), bytes(l.filterBytes),
      l.filterBits.toFixed(1), percent(l.keyShare), percent(l.predictedFPR), l.asked ? percent(l.measuredFPR) : "–", number(l.asked)])));
  fill("worst", table(["table", "level", "filter", ">bits/key", ">predicted", ">measured", ">asked", "keys"],
    f.worst.map((t) => [tableName(t.table), `L${t.level}` + (t.level && runs.get(t.level) > 1 ? ` run ${t.run}` : ""), t.kind + (t.file ? ` in ${t.file}` : ""), t.bits.toFixed(1),
      percent(t.predictedFPR), rate(t.measuredFPR, t.predictedFPR, t.asked), number(t.asked), [`${t.smallest} … ${t.largest}`, "key"]])));
}

function showMore(panels) {
  const label = (name, v) => (name === "level" ? "L" + v : v);
  const shown = (name, n) => (name === "bytes" ? bytes(n) : number(n));
  fill("more", ...panels.map((p) => el("section", {}, el("h2", {}, p.title + " ", el("a", { href: "api/more" }, "JSON")),
    (p.rows || []).length
      ? el("div", { class: "wide" }, table([...p.labels, ...p.columns.map((c) => ">" + c)],
        p.rows.map((r) => [...r.labels.map((v, i) => label(p.labels[i], v)), ...r.values.map((n, i) => shown(p.columns[i], n))])))
      : el("p", { class: "hint" }, "Nothing so far."))));
}

async function showTree() {
  const text = await (await get(`tree.svg?by=${byId("by").value}&width=${Math.max(byId("tree").clientWidth, 1)}`)).text();
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
  const found = x.found ? `found, ${many(x.valueBytes, "byte")}` + (x.value === null ? " (values are hidden)" : ": ") : "not found";
  const expires = (s) => s.expires ? (s.verdict === "found" ? ", expires " : " ") + `at ${new Date(s.expires).toISOString()}` : "";
  const where = (s) => s.place + (s.table || s.only ? " " + tableName(s.table || s.only) : "");
  const said = { outside: "not within its keys", skipped: "not looked at" };
  const verdict = (s) => [(said[s.verdict] || s.verdict) + expires(s), /false/.test(s.verdict) ? "bad" : s.verdict === "found" ? "good" : ""];
  fill("explanation",
    el("p", {}, el("code", {}, x.key), ": ", found, x.value === null ? "" : el("code", {}, x.value)),
    el("div", { class: "wide" }, table(["where", "says", "blocks read", ">time"], x.steps.map((s) => [where(s), verdict(s), reads(s), duration(s.seconds)]))),
    ...(x.rangeDelete ? [el("p", {}, `Covered by ${x.rangeDelete}.`)] : []),
    el("p", {}, `${x.saidNo} of ${many(x.covered, "table")} in range ruled out by filters, ${many(x.falsePositives, "false positive")}; ${many(x.blocksRead, "block")} (${bytes(x.bytesRead)}) from disk; ${duration(x.seconds)}.`),
    el("p", { class: "hint" }, `Without filters: ${many(x.covered, "block")}. False positives expected here: ${chance(x.expectedFalsePositives)}` +
      (copy ? "." : `; measured since the store was opened: ${percent(x.measuredFPR)} of lookups of absent keys.`)));
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
  showMore(await json("api/more"));
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
