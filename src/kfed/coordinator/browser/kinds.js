// What the columns of a table are, which of them are used, and the numbers that they become; as kfed/site/kinds.py and read.py.

import { byCodePoint, faultOf, fromLevels, fromText } from "./cells.js";
import { points } from "./points.js";
import { fail, plural, quoted } from "./words.js";

/** @typedef {import("./cells.js").Cells} Cells */
/** @typedef {import("./csv.js").Csv} Csv */
/** @typedef {import("./points.js").Points} Points */
/** Shift and scale are numbers as they are written in JSON. @typedef {{ name: string, kind: string, levels: string[], unit?: string, shift?: string, scale?: string }} Column */
/** @typedef {{ columns: Column[], scaling: string, missing: string }} Schema */
/** What a message to the federation must hold. @typedef {{ by_column: boolean, n_features: number, feature_names: string[] | null, max_epsilon?: number | null }} Terms */
/** What the sites agreed on, in a file. @typedef {{ schema: Schema | null, scale: Map<string, { shift: number, scale: number }> | null }} Agreed */
/** @typedef {{ values: Points, names: string[], schema: Schema | null, ids: Int32Array | null, notices: string[] }} Table */

const MOST_LEVELS = 50, OTHER = "other", FEWEST_ROWS = 20, MAX_LEVELS = 1000;
const IDENTIFIER = /(^|[^\p{L}\p{N}])(id|ids|key|nr|no|num|number|mrn|uuid|guid|pid|ssn)$/iu;
const KINDS = ["number", "category", "flag", "date", "empty"];

/** The columns to cluster, in the order of the message. @param {Csv} csv @param {Cells[]} cells @param {Terms} terms @param {Agreed} agreed @param {string | null} idColumn @param {string[] | null} chosen */
export function columnsToUse(csv, cells, terms, agreed, idColumn, chosen) {
  const wanted = agreed.schema ? agreed.schema.columns.map((column) => column.name) : chosen ?? terms.feature_names;
  const others = csv.names.filter((name) => name !== idColumn);
  const names = wanted ? (terms.by_column ? others.filter((name) => wanted.includes(name)) : wanted) : others.filter((name) => !(terms.by_column && isIdentifier(cells[csv.names.indexOf(name)])));
  const absent = (wanted ?? []).filter((name) => !others.includes(name));
  if (absent.length) {
    if (idColumn && absent.includes(idColumn)) fail(`${quoted([idColumn])} cannot say whose a row is and be grouped, too`);
    fail(`the federation has ${quoted(absent)}, which this table does not have; its columns are ${quoted(csv.names)}`);
  }
  const twice = csv.names.filter((name, i) => csv.names.indexOf(name) !== i && (names.includes(name) || name === idColumn));
  if (twice.length) fail(`column names must be distinct; ${quoted(twice)} ${twice.length > 1 ? "occur" : "occurs"} twice`);
  if (names.includes("")) fail(`column ${csv.names.indexOf("")} (counted from 0) has no name; name it`);
  if (!names.length) fail("a table must have at least one column to group; this one has none");
  if (!agreed.schema && names.length !== terms.n_features) fail(`the federation has ${plural(terms.n_features, "column")}; ${names.length} ${names.length === 1 ? "is" : "are"} chosen`);
  return names;
}

/** @param {Csv} csv @param {Cells[]} cells as `fromText` found them @param {string[]} names @param {Terms} terms @param {Agreed} agreed @param {string | null} idColumn @param {number} least @returns {Table} */
export function tableOf(csv, cells, names, terms, agreed, idColumn, least) {
  const ids = idColumn === null ? null : fromLevels(idColumn, csv.columns[csv.names.indexOf(idColumn)]);
  const whose = ids && ids.codes; // rows without an id are of one person
  const own = names.map((name) => cells[csv.names.indexOf(name)]);
  if (!terms.by_column && !agreed.schema) return { values: plainNumbers(csv, own, agreed.scale), names, schema: null, ids: whose, notices: [] };
  const texts = own.map((one, i) => (agreed.schema?.columns[i].kind === "category" ? fromLevels(one.name, csv.columns[csv.names.indexOf(one.name)]) : one));
  texts.forEach((one) => checkCell(csv, one, one.badRow, "every cell must hold a finite number, or nothing"));
  const notices = /** @type {string[]} */ ([]);
  const schema = agreed.schema ?? { columns: texts.map((one) => described(one, least, whose, notices)), scaling: "by message", missing: "observed" };
  return { values: encoded(texts, schema, csv.lines.length), names, schema, ids: whose, notices };
}

/** @type {(csv: Csv, cells: Cells, row: number, must: string) => void} */
function checkCell(csv, cells, row, must) {
  if (row < 0) return;
  const fault = faultOf(csv.columns[csv.names.indexOf(cells.name)][row]);
  fail(`${must}; column ${quoted([cells.name])} ${fault} in line ${csv.lines[row]}`);
}

/** @type {(csv: Csv, cells: Cells[], scale: Agreed["scale"]) => Points} */
function plainNumbers(csv, cells, scale) {
  const text = cells.filter((one) => one.kind !== "number" && one.kind !== "flag").map((one) => one.name);
  if (text.length) fail(`${quoted(text)} ${text.length > 1 ? "are" : "is"} text; this federation takes numbers alone`);
  const values = points(csv.lines.length, cells.length);
  cells.forEach((one, f) => {
    const numbers = /** @type {Float64Array} */ (one.numbers), { shift, scale: by } = scale?.get(one.name) ?? { shift: 0, scale: 1 };
    checkCell(csv, one, one.badRow >= 0 ? one.badRow : numbers.findIndex(Number.isNaN), "every cell must hold a finite number");
    numbers.forEach((x, i) => (values.data[i * cells.length + f] = scale ? (x - shift) / by : x));
  });
  if (scale) {
    const names = cells.map((one) => one.name), differing = [...names, ...scale.keys()].filter((name) => !scale.has(name) || !names.includes(name));
    if (differing.length) fail(`a scale must have one entry for each column; only one of table and scale has ${quoted(differing)}`);
  }
  return values;
}

/** @type {(cells: Cells, least: number, whose: Int32Array | null, notices: string[]) => Column} */
function described(cells, least, whose, notices) {
  const { name } = cells, n = cells.numbers?.length ?? cells.codes.length, column = { name, kind: cells.kind === "text" ? "category" : cells.kind, levels: /** @type {string[]} */ ([]) };
  if (cells.missing === n) {
    notices.push(`column ${quoted([name])} is empty here and is ignored`);
    return { ...column, kind: "empty" };
  }
  const values = (cells.numbers ?? cells.codes).filter((x) => (cells.numbers ? x === x : x >= 0));
  if (values.every((x) => x === values[0])) notices.push(`column ${quoted([name])} is the same in every row here and is ignored`);
  if (cells.kind !== "text") return column;
  const people = cells.texts.map(() => new Set());
  cells.codes.forEach((code, i) => { if (code >= 0) people[code].add(whose ? whose[i] : i); });
  const counts = people.map((own) => own.size), total = counts.reduce((a, b) => a + b, 0);
  if (counts.length > MOST_LEVELS || counts.length > Math.max(10, Math.floor(total / 2))) {
    fail(`column ${quoted([name])} is text with ${plural(counts.length, "distinct value")}; a category has at most ${MOST_LEVELS}. Name it as the column that says whose a row is, or group its values`);
  }
  const common = cells.texts.filter((_, i) => counts[i] >= least), rare = counts.filter((count) => count < least);
  if (rare.reduce((a, b) => a + b, 0) >= least && !common.includes(OTHER)) common.push(OTHER);
  const unnamed = cells.texts.filter((text) => !common.includes(text)).length;
  if (unnamed) notices.push(`${plural(unnamed, "level")} of ${quoted([name])} with fewer than ${least} rows will not be named: those cells count as ${common.includes(OTHER) ? quoted([OTHER]) : "missing"}`);
  return { ...column, levels: common.sort(byCodePoint) };
}

/** @type {(cells: Cells[], schema: Schema, n: number) => Points} */
function encoded(cells, schema, n) {
  const features = schema.columns.flatMap((column, i) => featuresOf(cells[i], column)), values = points(n, features.length);
  features.forEach((own, f) => own.forEach((x, i) => (values.data[i * features.length + f] = x)));
  return values;
}

/** @type {(cells: Cells, column: Column) => Float64Array[]} */
function featuresOf(cells, column) {
  if (column.kind === "category" || column.kind === "empty") {
    const other = column.levels.indexOf(OTHER), places = cells.texts.map((text) => (column.levels.includes(text) ? column.levels.indexOf(text) : other));
    return column.levels.map((_, level) => Float64Array.from(cells.codes, (code) => (code < 0 || places[code] < 0 ? NaN : +(places[code] === level))));
  }
  const { numbers } = cells, isFlag = column.kind === "flag" && numbers?.every((x) => x === 0 || x === 1 || x !== x);
  if (!numbers || !(cells.kind === column.kind || isFlag || numbers.every(Number.isNaN))) {
    fail(`column ${quoted([column.name])} must hold a ${column.kind} in every row; it holds a ${cells.kind}`);
  }
  return [numbers];
}

/** Whether every row has its own value, and the name or the numbers say that it is an identifier. @param {Cells} cells */
export function isIdentifier(cells) {
  const { numbers } = cells;
  if (!numbers) { const known = cells.codes.length - cells.missing; return known >= FEWEST_ROWS && cells.texts.length === known; }
  const known = numbers.filter((x) => x === x);
  if (cells.kind !== "number" || known.length < FEWEST_ROWS) return false;
  const counts = (known[0] === 0 || known[0] === 1) && known.every((x, i) => x === known[0] + i);
  return known.every(Number.isInteger) && new Set(known).size === known.length && (counts || IDENTIFIER.test(cells.name));
}

/** What a file says that the sites agreed on: a schema, or a scale. Numbers of a schema stay as they are written. @param {string} text @returns {Agreed} */
export function readAgreed(text) {
  let content;
  try {
    content = JSON.parse(text.replace(/^\ufeff/, "").replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) => (token[0] === '"' ? token : JSON.stringify({ number: token }))));
  } catch {
    fail("what the sites agreed on must be JSON; this file is not");
  }
  if (!Array.isArray(content?.columns)) {
    const scale = new Map(Object.entries(content ?? {}).map(([name, entry]) => [name, { shift: Number(entry?.shift?.number), scale: Number(entry?.scale?.number) }]));
    for (const [name, { shift, scale: by }] of scale) if (!Number.isFinite(shift / by) || by <= 0) fail(`the entry for ${quoted([name])} must look like {"shift": 50, "scale": 12}, with a scale greater than 0`);
    return { schema: null, scale };
  }
  const columns = content.columns.map((/** @type {any} */ column) => ({ kind: "number", levels: [], ...column, shift: column?.shift?.number, scale: column?.scale?.number }));
  const isSound = columns.every((/** @type {Column} */ c) => typeof c.name === "string" && c.name && KINDS.includes(c.kind) && c.levels.length <= MAX_LEVELS && Number.isFinite(Number(c.shift)) && Number(c.scale) > 0);
  if (!isSound || content.scaling !== "agreed") fail("this is not a schema with an agreed scale; use the file that `kfed agree` wrote");
  if (content.missing !== "observed") fail("this page groups rows by their filled cells; for another way with missing cells, use `kfed join`");
  return { schema: { columns, scaling: "agreed", missing: "observed" }, scale: null };
}
