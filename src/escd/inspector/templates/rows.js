// A response on the page: its lines, drawn when they come near the window, and moving among its rows.

const CELL = 0.95; // rem of a byte's column
const LINE = 7.7; // rem of a line; less where there are no losses to draw
const CHUNK = 6; // lines that are drawn together

// kind: mark, name, meaning
const KINDS = {
  root: ["R", "root", "A teacher token starts where this student token starts: trained on the projected teacher."],
  child: [
    "C",
    "child",
    "The token before began longer teacher tokens: trained on the sets of tokens that complete them.",
  ],
  both: ["RC", "root and child", "Both at once; the losses add up."],
  interior: ["in", "interior", "No loss: inside a teacher token, and nothing to complete in one step."],
  blank: ["bl", "blank", "No loss: the token is only spaces or tabs, whose root loss is masked."],
  no_teacher_row: ["–", "no teacher row", "No loss: the teacher's tokens have ended."],
  diverged: ["≠", "diverged", "No loss: after the first byte in which both sides differ."],
};

const rowsBox = $("rows"),
  panel = $("panel");
let view = null,
  lines = [],
  chunks = [],
  pieces = [],
  teacherPieces = [];
let current = 0,
  responseNumber = 0,
  lineHeight = LINE,
  watcher = null;
const selectedOf = [];
const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

function open(index, focus) {
  responseNumber = index;
  const record = JSON.parse($(`record-${index}`).textContent);
  view = lay(record);
  view.events = [];
  view.closes = new Map(record.links.map(([, child]) => [child, []]));
  for (const [root, child] of record.links) view.closes.get(child).push(root);
  view.rowOfTeacher = new Map();
  record.teacher_row.forEach((j, i) => {
    if (j >= 0 && !view.rowOfTeacher.has(j)) view.rowOfTeacher.set(j, i);
  });
  view.most = largest(record);
  lineHeight = record.root ? LINE : LINE - 0.9;
  for (const tab of $("responses").children) {
    const on = Number(tab.dataset.r) === index;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
  }
  describe(record);
  current = Math.min(selectedOf[index] || 0, Math.max(record.student.length - 1, 0));
  layout(false);
  select(current, focus);
}

// The largest total loss of a row, for the height of the bars.
function largest({ root, child }) {
  let most = 1e-9;
  for (let i = 0; root && i < root.length; i++) {
    const total = root[i] + shared.childWeight * child[i];
    if (Number.isFinite(total)) most = Math.max(most, total);
  }
  return most;
}

function describe(record) {
  const box = $("prompt");
  box.hidden = !record.prompt;
  box.lastElementChild.replaceChildren(
    ...(record.prompt || []).map(([role, text]) =>
      h("div", { class: "message" }, h("b", null, printable(role)), h("div", { class: "text", dir: "auto" }, text)),
    ),
  );
  const n = record.student.length,
    tally = {};
  for (const kind of record.kind) tally[kind] = (tally[kind] || 0) + 1;
  const told = Object.keys(KINDS)
    .filter((k) => tally[k])
    .map((k) => `${tally[k].toLocaleString("en")} ${KINDS[k][1]}`);
  const sum = (values) => values.reduce((a, b) => a + (typeof b === "string" ? Infinity : b), 0);
  const loss = record.root
    ? ` Mean loss per row: root ${number(sum(record.root) / n)}, child ${number(sum(record.child) / n)} nats.`
    : "";
  const same = view.atS[view.s.length] === record.common && view.atT[view.t.length] === record.common;
  $("counts").textContent =
    `${plural(n, "student row")} against ${plural(record.teacher.length, "teacher token")}, ` +
    `${plural(view.bytes.length, "byte")}${record.ended ? "" : ", cut without a stop"}. ${told.join(", ")}.${loss}` +
    (same ? "" : ` The two sides agree on the first ${plural(record.common, "byte")} only.`);
}

function layout(everything) {
  const width = everything ? 640 / rem() : rowsBox.clientWidth / rem();
  lines = breakLines(view, Math.max(8, Math.floor((width - 3.4) / CELL)));
  pieces = [];
  teacherPieces = [];
  watcher?.disconnect();
  watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting) draw(Number(entry.target.dataset.c));
    },
    { rootMargin: "800px" },
  );
  chunks = [];
  view.lineOf = new Int32Array(view.s.length);
  for (let i = 0, line = 0; i < view.s.length; i++) {
    while (line < lines.length - 1 && view.colS[i][0] >= lines[line][1]) line += 1;
    view.lineOf[i] = line;
  }
  for (let c = 0; c * CHUNK < lines.length; c++) {
    const count = Math.min(CHUNK, lines.length - c * CHUNK);
    const chunk = h("div", { class: "chunk", "data-c": c, role: "presentation" });
    chunk.style.height = `${count * lineHeight}rem`;
    chunks.push(chunk);
  }
  rowsBox.replaceChildren(...chunks);
  if (everything) chunks.forEach((_, c) => draw(c));
  else for (const chunk of chunks) watcher.observe(chunk);
}

// First of sorted [from, to] pairs that reaches beyond a column.
const firstAfter = (places, column) => search(places.length, (i) => places[i][1] > column);

function draw(c) {
  const chunk = chunks[c];
  if (chunk.firstChild) return;
  for (let l = c * CHUNK; l < Math.min((c + 1) * CHUNK, lines.length); l++) chunk.append(drawLine(l));
  if (view.lineOf[current] >= c * CHUNK && view.lineOf[current] < (c + 1) * CHUNK) mark(current, "on", true);
}

function boxed(element, from, to, [start, end]) {
  const a = Math.max(from, start),
    b = Math.min(to, end);
  element.style.left = `${(a - start) * CELL}rem`;
  element.style.width = `${(b - a) * CELL}rem`;
  if (from < start) element.classList.add("from");
  if (to > end) element.classList.add("goes");
  return element;
}

function drawLine(l) {
  const [start, end] = lines[l],
    record = view.record;
  const line = h("div", { class: "line", role: "presentation" });
  line.style.height = `${lineHeight}rem`;
  const gutter = h(
    "div",
    { class: "gutter", "aria-hidden": "true" },
    h("span", null, "teacher"),
    h("span"),
    h("span", null, "student"),
  );
  const lane = h("div", { class: "lane", role: "presentation" });
  let offset = view.bytes.length;
  for (let j = firstAfter(view.colT, start); j < view.colT.length && view.colT[j][0] < end; j++) {
    const [from, to] = view.colT[j],
      t = view.t[j];
    const box = boxed(
      h("span", { class: `box t${t.special ? " special" : ""}`, "aria-hidden": "true" }),
      from,
      to,
      lines[l],
    );
    if (from >= start) box.append(...spell(t.parts));
    const row = view.rowOfTeacher.get(j);
    if (row !== undefined) box.dataset.s = row;
    lane.append(box);
    (teacherPieces[j] ||= []).push(box);
  }
  const { cells } = view;
  for (let k = search(cells.length, (i) => cells[i].to > start); k < cells.length && cells[k].from < end; k++) {
    const cell = cells[k],
      a = Math.max(cell.from, start),
      b = Math.min(cell.to, end);
    offset = Math.min(offset, cell.at + a - cell.from);
    const glyph = cell.kind === "x" ? "·" : cell.text;
    const data = Array.from(view.bytes.subarray(cell.at + a - cell.from, cell.at + b - cell.from), hex).join(" ");
    lane.append(
      boxed(
        h(
          "span",
          { class: `byte ${cell.kind}`, "data-h": data, "aria-hidden": "true" },
          cell.from >= start ? glyph : "…",
        ),
        cell.from,
        cell.to,
        lines[l],
      ),
    );
  }
  for (let i = firstAfter(view.colS, start); i < view.colS.length && view.colS[i][0] < end; i++) {
    const [from, to] = view.colS[i],
      s = view.s[i],
      kind = record.kind[i];
    const box = h("span", { class: `box s ${kind}${s.special ? " special" : ""}`, "data-s": i });
    if (from >= start) {
      const text = h("span", { class: "word" }, spell(s.parts));
      box.append(text, h("span", { class: "kind" }, KINDS[kind][0]));
      box.id = `row-${i}`;
      box.tabIndex = i === current ? 0 : -1;
      for (const [name, value] of [
        ["role", "option"],
        ["aria-selected", i === current],
        ["aria-posinset", i + 1],
        ["aria-setsize", view.s.length],
        ["aria-label", label(i)],
      ])
        box.setAttribute(name, value);
    } else box.setAttribute("aria-hidden", "true");
    (pieces[i] ||= []).push(boxed(box, from, to, lines[l]));
    lane.append(box);
    if (record.root && from >= start) lane.append(...bars(i, from, to, lines[l]));
  }
  gutter.children[1].textContent = offset.toLocaleString("en");
  line.append(gutter, lane);
  return line;
}

function bars(i, from, to, line) {
  const { root, child } = view.record;
  const parts = [
    ["bar r", root[i]],
    ["bar c", shared.childWeight * child[i]],
  ];
  let below = 0;
  const out = [];
  for (const [name, loss] of parts) {
    const height = typeof loss === "string" ? 0.8 - below : Math.max(0, loss / view.most) * 0.8;
    if (height < 0.02) continue;
    const bar = boxed(h("span", { class: name, "aria-hidden": "true" }), from, to, line);
    bar.style.height = `${height}rem`;
    bar.style.marginTop = `${0.8 - below - height}rem`;
    below += height;
    out.push(bar);
  }
  return out;
}

function label(i) {
  const { kind, root, child } = view.record,
    s = view.s[i];
  const losses = root ? `, root loss ${number(root[i])}, child loss ${number(child[i])}` : "";
  return `row ${i + 1}, ${s.special ? "special token" : "token"} ${s.text}, ${KINDS[kind[i]][1]}${losses}`;
}
