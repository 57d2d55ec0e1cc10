// Where tokens and bytes stand: columns of one byte each, cut into lines.

const SLOT = 5; // columns of a token without bytes

// First index from 0 to length for which a test that stays true once it is true is true.
function search(length, test) {
  let low = 0,
    high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

function offsets(tokens) {
  const out = [0];
  for (const t of tokens) out.push(out[out.length - 1] + t.bytes.length);
  return out;
}

function lay(record) {
  const s = record.student.map((id) => token("student", id)),
    t = record.teacher.map((id) => token("teacher", id));
  const atS = offsets(s),
    atT = offsets(t);
  const stream = (tokens, at) => {
    const out = new Uint8Array(at[tokens.length]);
    tokens.forEach((x, i) => out.set(x.bytes, at[i]));
    return out;
  };
  const mine = stream(s, atS),
    theirs = stream(t, atT);
  const bytes = new Uint8Array(Math.max(mine.length, theirs.length));
  bytes.set(theirs);
  bytes.set(mine);
  // Tokens without bytes get columns of their own before the byte at which they stand.
  const slots = new Uint16Array(bytes.length + 1);
  for (const [tokens, at] of [
    [s, atS],
    [t, atT],
  ]) {
    for (let i = 0; i < tokens.length;) {
      let k = i;
      while (k < tokens.length && !tokens[k].bytes.length) k += 1;
      slots[at[i]] = Math.max(slots[at[i]], k - i);
      i = Math.max(k, i + 1);
    }
  }
  const before = new Int32Array(bytes.length + 1),
    after = new Int32Array(bytes.length + 1);
  for (let o = 0, extra = 0; o <= bytes.length; o++) {
    before[o] = o + extra;
    extra += SLOT * slots[o];
    after[o] = o + extra;
  }
  const place = (tokens, at) => {
    let empty = 0;
    return tokens.map((x, i) => {
      if (x.bytes.length) {
        empty = 0;
        return [after[at[i]], before[at[i + 1]]];
      }
      const from = before[at[i]] + SLOT * empty++;
      return [from, from + SLOT];
    });
  };
  const cells = characters(bytes).map((c) => ({ ...c, from: after[c.at], to: after[c.at] + c.size }));
  return {
    record,
    s,
    t,
    atS,
    atT,
    bytes,
    cells,
    colS: place(s, atS),
    colT: place(t, atT),
    columns: after[bytes.length],
  };
}

// Where lines end: after a line feed, else where both have a boundary, else where one has, else where they must.
function breakLines(view, width) {
  const quality = new Uint8Array(view.columns + 1).fill(1);
  for (const c of view.cells) for (let x = c.from + 1; x < c.to; x++) quality[x] = 0;
  for (const [from, to] of [...view.colS, ...view.colT]) for (let x = from + 1; x < to; x++) quality[x] = 0;
  const student = new Uint8Array(view.columns + 1);
  for (const [from] of view.colS) student[from] = 1;
  for (const c of view.cells) if (view.bytes[c.at] === 10 && quality[c.to]) quality[c.to] = 2;
  const lines = [];
  for (let start = 0; start < view.columns;) {
    const limit = Math.min(start + width, view.columns);
    let end = 0,
      fair = 0,
      forced = 0;
    for (let x = start + 1; x <= limit && !forced; x++) {
      if (quality[x] === 2) forced = x;
      if (quality[x]) end = x;
      else if (student[x]) fair = x;
    }
    if (limit === view.columns && !forced) end = limit;
    else end = forced || (end - start > width / 2 ? end : Math.max(end, fair) || limit);
    lines.push([start, end]);
    start = end;
  }
  return lines;
}
