// Moving among the rows, by keys and by the mouse.

function mark(i, name, on) {
  for (const piece of pieces[i] || []) piece.classList.toggle(name, on);
  for (const piece of teacherPieces[teacherAt(i)] || []) piece.classList.toggle(name, on);
}

function select(i, focus) {
  if (!view.s.length) {
    panel.replaceChildren(h("p", null, "This response has no tokens."));
    return;
  }
  const old = pieces[current]?.[0];
  mark(current, "on", false);
  if (old) {
    old.tabIndex = -1;
    old.setAttribute("aria-selected", false);
  }
  current = selectedOf[responseNumber] = i;
  draw(Math.floor(view.lineOf[i] / CHUNK));
  const box = pieces[i][0];
  box.tabIndex = 0;
  box.setAttribute("aria-selected", true);
  mark(i, "on", true);
  if (focus) {
    box.focus({ preventScroll: true });
    box.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  show(i);
}

function vertical(step) {
  const line = view.lineOf[current],
    [from, to] = view.colS[current];
  const centre = (from + Math.min(to, lines[line][1])) / 2 - lines[line][0];
  for (let target = line + step; target >= 0 && target < lines.length; target += step) {
    let best = -1,
      gap = Infinity;
    for (
      let i = firstAfter(view.colS, lines[target][0]);
      i < view.s.length && view.colS[i][0] < lines[target][1];
      i++
    ) {
      if (view.lineOf[i] !== target) continue;
      const d = Math.abs((view.colS[i][0] + view.colS[i][1]) / 2 - lines[target][0] - centre);
      if (d < gap) {
        best = i;
        gap = d;
      }
    }
    if (best >= 0) return best;
  }
  return current;
}

function nextChild(step) {
  for (let i = current + step; i >= 0 && i < view.s.length; i += step) if (view.closes.has(i)) return i;
  return current;
}

rowsBox.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const last = view.s.length - 1;
  if (event.key === "N" || event.key === "P") {
    const index = responseNumber + (event.key === "N" ? 1 : -1);
    if (index >= 0 && index < shared.titles.length) open(index, true);
    event.preventDefault();
    return;
  }
  const moves = {
    ArrowRight: () => Math.min(current + 1, last),
    ArrowLeft: () => Math.max(current - 1, 0),
    ArrowDown: () => vertical(1),
    ArrowUp: () => vertical(-1),
    Home: () => 0,
    End: () => last,
    n: () => nextChild(1),
    p: () => nextChild(-1),
  };
  if (!(event.key in moves) || last < 0) return;
  event.preventDefault();
  select(moves[event.key](), true);
});
const rowAt = (event) => event.target.closest?.("[data-s]");
rowsBox.addEventListener("click", (event) => {
  const box = rowAt(event);
  if (box) select(Number(box.dataset.s), true);
});
let pointed = -1;
rowsBox.addEventListener("mouseover", (event) => {
  const box = rowAt(event),
    i = box ? Number(box.dataset.s) : -1;
  if (i === pointed || i < 0) return;
  if (pointed >= 0) mark(pointed, "at", false);
  pointed = i;
  mark(i, "at", true);
  show(i);
});
rowsBox.addEventListener("mouseleave", () => {
  if (pointed >= 0) {
    mark(pointed, "at", false);
    pointed = -1;
    show(current);
  }
});
rowsBox.addEventListener("focusin", (event) => {
  const box = rowAt(event);
  if (box && Number(box.dataset.s) !== current) select(Number(box.dataset.s), false);
  else if (view.s.length) show(current);
});
