// Levels, and values of columns with only two, that few rows of a group have count as others, as kfed/device/level_floor.py and decision 0001.

import { filledSpans } from "./kinds.js";
import { points, range } from "./points.js";

/** @typedef {import("./points.js").Points} Points */
/** @typedef {import("./kinds.js").Schema} Schema */
/** @typedef {import("./columns.js").CellSums} CellSums */
/** @typedef {{ first: number, last: number, other: number, low: number, high: number }} Levels */

/** The features of each category and flag, and of numbers and dates of which the column has no more than two. @type {(values: Points, schema: Schema) => Levels[]} */
export function levelled({ data, d }, schema) {
  return filledSpans(schema).flatMap(({ column: { kind, levels }, first, last }) => {
    const isLevel = levels.length || kind === "flag",
      two = isLevel ? [0, 1] : [...new Set(data.filter((x, i) => i % d === first && x === x))].sort((a, b) => a - b);
    return two.length === 2 ? [{ first, last, other: levels.indexOf("other"), low: two[0], high: two[1] }] : [];
  });
}

/** The sums as they are sent: levels that fewer than `least` rows, or ids, of a group have count as others (kfed/device/level_floor.py).
 * @type {(sums: CellSums, columns: Levels[], values: Points, counted: number[], labels: Int32Array, least: number, ids: Int32Array | null) => CellSums} */
export function withCommonLevels(sums, columns, { data, d }, counted, labels, least, ids) {
  const observed = sums.observed.slice(),
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
        [observed[at], means.data[at], squares[at]] = [total, low + share * (high - low), total * share * (1 - share) * (high - low) ** 2];
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
