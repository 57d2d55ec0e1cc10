// The panel: the events of a row.

// The teacher's token that starts at, or else covers, the offset of a row; -1 after its end.
function teacherAt(i) {
  const j = view.record.teacher_row[i];
  if (j >= 0) return j;
  const covers = search(view.t.length, (k) => view.atT[k + 1] > view.atS[i]);
  return covers < view.t.length ? covers : -1;
}

// What happens at the root rows of the block that a row is in.
function events(i) {
  const block = Math.floor(i / shared.block);
  return (view.events[block] ||= JSON.parse($(`events-${responseNumber}-${block}`).textContent));
}

function reasons(i) {
  const { status, kind } = view.record,
    j = teacherAt(i),
    out = [];
  const root = kind[i] === "root" || kind[i] === "both",
    child = kind[i] === "child" || kind[i] === "both";
  if (root) out.push(["Root: the teacher's token ", tokenCode("teacher", view.record.teacher[j]), " starts here."]);
  else if (status[i] === "root")
    out.push(["No root loss: the sampled token is blank (spaces or tabs only), and the loss of such rows is masked."]);
  else if (status[i] === "interior") {
    const into = view.atS[i] - view.atT[j];
    out.push([
      "No root: ",
      plural(into, "byte"),
      " into the teacher's token ",
      tokenCode("teacher", view.record.teacher[j]),
      ".",
    ]);
  } else if (status[i] === "no_teacher_row") out.push(["No root: the teacher's tokens have ended."]);
  else
    out.push([
      "No root: after byte ",
      view.record.common.toLocaleString("en"),
      ", the first in which both sides differ.",
    ]);
  if (child)
    out.push([
      "Child: completes what ",
      view.closes.get(i).flatMap((root) => [tokenCode("student", view.record.student[root]), ` (row ${root + 1}) `]),
      "opened.",
    ]);
  else if (i > 0 && view.record.teacher_row[i - 1] >= 0) {
    const before = events(i - 1).unfinished[i - 1];
    out.push([
      before
        ? "No child: what the token before opened, no student token completes."
        : "No child: the token before opened no group.",
    ]);
  } else out.push([i ? "No child: the row before is no root." : "No child: the first row."]);
  return h(
    "ul",
    { class: "why" },
    out.map((words) => h("li", null, words.flat())),
  );
}

function show(i) {
  const { root, child, student } = view.record,
    s = view.s[i];
  const from = view.atS[i],
    to = view.atS[i + 1];
  const at =
    to > from + 1
      ? `bytes ${from.toLocaleString("en")}–${(to - 1).toLocaleString("en")}`
      : to > from
        ? `byte ${from.toLocaleString("en")}`
        : `no bytes, at ${from.toLocaleString("en")}`;
  const parts = [
    h(
      "h2",
      null,
      `Row ${(i + 1).toLocaleString("en")} `,
      h("small", null, `of ${view.s.length.toLocaleString("en")}`),
      " ",
      code(s),
    ),
    h(
      "p",
      { class: "where" },
      h("b", { class: "badge" }, KINDS[view.record.kind[i]][0]),
      ` ${KINDS[view.record.kind[i]][1]} · ${at}`,
      s.bytes.length ? ` · hex ${Array.from(s.bytes, hex).join(" ")}` : "",
      ` · id ${student[i]}`,
    ),
    reasons(i),
  ];
  if (root) {
    const weighted =
      typeof root[i] === "string" || typeof child[i] === "string" ? "∞" : root[i] + shared.childWeight * child[i];
    parts.push(
      h(
        "dl",
        { class: "losses" },
        [
          ["root loss", root[i]],
          ["child loss", child[i]],
          ["total", weighted],
        ].map(([name, x]) => h("div", null, h("dt", null, name), h("dd", null, number(x)))),
      ),
    );
  }
  const closed = (view.closes.get(i) || []).flatMap((root) =>
    events(root).links[root].filter((link) => link.child === i),
  );
  parts.push(...closed.map(completes), entry(i), opened(i));
  panel.replaceChildren(...parts.filter(Boolean));
  panel.scrollTop = 0;
  panel.dataset.row = i;
}

const with_ = (codes, values) =>
  codes.flatMap((c, k) => [k ? " " : "", c, values ? h("span", { class: "num" }, ` ${share(values[k])}`) : ""]);
const more = (n) => (n > 0 ? h("span", { class: "num" }, ` + ${n.toLocaleString("en")} more`) : "");
const table = (heads, rows, foot) =>
  h(
    "table",
    { class: "events" },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        heads.map((x) => h("th", { scope: "col" }, x)),
      ),
    ),
    h("tbody", null, rows.flat()),
    foot ? h("tfoot", null, foot) : "",
  );

// How teacher tokens enter at a root row.
function entry(i) {
  const found = events(i).entries[i];
  if (!found) return null;
  const scored = view.record.root !== null;
  const rows = found.targets.map(([u, n, tokens, t, p, loss, q]) => {
    const notes = [u === view.record.student[i] ? "sampled" : "", u === found.phi ? "teacher's token" : ""].filter(
      Boolean,
    );
    const name = h(
      "th",
      { scope: "row" },
      u < 0 ? "⊥ (no student token)" : tokenCode("student", u),
      notes.length ? h("small", null, ` ◂ ${notes.join(", ")}`) : "",
    );
    const numbers = scored ? [t, p, loss].map((x, k) => h("td", null, k < 2 ? share(x) : number(x))) : [];
    const sources = tokens.length
      ? [
          "from ",
          ...with_(
            tokens.map((v) => tokenCode("teacher", v)),
            q,
          ),
          more(n - tokens.length),
        ]
      : ["from no teacher token"];
    return [
      h("tr", { "data-u": u }, name, numbers),
      h("tr", { class: "of" }, h("td", { colspan: scored ? 4 : 1 }, sources)),
    ];
  });
  const [count, t, p, loss] = found.rest || [];
  const foot = found.rest
    ? h(
        "tr",
        null,
        h("th", { scope: "row" }, `+ ${count.toLocaleString("en")} more`),
        [t, p].map((x) => h("td", null, share(x))),
        h("td", null, number(loss)),
      )
    : null;
  return h(
    "section",
    { class: "entry" },
    h("h3", null, "Entry: teacher token → student token (φ)"),
    table(scored ? ["student token", "t", "p", "loss"] : ["student token"], rows, foot),
    scored
      ? h(
          "p",
          { class: "note" },
          "t: projected teacher probability; p: the student's; loss: t log(t/p). Grey: probability of the teacher token.",
        )
      : "",
  );
}

// Groups that the sampled token opens.
function opened(i) {
  const links = events(i).links[i] || [],
    open_ = events(i).unfinished[i];
  if (!links.length && !open_) return null;
  const parts = [h("h3", null, "Opened by ", code(view.s[i]))];
  for (const link of links) {
    parts.push(h("p", { class: "note" }, `Completed at row ${link.child + 1}:`), groups(link));
  }
  if (open_) {
    const [n, some, mass, each] = open_;
    parts.push(
      h(
        "p",
        { class: "unfinished" },
        `${plural(n, "group")} that no student token completes at the next row`,
        mass === null ? ": " : ` (M ${share(mass)}): `,
        with_(
          some.map((g) => bytesCode(group(g).bytes)),
          each,
        ),
        more(n - some.length),
      ),
    );
  }
  return h("section", { class: "opened" }, parts);
}

const completes = (link) =>
  h(
    "section",
    { class: "completes" },
    h(
      "h3",
      null,
      "Completion of what ",
      tokenCode("student", view.record.student[link.root]),
      ` opened at row ${link.root + 1}`,
    ),
    groups(link),
  );

function groups(link) {
  const scored = view.record.root !== null;
  const rows = link.groups.map(([g, size, members, mass, weight, P, loss, p]) => {
    const { bytes, size: many, some } = group(g),
      rest = bytes.subarray(link.path);
    const others =
      many > 1
        ? h(
            "small",
            null,
            ` group of ${many.toLocaleString("en")}: `,
            with_(some.slice(1).map((v) => tokenCode("teacher", v))),
            more(many - some.length),
          )
        : "";
    const exact = (u) => token("student", u).bytes.length === rest.length;
    const numbers = scored ? [share(mass), share(P), number(loss)].map((x) => h("td", null, x)) : [];
    const codes = members.map((u) => {
      const c = tokenCode("student", u);
      if (!exact(u)) {
        c.classList.add("over");
        c.title = "overshoots";
      }
      return c;
    });
    return [
      h("tr", { "data-g": g }, h("th", { scope: "row" }, bytesCode(bytes), others), numbers),
      h(
        "tr",
        { class: "of" },
        h(
          "td",
          { colspan: scored ? 4 : 1 },
          "residual ",
          bytesCode(rest),
          scored && weight !== mass ? ` weight ${share(weight)}` : "",
          `, completed by ${plural(size, "token")}: `,
          with_(codes, p),
          more(size - members.length),
        ),
      ),
    ];
  });
  const [count, mass, loss] = link.rest || [];
  const foot = link.rest
    ? h(
        "tr",
        null,
        h("th", { scope: "row" }, `+ ${count.toLocaleString("en")} more`),
        scored ? [share(mass), "", number(loss)].map((x) => h("td", null, x)) : [],
      )
    : null;
  return h(
    "div",
    null,
    table(scored ? ["group (shortest member)", "M", "P", "loss"] : ["group (shortest member)"], rows, foot),
    h(
      "p",
      { class: "note" },
      scored
        ? "M: the teacher's mass of the group at the root; P: the student's probability of the completion set; " +
            "loss: −M log P. Underlined: overshoots the residual."
        : "Underlined: overshoots the residual.",
    ),
  );
}
