// One column of text as numbers, flags, dates or levels, as kfed/site/kinds/cells.py decides it. No error here shows a cell.

import { zeros } from "./points.js";

/** @typedef {{ name: string, kind: "number" | "flag" | "date" | "text", numbers: Float64Array | null, codes: Int32Array, texts: string[], badRow: number, missing: number }} Cells */

const ABSENT = /^(|na|#?n\/a|nan|null|\.|--?|\?|missing|k\. ?a\.|keine angabe)$/i;
const UNTOLD = /^(none|nil|[<>≤≥]=?\s*[\d.,]+)$/i;
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const FLAGS = [
  ["no", "yes"],
  ["n", "y"],
  ["false", "true"],
  ["f", "t"],
  ["nein", "ja"],
];

/** The number in a cell; NaN if it is not a finite number. @param {string} word @param {"," | "."} decimal */
export function numberIn(word, decimal = ".") {
  let plain = word;
  if (decimal === ",")
    plain = (/^[-+]?\d{1,3}(\.\d{3})+(,\d+)?$/.test(word) ? word.replaceAll(".", "") : word).replaceAll(",", ".");
  const number = NUMBER.test(plain) ? Number(plain) : NaN;
  return Number.isFinite(number) ? number : NaN;
}

/** @type {(word: string) => boolean} */
const isMissing = (word) => ABSENT.test(word) || UNTOLD.test(word);

/** Those of these words that are levels: beside "+", "-" is the result of a test. @type {(words: string[]) => string[]} */
const levelsAmong = (words) =>
  words.filter((word) => !ABSENT.test(word) || (/^--?$/.test(word) && words.some((other) => /^\++$/.test(other))));

/** @param {string} name @param {string[]} column @param {"," | "."} decimal @returns {Cells} */
export function fromText(name, column, decimal) {
  const numbers = zeros(column.length);
  let nNumbers = 0,
    nOther = 0,
    badRow = -1;
  column.forEach((text, i) => {
    const word = text.trim(),
      number = (numbers[i] = numberIn(word, decimal));
    if (number === number) nNumbers++;
    else if (!isMissing(word)) {
      nOther++;
      if (badRow < 0) badRow = i;
    }
  });
  const found = {
    name,
    numbers,
    codes: new Int32Array(),
    texts: /** @type {string[]} */ ([]),
    badRow,
    missing: column.length - nNumbers - nOther,
  };
  if (nNumbers && nNumbers >= nOther) return { ...found, kind: "number" };
  const words = [...new Set(column.map((text) => text.trim()))],
    known = words.filter((word) => !isMissing(word));
  if (!known.length && levelsAmong(words).length < 2) return { ...found, kind: "number" };
  for (const [kind, table] of /** @type {const} */ ([
    ["flag", flags(known)],
    ["date", dates(known)],
  ])) {
    if (table?.size)
      return { ...found, kind, numbers: Float64Array.from(column, (text) => table.get(text.trim()) ?? NaN), badRow: -1 };
  }
  return fromLevels(name, column);
}

/** Cells that are levels, as they are written. @param {string} name @param {string[]} column @returns {Cells} */
export function fromLevels(name, column) {
  const words = column.map((text) => text.trim()),
    texts = levelsAmong([...new Set(words)]).sort(byCodePoint);
  const places = new Map(texts.map((text, place) => [text, place])),
    codes = Int32Array.from(words, (word) => places.get(word) ?? -1);
  return { name, kind: "text", numbers: null, codes, texts, badRow: -1, missing: codes.filter((code) => code < 0).length };
}

/** As Python sorts text. @type {(a: string, b: string) => number} */
export function byCodePoint(a, b) {
  const [x, y] = [[...a], [...b]],
    at = x.findIndex((letter, i) => letter !== y[i]);
  return at < 0 ? x.length - y.length : (x[at].codePointAt(0) ?? 0) - (y[at]?.codePointAt(0) ?? -1);
}

/** @type {(words: string[]) => Map<string, number> | null} */
function flags(words) {
  const found = new Set(words.map((word) => word.toLowerCase()));
  for (const pair of FLAGS) {
    const isPair = [...found].every((word) => pair.includes(word)) && (found.size === 2 || pair[0].length > 1); // a lone "F" is no "false"
    if (isPair) return new Map(words.map((word) => [word, pair.indexOf(word.toLowerCase())]));
  }
  return null;
}

/** Days since 1970. @type {(words: string[]) => Map<string, number> | null} */
export function dates(words) {
  const found = new Map();
  for (const word of words) {
    const iso = /^(\d{4})-(\d\d)-(\d\d)(?:.(\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?)?(?:Z|[-+]\d\d(?::?\d\d)?)?)?$/.exec(word),
      dotted = /^(\d{1,2})\.(\d{1,2})\.(\d{4})$/.exec(word);
    const [year, month, day, ...clock] = (iso ? iso.slice(1) : dotted ? [dotted[3], dotted[2], dotted[1]] : [NaN]).map((part) =>
      Number(part ?? 0),
    );
    const moment = new Date(0),
      [hours = 0, minutes = 0, seconds = 0] = clock;
    moment.setUTCFullYear(year, month - 1, day);
    if (moment.getUTCMonth() !== month - 1 || moment.getUTCDate() !== day || hours > 23 || minutes > 59 || seconds > 59)
      return null;
    found.set(word, moment.getTime() / 864e5 + (hours * 3600 + minutes * 60 + seconds) / 86400);
  }
  return found;
}

/** What is wrong with a cell of a column of numbers, in words that do not show it. @param {string} cell */
export function faultOf(cell) {
  const word = cell.trim();
  if (!word) return "is empty";
  if (/^[-+]?\d*,\d+$/.test(word)) return "holds a decimal comma";
  return /^[-+]?(nan|inf|infinity)$/i.test(word) || NUMBER.test(word) ? "is NaN or infinite" : "holds text";
}
