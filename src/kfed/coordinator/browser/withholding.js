// Which clusters must not leave the device, and what is measured of the others, as kfed/device/floor/withholding.py and decision 0001.

import { EPS, eigen, points, products, range, squaredDistance, totals, zeros } from "./points.js";
import { nearest } from "./algorithm1.js";
import { paddedSize } from "./projection.js";

/** @typedef {import("./points.js").Points} Points */
/** @typedef {import("./algorithm1.js").Solution} Solution */
/** @typedef {{ counts: Float64Array, sums: Float64Array, sent: Float64Array | null, withheld: boolean[], deviation: number | null }} Facts */

export const ALIKE = 2 ** -18,
  POOLED = 3;

/** @param {Points} rows @param {Solution} solution @param {number} least @param {Int32Array | null} ids @param {boolean} deviates whether to measure the deviation @returns {Facts} */
export function measure(rows, solution, least, ids, deviates) {
  const { labels, centers } = solution,
    k = centers.n;
  const squares = Float64Array.from(labels, (label, i) => squaredDistance(rows, i, centers, label));
  const counts = zeros(k),
    sums = zeros(k);
  labels.forEach((label, i) => {
    counts[label]++;
    sums[label] += squares[i];
  });
  const { near, equal } = onCenter(rows, solution, squares);
  const withheld = Array.from(counts, (count, r) => count < least || [near, equal].some((on) => on[r] > 0 && on[r] < least));
  if (least > 1) {
    const all = range(rows.n),
      enough = ids
        ? haveEnoughIds(ids, labels, k, least)
        : haveEnoughRows(rows, all, labels, tolerancesOf(rows, all, centers, least), withheld, least);
    withheld.forEach((gone, r) => (withheld[r] = gone || !enough[r]));
  }
  const sent = sentSums(
    sums,
    counts,
    withheld.map((gone) => !gone),
    least,
  );
  const deviation = deviates && sent ? spectralDeviation(rows, solution, withheld) : null;
  return { counts, sums, sent, withheld, deviation };
}

/** How many points equal each center up to rounding, and exactly. @type {(rows: Points, solution: Solution, squares: Float64Array) => { near: Float64Array, equal: Float64Array }} */
function onCenter(rows, { labels, centers, settled }, squares) {
  if (!settled) ({ labels, squares } = nearest(rows, centers));
  const near = zeros(centers.n),
    equal = zeros(centers.n),
    origin = points(1, rows.d),
    { d } = rows;
  let longest = 0,
    farthest = 0;
  for (let r = 0; r < centers.n; r++) longest = Math.max(longest, squaredDistance(centers, r, origin, 0));
  for (const square of squares) farthest = Math.max(farthest, square);
  labels.forEach((label, i) => {
    if (squares[i] > (16 * EPS) ** 2 * (longest + farthest)) return;
    near[label]++;
    if (rows.data.subarray(i * d, (i + 1) * d).every((x, f) => x === centers.data[label * d + f])) equal[label]++;
  });
  return { near, equal };
}

/** How far values of each column may differ in rows that are alike. @param {Points} rows NaN where a cell is missing @param {number[]} which @param {Points} centers @param {number} least */
export function tolerancesOf({ d, data }, which, centers, least) {
  const some = which.slice(0, 2 * least * centers.n + 8).filter((_, i) => i % 4 === 0),
    tolerances = zeros(d);
  const widen = (/** @type {number} */ x, /** @type {number} */ f) =>
    (tolerances[f] = Math.max(tolerances[f], ALIKE * Math.abs(x || 0)));
  for (const i of some) data.subarray(i * d, (i + 1) * d).forEach(widen);
  centers.data.forEach((x, i) => widen(x, i % d));
  return tolerances;
}

/** Whether clusters hold enough rows that differ in a cell that both have; rows that differ by rounding alone count once.
 * @type {(rows: Points, which: number[], labels: Int32Array, tolerances: Float64Array, skip: boolean[], least: number) => boolean[]} */
export function haveEnoughRows({ d, data }, which, labels, tolerances, skip, least) {
  const found = skip.map(() => /** @type {number[]} */ ([]));
  for (const i of which) {
    const known = found[labels[i]];
    if (skip[labels[i]] || known.length >= least) continue;
    const isLike = (/** @type {number} */ j) =>
      tolerances.every((tolerance, f) => !(Math.abs(data[i * d + f] - data[j * d + f]) > tolerance)); // nothing is more than NaN
    if (!known.some(isLike)) known.push(i);
  }
  return found.map((known) => known.length >= least);
}

/** Whether clusters hold rows of enough different ids, none with more than half of it. @param {Int32Array} ids @param {Int32Array} labels @param {number} k @param {number} least */
export function haveEnoughIds(ids, labels, k, least) {
  const rowsOf = range(k).map(() => /** @type {Map<number, number>} */ (new Map()));
  labels.forEach((label, i) => {
    if (label >= 0) rowsOf[label].set(ids[i], (rowsOf[label].get(ids[i]) ?? 0) + 1);
  });
  return rowsOf.map((own) => {
    const sizes = [...own.values()],
      total = sizes.reduce((a, b) => a + b, 0);
    return sizes.length >= least && (least === 1 || 2 * sizes.reduce((a, b) => Math.max(a, b), 0) <= total * (1 + 1e-6));
  });
}

/** Sums of squares to send: small clusters share theirs out; null with too few rows to send any.
 * @param {Float64Array} spread @param {Float64Array} counts @param {boolean[]} isSent @param {number} minSize */
export function sentSums(spread, counts, isSent, minSize) {
  const least = POOLED * minSize,
    sent = spread.slice();
  const bySize = [...isSent.keys()].filter((r) => isSent[r]).sort((a, b) => counts[a] - counts[b] || a - b);
  if (minSize === 1 || !bySize.some((r) => counts[r] < least)) return sent;
  let pooled = 0,
    rows = 0;
  while (pooled < bySize.length && (rows < least || counts[bySize[pooled]] < least)) rows += counts[bySize[pooled++]];
  if (rows < least) return null;
  const shared = bySize.slice(0, pooled),
    freedom = shared.map((r) => Math.max(counts[r] - 1, 1));
  const total = shared.reduce((sum, r) => sum + spread[r], 0),
    all = freedom.reduce((a, b) => a + b, 0);
  shared.forEach((r, i) => (sent[r] = (total * freedom[i]) / all));
  return sent;
}

/** Largest singular value of the rows of the clusters that are sent minus their centers: exact with up to 32 features or rows,
 * up to 4 % too high with more, and not told with more than 512 of both. @type {(rows: Points, solution: Solution, withheld: boolean[]) => number | null} */
function spectralDeviation(rows, { labels, centers }, withheld) {
  const { d } = rows,
    residuals = points(
      rows.n,
      d,
      rows.data.map((x, i) => {
        const label = labels[Math.floor(i / d)];
        return withheld[label] ? 0 : x - centers.data[label * d + (i % d)];
      }),
    );
  const shorter = Math.min(paddedSize(rows.n), d);
  if (shorter > 512) return null;
  const moments = d <= rows.n ? totals(residuals, residuals) : products(residuals, residuals);
  if (shorter <= 32) return Math.sqrt(Math.max(0, eigen(moments).values[moments.n - 1]));
  return Math.sqrt(largestBound(moments));
}

/** An upper bound of the largest eigenvalue of G, at most 8 % too high: it is at most trace(G^p)^(1/p), and that at most n^(1/p) times it. @param {Points} matrix */
function largestBound(matrix) {
  let scale = 0,
    power = 1,
    log = 0,
    g = matrix;
  for (;;) {
    scale = 0;
    for (let i = 0; i < g.n; i++) scale += g.data[i * g.n + i];
    if (scale === 0) return 0;
    log += Math.log(scale) / power;
    if (Math.log(g.n) / power < 2 * Math.log(1.04)) return Math.exp(log);
    g = points(
      g.n,
      g.n,
      g.data.map((x) => x / scale),
    );
    g = totals(g, g);
    power *= 2;
  }
}
