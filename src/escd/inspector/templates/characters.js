// Bytes as characters, tokens as they are spelled, and the elements that they are shown in.

const $ = (id) => document.getElementById(id);
const shared = JSON.parse($("shared").textContent);

const NAMED = { 9: "⇥", 10: "⏎", 32: "␣" };
const SEEN = /[\p{L}\p{N}\p{P}\p{S}]/u,
  HIDDEN = /[\p{DI}\u2800]/u,
  MARK = /\p{M}/u;
const hex = (byte) => byte.toString(16).toUpperCase().padStart(2, "0");
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function unhex(text) {
  const out = new Uint8Array(text.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = parseInt(text.substr(2 * i, 2), 16);
  return out;
}

// Characters of some bytes: {at, size, text, kind}; kind is "c" a character, "u" one that cannot be seen, "x" a byte.
function characters(bytes) {
  const found = [];
  for (let at = 0; at < bytes.length;) {
    const first = bytes[at];
    if (first < 0x80) {
      const kind = first in NAMED || (first > 32 && first < 127) ? "c" : "x";
      found.push({ at, size: 1, kind, text: kind === "x" ? hex(first) : NAMED[first] || String.fromCharCode(first) });
      at += 1;
      continue;
    }
    const size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    let text = null;
    try {
      if (first >= 0xc2 && at + size <= bytes.length) text = utf8.decode(bytes.subarray(at, at + size));
    } catch {
      /* no character: shown as a byte */
    }
    if (text === null || [...text].length !== 1) {
      found.push({ at, size: 1, kind: "x", text: hex(first) });
      at += 1;
      continue;
    }
    const code = text.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    const seen = !HIDDEN.test(text) && (SEEN.test(text) || MARK.test(text));
    found.push({ at, size, kind: seen ? "c" : "u", text: !seen ? code : MARK.test(text) ? "◌" + text : text });
    at += size;
  }
  return found;
}

const cache = { student: new Map(), teacher: new Map() };
function token(who, id) {
  let found = cache[who].get(id);
  if (!found) {
    const entry = shared[who][id];
    const special = Array.isArray(entry);
    const bytes = special ? new Uint8Array() : unhex(entry);
    const parts = special ? [{ kind: "c", text: printable(entry[0]) }] : characters(bytes);
    found = { id, bytes, special, parts, text: parts.map((c) => (c.kind === "c" ? c.text : `‹${c.text}›`)).join("") };
    cache[who].set(id, found);
  }
  return found;
}
const printable = (text) =>
  characters(new TextEncoder().encode(text))
    .map((c) => c.text)
    .join("")
    .replaceAll("␣", " ");
const group = (g) => ({ bytes: unhex(shared.groups[g][0]), size: shared.groups[g][1], some: shared.groups[g][2] });

function h(tag, options, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options || {})) {
    if (name === "class") element.className = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// Runs of plain text as they are, bytes and code points in elements of their own.
function spell(parts) {
  const out = [];
  let plain = "";
  for (const part of parts) {
    if (part.kind === "c") {
      plain += part.text;
      continue;
    }
    if (plain) out.push(plain);
    plain = "";
    out.push(h(part.kind === "x" ? "i" : "u", null, part.text));
  }
  return plain ? [...out, plain] : out;
}
const code = (thing) => h("code", { class: thing.special ? "tok special" : "tok" }, spell(thing.parts));
const tokenCode = (who, id) => code(token(who, id));
const bytesCode = (bytes) => code({ parts: characters(bytes) });

function number(x, digits = 4) {
  if (x === null || x === undefined) return "–";
  if (typeof x === "string") return x;
  if (x === 0) return "0";
  if (Math.abs(x) < 0.5 * 10 ** -digits) return x.toExponential(1).replace("-", "−").replace("e-", "e−");
  return x.toFixed(digits).replace("-", "−");
}
const share = (x) => number(x, 3);
const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
