// Of report.html: what stands behind a cell, rows that hide, tables as CSV. Without it the page is text and tables.
"use strict";
{
  const data = JSON.parse(document.getElementById("data").textContent);
  const about = document.getElementById("about");
  const valueOf = (cell) =>
    "value" in cell.dataset
      ? Object.fromEntries(data.fields.map((field, i) => [field, data.values[cell.dataset.value][i]]))
      : null;
  const make = (tag, text = "", more = {}) => Object.assign(document.createElement(tag), { textContent: text }, more);

  // The text of a cell without the marks of its notes.
  function plain(cell) {
    const copy = cell.cloneNode(true);
    copy.querySelectorAll("sup").forEach((mark) => mark.remove());
    return copy.textContent.trim();
  }

  const headings = (table) => [...(table.tHead?.rows[0].cells ?? [])].map(plain);

  function facts(value) {
    const commands = value.commands.map((at) => data.commands[at]);
    const shown = commands.slice(0, 4);
    if (commands.length > 4) shown.push(`and ${commands.length - 4} more`);
    return {
      value: value.value,
      "95 % interval":
        value.low === null || value.high === null ? "not known"
        : value.low === value.high ? "none: nothing varied, or one sample"
        : `${value.low} to ${value.high}`,
      status: value.status.replace("_", " "),
      "memory state": value.state || "not recorded",
      sittings: value.sittings,
      commit: value.commit.replaceAll("+", ", ") || "not recorded",
      ...(value.whose ? { "dense time of": value.whose.replaceAll("_", " ") } : {}),
      "measured by": shown.join("\n") || "not recorded",
    };
  }

  function show(cell) {
    const table = cell.closest("table");
    const title = [plain(cell.parentElement.cells[0]), headings(table)[cell.cellIndex]].filter(Boolean).join(" · ");
    const list = make("dl");
    for (const [name, text] of Object.entries(facts(valueOf(cell)))) {
      list.append(make("dt", name), make("dd", text));
    }
    list.lastChild.style.whiteSpace = "pre-line";
    about.replaceChildren(make("strong", title), list);
    about.hidden = false;
    const at = cell.getBoundingClientRect();
    const room = { width: document.documentElement.clientWidth, height: window.innerHeight };
    const below = at.bottom + 6 + about.offsetHeight <= room.height;
    about.style.left = `${Math.max(8, Math.min(at.left, room.width - about.offsetWidth - 8))}px`;
    about.style.top = `${below ? at.bottom + 6 : Math.max(8, at.top - about.offsetHeight - 6)}px`;
  }

  const cellOf = (event) => event.target.closest?.("[data-value]");
  const hide = () => { about.hidden = true; };
  document.addEventListener("mouseover", (event) => (cellOf(event) ? show(cellOf(event)) : hide()));
  document.addEventListener("focusin", (event) => (cellOf(event) ? show(cellOf(event)) : hide()));
  document.addEventListener("scroll", hide, true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const cell = cellOf(event);
    if (!steps || !cell) return;
    const rows = cell.closest("table").rows;
    const next = rows[cell.parentElement.rowIndex + steps[0]]?.cells[cell.cellIndex + steps[1]];
    if (next && "value" in next.dataset) {
      event.preventDefault();
      next.focus();
    }
  });

  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  // Rows that are shown; of columns with values also their intervals, statuses and states.
  function csv(table) {
    const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
    const names = headings(table);
    const columns = [...rows[0]?.cells ?? []].map((_, i) => ({
      name: names[i] ?? "",
      hasValues: rows.some((row) => valueOf(row.cells[i])),
    }));
    const more = ["low", "high", "status", "state", "commit"];
    const lines = [columns.flatMap(({ name, hasValues }) => [name, ...(hasValues ? more.map((m) => `${name}: ${m}`) : [])])];
    for (const row of rows) {
      lines.push(columns.flatMap(({ hasValues }, i) => {
        const value = valueOf(row.cells[i]);
        if (!hasValues) return [plain(row.cells[i])];
        return value ? [value.value, ...more.map((m) => value[m] ?? "")] : [plain(row.cells[i]), ...more.map(() => "")];
      }));
    }
    return lines.map((cells) => cells.map((cell) => quoted(String(cell))).join(",") + "\n").join("");
  }

  function save(table, name) {
    const link = make("a", "", {
      href: URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" })),
      download: `${name}.csv`,
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // A check box a row, made when they are first asked for.
  function choices(table, button) {
    const box = make("fieldset");
    [...table.tBodies[0].rows].forEach((row) => {
      const label = make("label");
      const check = make("input", "", { type: "checkbox", checked: !row.hidden });
      check.addEventListener("change", () => {
        row.hidden = !check.checked;
        count(table, button);
      });
      label.append(check, ` ${[...row.cells].map(plain).find(Boolean) ?? ""}`);
      box.append(label);
    });
    return box;
  }

  function count(table, button) {
    const hidden = [...table.tBodies[0].rows].filter((row) => row.hidden).length;
    button.textContent = hidden ? `Rows (${hidden} hidden)` : "Rows";
  }

  document.querySelectorAll(".table").forEach((frame, number) => {
    const table = frame.querySelector("table");
    if (!table.tHead) return;
    const tools = make("div", "", { className: "tools" });
    const rows = make("button", "Rows", { type: "button", title: "Choose the rows that are shown" });
    const saving = make("button", "CSV", { type: "button", title: "Save the rows that are shown" });
    const title = frame.closest("section").querySelector("h1, h2").textContent;
    rows.setAttribute("aria-expanded", "false");
    rows.addEventListener("click", () => {
      if (!tools.querySelector("fieldset")) tools.append(Object.assign(choices(table, rows), { hidden: true }));
      const box = tools.querySelector("fieldset");
      box.hidden = !box.hidden;
      rows.setAttribute("aria-expanded", String(!box.hidden));
    });
    saving.addEventListener("click", () => save(table, `${title}, table ${number}`.replace(/[^\w, ]/g, "")));
    tools.append(rows, saving);
    frame.append(tools);
    // By keyboard: to the first value of a table, from there by arrows.
    table.querySelectorAll("[data-value]").forEach((cell, i) => { cell.tabIndex = i ? -1 : 0; });
  });

  if (window.matchMedia("(max-width: 1099px)").matches) document.querySelector("nav details").open = false;
}
