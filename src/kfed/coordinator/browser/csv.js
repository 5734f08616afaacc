// A table from the bytes of a CSV file, in the dialects that kfed/site/formats/csv.py reads.

import { dates, numberIn } from "./cells.js";
import { fail, plural } from "./words.js";

/** Cells by column, and where each row ends. @typedef {{ names: string[], columns: string[][], lines: Uint32Array, decimal: "," | ".", text: string, ends: number[], delimiter: string, hasMark: boolean }} Csv */

const DELIMITERS = [",", ";", "\t", "|"];
const SAMPLE = 2 ** 20;

/** @param {Uint8Array} bytes */
export function decode(bytes) {
  const starts = (/** @type {number[]} */ ...mark) => mark.every((byte, i) => bytes[i] === byte);
  try {
    const wide = starts(0xff, 0xfe) ? "utf-16le" : starts(0xfe, 0xff) ? "utf-16be" : null;
    if (wide || isUtf8(bytes.subarray(0, SAMPLE))) {
      return {
        text: noNul(new TextDecoder(wide ?? "utf-8", { fatal: true }).decode(bytes)),
        hasMark: Boolean(wide) || starts(0xef, 0xbb, 0xbf),
      };
    }
  } catch (error) {
    if (error instanceof TypeError) fail("a CSV file must be text in one encoding, and whole; this file is not");
    throw error;
  }
  const parts = [];
  for (let at = 0; at < bytes.length; at += 8192) parts.push(String.fromCharCode(...bytes.subarray(at, at + 8192)));
  return { text: noNul(parts.join("")), hasMark: true }; // Latin-1; a mark tells Excel that what is written is UTF-8
}

/** @type {(bytes: Uint8Array) => boolean} */
function isUtf8(bytes) {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: bytes.length === SAMPLE });
    return true;
  } catch {
    return false;
  }
}

/** @type {(text: string) => string} */
function noNul(text) {
  if (text.includes("\0")) fail("a CSV file must be text; this file is not. Save the table as CSV first");
  return text;
}

/** @param {string} text @param {boolean} hasMark @returns {Csv} */
export function readCsv(text, hasMark = false) {
  const sample = text
    .slice(0, 2 ** 16)
    .split(/\r\n?|\n/)
    .filter((line) => line.trim());
  if (!sample.length) fail("a table must have at least one row; this file is empty");
  const delimiter = delimiterOf(sample.slice(0, 200).join("\n"));
  const every = [...records(sample.join("\n"), delimiter)],
    nTitles = Math.max(0, every.findIndex(({ cells }) => cells.slice(1).some((cell) => cell.trim()))), // lines with one cell, above others
    [first, ...start] = every.slice(nTitles);
  const decimal = delimiter !== "," && hasDecimalCommas(start.length ? start : [first]) ? "," : ".";
  if (first.cells.some((cell) => !Number.isNaN(numberIn(cell.trim(), decimal)))) {
    fail("the first line must hold the names of the columns; it holds numbers. Add a line with their names");
  }
  const isDate = (/** @type {string} */ cell) => !!dates([cell.trim()]);
  if (first.cells.some((cell, c) => isDate(cell) && start.some(({ cells }) => isDate(cells[c] ?? ""))))
    fail("the first line must hold the names of the columns; it holds dates. Add a line with their names");
  const names = first.cells.map((cell) => cell.trim()),
    columns = names.map(() => /** @type {string[]} */ ([]));
  const lines = /** @type {number[]} */ ([]),
    ends = [0];
  let blank = /** @type {Record[]} */ ([]),
    nAbove = nTitles; // and -1 below the names of the columns
  const take = (/** @type {Record} */ row) => {
    if (row.cells.length !== names.length) {
      fail(
        `every line must have ${plural(names.length, "cell")}; line ${row.line} has ${row.cells.length}. Put quotes around cells that contain a separator`,
      );
    }
    row.cells.forEach((cell, c) => columns[c].push(cell));
    lines.push(row.line);
    ends.push(row.from, row.to);
  };
  for (const row of records(text, delimiter)) {
    if (row.from === row.to || (nAbove >= 0 && !text.slice(row.from, row.to).trim())) {
      if (names.length === 1 && nAbove < 0) blank.push({ ...row, cells: [""] });
      continue;
    } // a blank line is an empty cell of a single column, but at the end
    if (nAbove >= 0) {
      if (nAbove-- === 0) ends.splice(0, 1, row.from, row.to);
      continue;
    }
    blank.forEach(take);
    blank = [];
    take(row);
  }
  if (!lines.length) fail("a table must have at least one row; this one has none");
  return { names, columns, lines: Uint32Array.from(lines), decimal, text, ends, delimiter, hasMark };
}

/** The separator that cuts most lines, from the first on, into the same number of cells, and more than one. @param {string} text */
function delimiterOf(text) {
  let best = "",
    highest = [-1];
  for (const one of DELIMITERS) {
    const widths = [...records(text, one)].map(({ cells }) => cells.length),
      times = (/** @type {number} */ width) => widths.filter((other) => other === width).length,
      usual = widths.reduce((a, b) => (times(b) > times(a) ? b : a)),
      score = [+(usual > 1), -widths.indexOf(usual), times(usual), usual],
      at = score.findIndex((x, i) => x !== highest[i]);
    if (score[at] > highest[at]) [best, highest] = [one, score];
  }
  return best;
}

/** @typedef {{ cells: string[], line: number, from: number, to: number }} Record */

/** Rows of cells, with the number of their last line and their place in the text. @param {string} text @param {string} delimiter @returns {Generator<Record>} */
function* records(text, delimiter) {
  const separator = delimiter.charCodeAt(0),
    n = text.length;
  let line = 1,
    at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  while (at < n) {
    const from = at,
      cells = [];
    for (let isLast = false; !isLast;) {
      let cell = "",
        begin = at;
      if (text.charCodeAt(at) === 34) {
        for (let open = true; open;) {
          let close = text.indexOf('"', ++at);
          if (close < 0) close = n;
          const part = text.slice(at, close);
          for (let i = part.indexOf("\n"); i >= 0; i = part.indexOf("\n", i + 1)) line++;
          cell += part;
          at = close + 1;
          open = text.charCodeAt(at) === 34;
          if (open) cell += '"';
        }
        begin = at = Math.min(at, n);
      }
      let code = text.charCodeAt(at);
      while (at < n && code !== separator && code !== 10 && code !== 13) code = text.charCodeAt(++at);
      cells.push(cell + text.slice(begin, at));
      isLast = at >= n || code !== separator;
      if (!isLast) at++;
    }
    yield { cells, line, from, to: at };
    if (text.charCodeAt(at) === 13 && text.charCodeAt(at + 1) === 10) at++;
    at++;
    line++;
  }
}

/** @type {(rows: Record[]) => boolean} */
function hasDecimalCommas(rows) {
  const words = rows.flatMap((row) => row.cells.map((cell) => cell.trim()));
  return words.filter((word) => /^[-+]?\d*,\d+$/.test(word)).length > words.filter((word) => /^[-+]?\d*\.\d+$/.test(word)).length;
}

/** The table as it is, with a further column; rows are those that were read. @param {Csv} csv @param {Int32Array} labels */
export function withColumn(csv, labels) {
  let name = "cluster";
  while (csv.names.includes(name)) name += "_";
  const parts = [csv.hasMark ? "\ufeff" : "", csv.text.slice(csv.ends[0], csv.ends[1]), csv.delimiter, name, "\r\n"];
  labels.forEach((label, i) =>
    parts.push(csv.text.slice(csv.ends[2 * i + 2], csv.ends[2 * i + 3]), csv.delimiter, String(label), "\r\n"),
  );
  return parts;
}
