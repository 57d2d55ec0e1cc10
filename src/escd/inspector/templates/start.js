// What the page begins with.

$("kinds").append(
  ...Object.values(KINDS).map(([letter, name, meaning]) =>
    h("div", null, h("dt", null, h("b", { class: "badge" }, letter), ` ${name}`), h("dd", null, meaning)),
  ),
);
for (let r = 0; r < shared.titles.length; r++) {
  const tab = h(
    "button",
    { role: "tab", type: "button", "data-r": r, "aria-controls": "response", title: printable(shared.titles[r]) },
    `Response ${r + 1}`,
  );
  tab.addEventListener("click", () => open(r, false));
  $("responses").append(tab);
}
$("responses").hidden = shared.titles.length < 2;
$("responses").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const index = responseNumber + (step || 0);
  if (!step || index < 0 || index >= shared.titles.length) return;
  event.preventDefault();
  open(index, false);
  $("responses").children[index].focus();
});
let wide = 0;
new ResizeObserver(() => {
  if (rowsBox.clientWidth === wide || matchMedia("print").matches) return;
  if (wide) {
    const focused = rowsBox.contains(document.activeElement);
    layout(false);
    select(current, focused);
  }
  wide = rowsBox.clientWidth;
}).observe(rowsBox);
addEventListener("beforeprint", () => {
  layout(true);
  select(current, false);
});
addEventListener("afterprint", () => {
  layout(false);
  select(current, false);
});
open(0, false);
