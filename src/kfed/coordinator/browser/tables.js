// The tables of the page: every number of a message, and what the clusters are.

import { range } from "./points.js";
import { count, featuresOf } from "./words.js";

/** @typedef {import("./wire.js").Message} Message */
/** @typedef {import("./answer.js").Profile} Profile */

/** @type {(x: number) => string} */
const shown = (x) =>
  Number.isNaN(x) ? "" : Math.abs(x) >= 1e6 || (x && Math.abs(x) < 1e-4) ? x.toExponential(4) : String(Number(x.toPrecision(6)));

/** @template {keyof HTMLElementTagNameMap} Tag @param {Tag} tag @param {object} about */
export const make = (tag, about) => Object.assign(document.createElement(tag), about);

/** A row of a table: its name, and cells of text, a class and a second line. @param {string} name @param {[string, string?, string?][]} cells */
export function rowOf(name, cells) {
  const row = make("tr", {});
  row.append(
    make("th", { scope: "row", textContent: name }),
    ...cells.map(([textContent, className = "", second = ""]) => {
      const cell = make("td", { textContent, className });
      if (second) cell.append(make("span", { className: "sub", textContent: second }));
      return cell;
    }),
  );
  return row;
}

/** @type {(heads: string[], rows: HTMLTableRowElement[]) => HTMLTableElement} */
function tableOf(heads, rows) {
  const table = make("table", {});
  table
    .createTHead()
    .insertRow()
    .append(...heads.map((textContent, i) => make("th", { scope: "col", textContent, className: i ? "number" : "" })));
  table.createTBody().append(...rows);
  return table;
}

/** @param {Message} message */
export function numbersTable({ centers, counts, squares, deviation, names, schema, details }) {
  const groups = range(centers.n),
    features = schema ? schema.columns.flatMap(featuresOf) : (names ?? range(centers.d).map((f) => `feature ${f}`));
  const rows = [
    rowOf(
      "rows",
      groups.map((r) => [count.format(counts[r]), "number"]),
    ),
  ];
  if (squares)
    rows.push(
      rowOf(
        "sum of squares",
        groups.map((r) => [shown(squares[r]), "number"]),
      ),
    );
  if (deviation !== null)
    rows.push(
      rowOf(
        "largest singular value",
        groups.map((r) => [r ? "" : shown(deviation), "number"]),
      ),
    );
  features.forEach((name, f) =>
    rows.push(
      rowOf(
        name,
        groups.map((r) => {
          const at = r * centers.d + f,
            cells = details?.observed.data[at];
          if (cells === 0) return ["", "number"];
          return [
            shown(centers.data[at]),
            "number",
            details ? `${count.format(cells ?? 0)} cells · ${shown(details.squares.data[at])}` : undefined,
          ];
        }),
      ),
    ),
  );
  return tableOf(["", ...groups.map((r) => `group ${r + 1}`)], rows);
}

/** @param {Profile} profile @param {number[] | null} rows of this site in each cluster */
export function profileTable({ features, values, apart }, rows) {
  const clusters = [...values.keys()],
    lines = rows
      ? [
          rowOf(
            "your rows",
            clusters.map((r) => [count.format(rows[r]), "number"]),
          ),
        ]
      : [];
  features.forEach(({ name, kind }, f) =>
    lines.push(
      rowOf(
        name,
        clusters.map((r) => {
          const far = apart?.[r][f] ?? 0,
            side = far >= 1 ? "high" : far <= -1 ? "low" : "";
          return [`${side === "high" ? "▲ " : side === "low" ? "▼ " : ""}${inUnits(values[r][f], kind)}`, `number ${side}`];
        }),
      ),
    ),
  );
  return tableOf(["", ...clusters.map((r) => `cluster ${r}`)], lines);
}

/** @type {(x: number, kind: string) => string} */
function inUnits(x, kind) {
  if (Number.isNaN(x)) return "not shown";
  if (kind === "category" || kind === "flag") return `${Math.round(100 * x)} %`;
  if (kind === "date" && Math.abs(x) < 7e5) return new Date(Math.round(x) * 864e5).toISOString().slice(0, 10);
  return shown(Number(x.toPrecision(4)));
}
