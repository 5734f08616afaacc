// Step 2 of Algorithm 1, first half: the points in the span of their top right singular vectors, as kfed/device/steps/projection.py.

import { EPS, dot, eigen, mean, points, products, range, taken, totals, zeros } from "./points.js";
import { draw, stratified } from "./seeding.js";

/** @typedef {import("./points.js").Points} Points */

/** Rows that Python pads a table of `n` to. @type {(n: number) => number} */
export function paddedSize(n) {
  const step = Math.min(8, 1 << Math.max(0, n.toString(2).length - 5));
  return Math.ceil(n / step) * step;
}

/** Directions of a subspace iteration. @type {(k: number) => number} */
export const nStarted = (k) => 4 * Math.floor((k + 5) / 4);

/** Coordinates along the top `k` singular vectors, centered afterwards: (n, at most k).
 * @param {Points} rows @param {number} k @param {Float64Array} numbers @param {boolean} isLarge */
export function project(rows, k, numbers, isLarge) {
  const n = isLarge ? rows.n : paddedSize(rows.n),
    shorter = Math.min(n, rows.d);
  const m = Math.min(k, shorter);
  const isNarrow = shorter <= 2 * nStarted(k) || n * rows.d >= 20 * shorter ** 3;
  const directions = isNarrow ? singularVectors(rows, m, n) : iterated(rows, m, numbers);
  const coordinates = products(rows, directions),
    middle = mean(coordinates);
  for (let i = 0; i < coordinates.data.length; i++) coordinates.data[i] -= middle[i % coordinates.d];
  return coordinates;
}

/** @type {(matrix: Points, m: number) => Points} */
function topVectors(matrix, m) {
  return taken(eigen(matrix).vectors, range(matrix.n).slice(-m));
}

/** @type {(rows: Points, m: number, n: number) => Points} */
function singularVectors(rows, m, n) {
  if (rows.d <= n) return topVectors(totals(rows, rows), m);
  return orthonormal(products(topVectors(products(rows, rows), m), transposed(rows)));
}

/** @type {(rows: Points, m: number, numbers: Float64Array) => Points} */
function iterated(rows, m, numbers) {
  let directions = orthonormal(taken(rows, draw(zeros(rows.n).fill(1), stratified(numbers))));
  directions = orthonormal(totals(products(rows, directions), rows));
  const coordinates = products(rows, directions);
  const leading = products(coordinates, topVectors(totals(coordinates, coordinates), m));
  return orthonormal(totals(leading, rows));
}

/** @param {Points} a */
export function transposed(a) {
  const out = points(a.d, a.n);
  for (let i = 0; i < a.n; i++) for (let f = 0; f < a.d; f++) out.data[f * a.n + i] = a.data[i * a.d + f];
  return out;
}

/** An orthonormal basis of the span of the rows, from their inner products: if G = L L', then L^-1 V has orthonormal rows.
 * A row in the span of those before it becomes zero. @param {Points} vectors */
function orthonormal(vectors) {
  const { n: m, d, data } = vectors;
  for (let i = 0; i < m; i++) {
    // a power of two brings a row to about one, without rounding
    const row = data.subarray(i * d, (i + 1) * d),
      largest = row.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    if (largest > 0) row.forEach((x, f) => (row[f] = x * 2 ** -Math.round(Math.log2(largest))));
  }
  const work = points(m, 2 * m),
    w = work.data;
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < m; j++) w[2 * i * m + j] = dot(vectors, i, vectors, j) * (i === j ? 1 + 16 * m * EPS : 1);
    w[2 * i * m + i] += 2 ** -1022;
    w[2 * i * m + m + i] = 1;
  }
  for (let step = 0; step < m; step++) {
    const row = w.subarray(2 * step * m, 2 * (step + 1) * m),
      pivot = row[step] > 0 ? Math.sqrt(row[step]) : Infinity;
    row.forEach((x, i) => (row[i] = x / pivot));
    for (let i = step + 1; i < m; i++) {
      const factor = row[i];
      for (let j = 0; j < 2 * m; j++) w[2 * i * m + j] -= factor * row[j];
    }
  }
  const inverse = points(m, m);
  for (let i = 0; i < m; i++) inverse.data.set(w.subarray(2 * i * m + m, 2 * (i + 1) * m), i * m);
  return totals(transposed(inverse), vectors);
}
