// Parts of the page. What comes from the store becomes text or an attribute of
// a fixed name, and never a piece of HTML.

export const byId = (id) => document.getElementById(id);

export function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

export function svg(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

export function fill(id, ...children) {
  byId(id).replaceChildren(...children);
}

// table makes a table, without a head if no column has a title. A column's title that begins with
// > is flush right. A cell is a text, a node, or [text, class].
export function table(titles, rows) {
  const right = titles.map((t) => t.startsWith(">"));
  const cell = (tag, c, i) => {
    const [content, cls] = Array.isArray(c) ? c : [c, ""];
    const all = ((right[i] ? "right " : "") + cls).trim();
    return el(tag, all ? { class: all } : {}, content);
  };
  const names = titles.map((t) => t.replace(/^>/, ""));
  return el("table", {},
    ...(names.some(Boolean) ? [el("thead", {}, el("tr", {}, ...names.map((t, i) => cell("th", t, i))))] : []),
    el("tbody", {}, ...rows.map((r) => el("tr", {}, ...r.map((c, i) => cell("td", c, i))))));
}

export const number = (n) => Math.round(n).toLocaleString("en");
export const many = (n, one, more = one + "s") => `${number(n)} ${n === 1 ? one : more}`;
export const percent = (p) => (p === 0 ? "0 %" : p < 1e-6 ? "<0.0001 %" : (100 * p).toPrecision(3) + " %");
export const tableName = (n) => "#" + String(n).padStart(6, "0");

// chance says in words how often something happens, of which p is the mean in one lookup.
export function chance(p) {
  if (p >= 0.1) return `${p.toPrecision(2)} a lookup`;
  if (p >= 1e-9) return `1 in ${number(Number((1 / p).toPrecision(2)))} such lookups`;
  return p > 0 ? "less than 1 in a billion such lookups" : "none";
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (i === 0 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}

export function short(n) {
  const units = ["", "k", "M", "G", "T"];
  let i = 0;
  while (Math.abs(n) >= 1000 && i < units.length - 1) { n /= 1000; i++; }
  return (n === 0 ? "0" : n < 10 && n % 1 ? n.toFixed(n < 1 ? 2 : 1) : n.toFixed(i && n < 100 ? 1 : 0)) + units[i];
}

export function duration(s) {
  if (s === 0) return "0 s";
  if (s >= 1) return s.toFixed(2) + " s";
  if (s >= 1e-3) return (1e3 * s).toFixed(1) + " ms";
  return (1e6 * s).toFixed(1) + " µs";
}

export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
