// Levels, and values of columns with only two, that few rows of a group have count as others, as kfed/device/floor/level_floor.py and decision 0001.

import { holdersOf } from "./holders.js";
import { filledSpans } from "./kinds.js";
import { points, range } from "./points.js";

/** @typedef {import("./points.js").Points} Points */
/** @typedef {import("./kinds.js").Schema} Schema */
/** @typedef {import("./columns.js").CellSums} CellSums */
/** @typedef {ReturnType<typeof holdersOf>} Holders */
/** @typedef {{ first: number, last: number, other: number, low: number, high: number }} Levels */

/** The features of each category and flag, and of numbers and dates of which the column has no more than two. @type {(values: Points, schema: Schema) => Levels[]} */
export function levelled({ data, d }, schema) {
  return filledSpans(schema).flatMap(({ column: { kind, levels }, first, last }) => {
    const isLevel = levels.length || kind === "flag",
      two = isLevel ? [0, 1] : [...new Set(data.filter((x, i) => i % d === first && x === x))].sort((a, b) => a - b);
    return two.length === 2 ? [{ first, last, other: levels.indexOf("other"), low: two[0], high: two[1] }] : [];
  });
}

/** The sums as they are sent: levels that fewer than `least` rows, or ids, of a group have count as others (kfed/device/floor/level_floor.py).
 * @type {(sums: CellSums, columns: Levels[], values: Points, counted: number[], labels: Int32Array, least: number, ids: Int32Array | null) => CellSums} */
export function withCommonLevels(sums, columns, values, counted, labels, least, ids) {
  const { data, d } = values,
    holders = holdersOf(values, least, ids),
    observed = sums.observed.slice(),
    means = points(sums.means.n, d, sums.means.data.slice()),
    squares = sums.squares.slice();
  for (const { first, last, other, low, high } of columns) {
    const size = Math.max(2, last - first),
      isFlag = last - first === 1;
    for (let r = 0; r < means.n; r++) {
      const own = counted.filter((row, i) => labels[i] === r && !Number.isNaN(data[row * d + first]));
      const codes = own.map((row) =>
        isFlag ? +(data[row * d + first] === high) : data.subarray(row * d + first, row * d + last).indexOf(1),
      );
      const masses = commonMasses(codes, own, size, holders, other);
      const total = masses.reduce((a, b) => a + b, 0),
        shares = masses.map((mass) => mass / Math.max(total, 1)).slice(first - last);
      shares.forEach((share, i) => {
        const at = r * d + first + i;
        [observed[at], means.data[at], squares[at]] = [total, low + share * (high - low), total * share * (1 - share) * (high - low) ** 2];
      });
    }
  }
  return { ...sums, observed, means, squares };
}

/** Rows of each level, where rare levels count as `other`, as missing, or as the most common one. @type {(codes: number[], rows: number[], size: number, holders: Holders, other: number) => number[]} */
function commonMasses(codes, rows, size, { count, areEnough }, other) {
  const having = (/** @type {(code: number) => boolean} */ is) => rows.filter((_, i) => is(codes[i])),
    ofEach = range(size).map((level) => having((code) => code === level)),
    isRare = ofEach.map((own) => own.length > 0 && !areEnough(own)),
    masses = ofEach.map((own, level) => (isRare[level] ? 0 : own.length)),
    rare = having((code) => isRare[code]);
  if (!rare.length) return masses;
  const others = having((code) => isRare[code] || code === other);
  if (other >= 0 && rare.length < rows.length && areEnough(others)) {
    masses[other] = others.length;
    return masses;
  }
  const held = ofEach.map((own, level) => (isRare[level] ? 0 : count(own)));
  if (rare.length < rows.length && !areEnough(rare)) masses[held.indexOf(Math.max(...held))] += rare.length;
  return masses;
}
