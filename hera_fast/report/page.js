(() => {
  "use strict";
  const root = document.documentElement;

  // Light or dark: as the system says, until the button says otherwise.
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  const remembered = (value) => {
    // Some browsers refuse storage to pages from disk.
    try {
      if (value) localStorage.setItem("hera-fast-theme", value);
      return localStorage.getItem("hera-fast-theme");
    } catch {
      return null;
    }
  };
  const before = remembered();
  if (before === "dark" || before === "light") root.dataset.theme = before;
  show();
  system.addEventListener("change", show);
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remembered(root.dataset.theme);
    show();
  });

  // Tables: a click on a heading sorts, another one turns the order around.
  const status = document.getElementById("status");
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const text = (cell) => cell.dataset.value ?? cell.textContent.trim();
  const sort = (table, heading) => {
    const column = heading.cellIndex;
    const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const isNumber = heading.dataset.type === "number";
    const key = (row) => {
      const value = text(row.cells[column]);
      return isNumber ? parseFloat(value) : value;
    };
    const isMissing = (value) => (isNumber ? Number.isNaN(value) : value === "");
    const rows = Array.from(table.tBodies[0].rows, (row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      // What is missing stays at the end.
      if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b);
      return sign * (isNumber ? a - b : collator.compare(a, b));
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    const order = sign > 0 ? "ascending" : "descending";
    heading.setAttribute("aria-sort", order);
    status.textContent = `Sorted by ${heading.textContent.trim()}, ${order}`;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const heading of table.tHead.rows[0].cells) {
      heading.querySelector("button").addEventListener("click", () => sort(table, heading));
    }
  }
})();
