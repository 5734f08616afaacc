// Whether rows are of enough people to tell what they have in common, as kfed/device/floor/level_holders.py and decision 0001.

import { range } from "./points.js";
import { ALIKE, haveEnoughRows } from "./withholding.js";

/** @typedef {import("./points.js").Points} Points */

/** Counts ids; without ids, rows, of which copies of one row count once if most rows of the table differ.
 * @param {Points} values NaN where a cell is missing @param {number} least @param {Int32Array | null} ids */
export function holdersOf({ n, d, data }, least, ids) {
  const count = (/** @type {number[]} */ rows) => (ids ? new Set(rows.map((row) => ids[row])).size : rows.length);
  const some = new Set(range(200).map((i) => Math.floor((i * (n - 1)) / 199))),
    rowOf = (/** @type {number} */ row) => data.subarray(row * d, (row + 1) * d);
  const differ = !ids && 2 * new Set([...some].map((row) => rowOf(row).map((x) => x || 0).join())).size >= some.size;
  const tolerances = Float64Array.from({ length: d }, (_, f) => {
    let low = Infinity,
      high = -Infinity;
    for (let i = f; i < data.length; i += d) {
      if (data[i] < low) low = data[i];
      if (data[i] > high) high = data[i];
    }
    return ALIKE * (high - low);
  });
  const one = new Int32Array(n),
    gaps = range(n).map((row) => rowOf(row).filter(Number.isNaN).length); // a row of few cells is like many others: it comes last
  return {
    count,
    /** @param {number[]} rows */
    areEnough: (rows) => count(rows) >= least && (!differ || haveEnoughRows({ n, d, data }, rows.slice().sort((a, b) => gaps[a] - gaps[b]), one, tolerances, [false], least)[0]),
  };
}
