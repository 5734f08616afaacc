// Levels and flags that few rows of a group have count as others, as kfed/device/level_floor.py and decision 0001.

import { filledSpans } from "./kinds.js";
import { points, range } from "./points.js";

/** @typedef {import("./points.js").Points} Points */
/** @typedef {import("./kinds.js").Schema} Schema */
/** @typedef {import("./columns.js").CellSums} CellSums */
/** @typedef {{ first: number, last: number, other: number }} Levels */

/** The features of each category and flag; a column of numbers that are all 0 or 1 is a flag here. @type {(values: Points, schema: Schema) => Levels[]} */
export function levelled({ data, d }, schema) {
  const areFlags = (/** @type {number} */ f) => data.every((x, i) => i % d !== f || x === 0 || x === 1 || x !== x);
  return filledSpans(schema)
    .filter(({ column: { kind }, first }) => kind === "category" || kind === "flag" || (kind === "number" && areFlags(first)))
    .map(({ column, first, last }) => ({ first, last, other: column.levels.indexOf("other") }));
}

/** The sums as they are sent: levels that fewer than `least` rows, or ids, of a group have count as others (kfed/device/level_floor.py).
 * @type {(sums: CellSums, columns: Levels[], values: Points, counted: number[], labels: Int32Array, least: number, ids: Int32Array | null) => CellSums} */
export function withCommonLevels(sums, columns, { data, d }, counted, labels, least, ids) {
  const observed = sums.observed.slice(),
    means = points(sums.means.n, d, sums.means.data.slice()),
    squares = sums.squares.slice();
  for (const { first, last, other } of columns) {
    const size = Math.max(2, last - first),
      isFlag = last - first === 1;
    for (let r = 0; r < means.n; r++) {
      const own = counted.filter((row, i) => labels[i] === r && !Number.isNaN(data[row * d + first]));
      const codes = own.map((row) =>
        isFlag ? data[row * d + first] : data.subarray(row * d + first, row * d + last).indexOf(1),
      );
      const masses = commonMasses(
        codes,
        own.map((row) => (ids ? ids[row] : row)),
        size,
        least,
        other,
      );
      const total = masses.reduce((a, b) => a + b, 0),
        shares = masses.map((mass) => mass / Math.max(total, 1)).slice(first - last);
      shares.forEach((share, i) => {
        const at = r * d + first + i;
        [observed[at], means.data[at], squares[at]] = [total, share, total * share * (1 - share)];
      });
    }
  }
  return { ...sums, observed, means, squares };
}

/** Rows of each level, where rare levels count as `other`, as missing, or as the most common one. @type {(codes: number[], whose: number[], size: number, least: number, other: number) => number[]} */
function commonMasses(codes, whose, size, least, other) {
  const distinct = (/** @type {(code: number) => boolean} */ is) => new Set(whose.filter((_, i) => is(codes[i]))).size;
  const held = range(size).map((level) => distinct((code) => code === level)),
    isRare = held.map((n) => n > 0 && n < least);
  const masses = range(size).map((level) => codes.filter((code) => code === level && !isRare[code]).length),
    rare = codes.filter((code) => isRare[code]).length;
  if (!rare) return masses;
  if (other >= 0 && distinct((code) => isRare[code] || code === other) >= least) {
    masses[other] = codes.filter((code) => isRare[code] || code === other).length;
    return masses;
  }
  if (rare < codes.length && distinct((code) => isRare[code]) < least) masses[held.indexOf(Math.max(...held))] += rare;
  return masses;
}
