// What the columns of a table are, which of them are used, and the numbers that they become; as kfed/site/kinds/kinds.py and read.py.

import { byCodePoint, faultOf, fromLevels } from "./cells.js";
import { holdersOf } from "./holders.js";
import { isIdentifier } from "./identifiers.js";
import { points } from "./points.js";
import { fail, plural, quoted } from "./words.js";

/** @typedef {import("./cells.js").Cells} Cells */
/** @typedef {import("./csv.js").Csv} Csv */
/** @typedef {import("./points.js").Points} Points */
/** @typedef {{ name: string, kind: string, levels: string[] }} Column */
/** @typedef {{ columns: Column[], scaling: string, missing: string }} Schema */
/** What a message to the federation must hold. @typedef {{ by_column: boolean, n_features: number, feature_names: string[] | null, agreed_schema?: object | null, max_epsilon?: number | null, rounds?: number, closed?: boolean }} Terms */
/** The scale that the sites agreed on, by column. @typedef {Map<string, { shift: number, scale: number }> | null} Agreed */
/** @typedef {{ values: Points, names: string[], schema: Schema | null, ids: Int32Array | null, notices: string[] }} Table */

const MOST_LEVELS = 50,
  OTHER = "other";

/** The features of each column: first and one past the last. @param {Schema} schema */
export function spans(schema) {
  let first = 0;
  return schema.columns.map((column) => {
    const size = column.kind === "category" || column.kind === "empty" ? column.levels.length : 1;
    return { column, first, last: (first += size) };
  });
}

/** The columns that are not empty here. @type {(schema: Schema) => ReturnType<typeof spans>} */
export const filledSpans = (schema) => spans(schema).filter(({ first, last }) => last > first);

/** The columns to cluster, in the order of the message. @param {Csv} csv @param {Cells[]} cells @param {Terms} terms @param {string | null} idColumn @param {string[] | null} chosen */
export function columnsToUse(csv, cells, terms, idColumn, chosen) {
  const wanted = chosen ?? terms.feature_names;
  const others = csv.names.filter((name) => name !== idColumn);
  const names = wanted
    ? terms.by_column
      ? others.filter((name) => wanted.includes(name))
      : wanted
    : others.filter((name) => !(terms.by_column && isIdentifier(cells[csv.names.indexOf(name)], !!idColumn)));
  const absent = (wanted ?? []).filter((name) => !others.includes(name));
  if (absent.length) {
    if (idColumn && absent.includes(idColumn)) fail(`${quoted([idColumn])} cannot say whose a row is and be grouped, too`);
    fail(`the federation has ${quoted(absent)}, which this table does not have; its columns are ${quoted(csv.names)}`);
  }
  const twice = csv.names.filter((name, i) => csv.names.indexOf(name) !== i && (names.includes(name) || name === idColumn));
  if (twice.length) fail(`column names must be distinct; ${quoted(twice)} ${twice.length > 1 ? "occur" : "occurs"} twice`);
  if (names.includes("")) fail(`column ${csv.names.indexOf("")} (counted from 0) has no name; name it`);
  if (!names.length) fail("a table must have at least one column to group; this one has none");
  if (names.length !== terms.n_features)
    fail(`the federation has ${plural(terms.n_features, "column")}; ${names.length} ${names.length === 1 ? "is" : "are"} chosen`);
  return names;
}

/** @param {Csv} csv @param {Cells[]} cells as `fromText` found them @param {string[]} names @param {Terms} terms @param {Agreed} agreed @param {string | null} idColumn @param {number} least @returns {Table} */
export function tableOf(csv, cells, names, terms, agreed, idColumn, least) {
  const ids = idColumn === null ? null : fromLevels(idColumn, csv.columns[csv.names.indexOf(idColumn)]);
  const whose = ids && ids.codes; // rows without an id are of one person
  const own = names.map((name) => cells[csv.names.indexOf(name)]);
  own.forEach((one) => checkThousands(csv, one));
  if (!terms.by_column) return { values: plainNumbers(csv, own, agreed), names, schema: null, ids: whose, notices: [] };
  own.forEach((one) => checkCell(csv, one, one.badRow, "every cell must hold a finite number, or nothing"));
  const notices = /** @type {string[]} */ ([]);
  const schema = { columns: own.map((one) => described(one, own, least, whose, notices)), scaling: "by message", missing: "observed" };
  return { values: encoded(own, schema, csv.lines.length), names, schema, ids: whose, notices };
}

/** @type {(csv: Csv, cells: Cells, row: number, must: string) => void} */
function checkCell(csv, cells, row, must) {
  if (row < 0) return;
  const fault = faultOf(csv.columns[csv.names.indexOf(cells.name)][row]);
  fail(`${must}; column ${quoted([cells.name])} ${fault} in line ${csv.lines[row]}`);
}

/** Refuse 5.250 beside 669, which kfed/site/kinds/thousands.py would read as 5250. @type {(csv: Csv, cells: Cells) => void} */
function checkThousands({ columns, names, decimal }, { name, kind, numbers }) {
  if (kind !== "number") return;
  const words = columns[names.indexOf(name)].map((cell) => cell.trim()).filter((_, i) => numbers?.[i] === numbers?.[i]),
    isOpen = RegExp(`^[-+]?(\\d{1,3}|[1-9]\\d{0,2}\\${decimal}\\d{3})$`),
    have = (/** @type {RegExp} */ form) => words.some((word) => form.test(word));
  if (have(/[.,]/) && have(/^[-+]?[1-9]\d\d$/) && words.every((word) => isOpen.test(word)))
    fail(`column ${quoted([name])} could hold thousands or decimals (1${decimal}234); write thousands as 1234, or decimals in every cell`);
}

/** @type {(csv: Csv, cells: Cells[], scale: Agreed) => Points} */
function plainNumbers(csv, cells, scale) {
  const text = cells.filter((one) => one.kind !== "number" && one.kind !== "flag").map((one) => one.name);
  if (text.length) fail(`${quoted(text)} ${text.length > 1 ? "are" : "is"} text; this federation takes numbers alone`);
  const values = points(csv.lines.length, cells.length);
  cells.forEach((one, f) => {
    const numbers = /** @type {Float64Array} */ (one.numbers),
      { shift, scale: by } = scale?.get(one.name) ?? { shift: 0, scale: 1 };
    checkCell(csv, one, one.badRow >= 0 ? one.badRow : numbers.findIndex(Number.isNaN), "every cell must hold a finite number");
    numbers.forEach((x, i) => (values.data[i * cells.length + f] = scale ? (x - shift) / by : x));
  });
  if (scale) {
    const names = cells.map((one) => one.name),
      differing = [...names, ...scale.keys()].filter((name) => !scale.has(name) || !names.includes(name));
    if (differing.length)
      fail(`a scale must have one entry for each column; only one of table and scale has ${quoted(differing)}`);
  }
  return values;
}

/** @type {(cells: Cells, table: Cells[], least: number, whose: Int32Array | null, notices: string[]) => Column} */
function described(cells, table, least, whose, notices) {
  const { name } = cells,
    n = cells.numbers?.length ?? cells.codes.length,
    column = { name, kind: cells.kind === "text" ? "category" : cells.kind, levels: /** @type {string[]} */ ([]) };
  if (cells.missing === n) {
    notices.push(`column ${quoted([name])} is empty here and is ignored`);
    return { ...column, kind: "empty" };
  }
  const values = cells.numbers ?? cells.codes,
    isKnown = (/** @type {number} */ x) => (cells.numbers ? x === x : x >= 0),
    first = values.find(isKnown);
  if (!values.some((x) => isKnown(x) && x !== first)) notices.push(`column ${quoted([name])} is the same in every row here and adds nothing to distances`);
  if (cells.kind !== "text") return column;
  const rows = cells.texts.map(() => /** @type {number[]} */ ([]));
  cells.codes.forEach((code, i) => rows[code]?.push(i));
  const { count, areEnough } = holdersOf(sideBySide(table.filter((one) => one !== cells), n), least, whose),
    counts = rows.map(count),
    total = counts.reduce((a, b) => a + b, 0);
  const most = Math.min(MOST_LEVELS, Math.max(10, Math.floor(total / 2)));
  if (counts.length > most) {
    fail(
      `column ${quoted([name])} is text with ${plural(counts.length, "distinct value")}; a category has at most ${most} here. Name it as the column that says whose a row is, or group its values`,
    );
  }
  const isCommon = rows.map(areEnough),
    common = cells.texts.filter((_, i) => isCommon[i]);
  if (count(rows.flatMap((own, i) => (isCommon[i] ? [] : own))) >= least && !common.includes(OTHER)) common.push(OTHER);
  const unnamed = cells.texts.filter((text) => !common.includes(text)).length;
  if (unnamed)
    notices.push(
      `${plural(unnamed, "level")} of ${quoted([name])} with fewer than ${least} rows will not be named: those cells count as ${common.includes(OTHER) ? quoted([OTHER]) : "missing"}`,
    );
  return { ...column, levels: common.sort(byCodePoint) };
}

/** Numbers, and numbers of levels, as columns. @type {(cells: Cells[], n: number) => Points} */
function sideBySide(cells, n) {
  const values = points(n, cells.length);
  cells.forEach(({ numbers, codes }, f) => {
    for (let i = 0; i < n; i++) values.data[i * cells.length + f] = numbers ? numbers[i] : codes[i] < 0 ? NaN : codes[i];
  });
  return values;
}

/** @type {(cells: Cells[], schema: Schema, n: number) => Points} */
function encoded(cells, schema, n) {
  const features = schema.columns.flatMap((column, i) => featuresOf(cells[i], column)),
    values = points(n, features.length);
  features.forEach((own, f) => own.forEach((x, i) => (values.data[i * features.length + f] = x)));
  return values;
}

/** @type {(cells: Cells, column: Column) => Float64Array[]} */
function featuresOf(cells, column) {
  if (column.kind === "category" || column.kind === "empty") {
    const other = column.levels.indexOf(OTHER),
      places = cells.texts.map((text) => (column.levels.includes(text) ? column.levels.indexOf(text) : other));
    return column.levels.map((_, level) =>
      Float64Array.from(cells.codes, (code) => (code < 0 || places[code] < 0 ? NaN : +(places[code] === level))),
    );
  }
  return cells.numbers ? [cells.numbers] : [];
}

/** The scale that the sites agreed on. @param {string} text @returns {NonNullable<Agreed>} */
export function readAgreed(text) {
  let content;
  try {
    content = Object.entries(JSON.parse(text.replace(/^\ufeff/, "")));
  } catch {
    fail("a scale file must be JSON; this file is not");
  }
  for (const [name, entry] of content) {
    if (name === "columns") fail("this is a schema; this page takes a scale of numbers alone. Use `kfed join --schema`");
    if (!Number.isFinite(entry?.shift) || !Number.isFinite(entry?.scale) || entry.scale <= 0)
      fail(`the entry for ${quoted([name])} must look like {"shift": 50, "scale": 12}, with a scale greater than 0`);
  }
  return new Map(content);
}
