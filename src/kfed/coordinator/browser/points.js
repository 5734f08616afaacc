// Points one after another in one array, and the few products of them that Algorithm 1 needs.

/** @typedef {{ data: Float64Array, n: number, d: number }} Points */

export const EPS = 2 ** -52;

/** @param {number} n */
export const zeros = (n) => new Float64Array(n);

/** 0, 1, ..., n - 1. @param {number} n */
export const range = (n) => [...Array(n).keys()];

/** @param {number} n @param {number} d @param {Float64Array} [data] @returns {Points} */
export const points = (n, d, data = zeros(n * d)) => ({ data, n, d });

/** Inner product of row `i` of `a` and row `j` of `b`. @type {(a: Points, i: number, b: Points, j: number) => number} */
export function dot(a, i, b, j) {
  const { data: x, d } = a,
    y = b.data;
  let sum = 0;
  for (let f = 0, p = i * d, q = j * d; f < d; f++) sum += x[p + f] * y[q + f];
  return sum;
}

/** Squared distance of row `i` of `a` and row `j` of `b`. @type {(a: Points, i: number, b: Points, j: number) => number} */
export function squaredDistance(a, i, b, j) {
  const { data: x, d } = a,
    y = b.data;
  let sum = 0;
  for (let f = 0, p = i * d, q = j * d; f < d; f++) {
    const difference = x[p + f] - y[q + f];
    sum += difference * difference;
  }
  return sum;
}

/** Inner products of all rows of `a` with all of `b`: (a.n, b.n). @param {Points} a @param {Points} b */
export function products(a, b) {
  const out = points(a.n, b.n);
  for (let i = 0, at = 0; i < a.n; i++) for (let j = 0; j < b.n; j++) out.data[at++] = dot(a, i, b, j);
  return out;
}

/** The rows of `a`, each times a row of `weights`, added up: weights' x a, (weights.d, a.d). @param {Points} weights @param {Points} a */
export function totals(weights, a) {
  const out = points(weights.d, a.d),
    { data: w, d: m } = weights,
    { data: x, d } = a,
    y = out.data;
  for (let i = 0; i < a.n; i++) {
    for (let r = 0; r < m; r++) {
      const weight = w[i * m + r];
      if (weight) for (let f = 0, p = i * d, q = r * d; f < d; f++) y[q + f] += weight * x[p + f];
    }
  }
  return out;
}

/** Some rows. @param {Points} a @param {ArrayLike<number>} rows */
export function taken(a, rows) {
  const out = points(rows.length, a.d);
  for (let i = 0; i < rows.length; i++) out.data.set(a.data.subarray(rows[i] * a.d, (rows[i] + 1) * a.d), i * a.d);
  return out;
}

/** Mean of all rows. @param {Points} a */
export function mean({ data, n, d }) {
  const out = zeros(d);
  data.forEach((x, i) => (out[i % d] += x));
  return out.map((sum) => sum / n);
}

/** Eigenvalues of a symmetric matrix in rising order, and its eigenvectors as rows, by Jacobi's rotations.
 * @param {Points} matrix @returns {{ values: Float64Array, vectors: Points }} */
export function eigen({ data, n }) {
  const a = data.slice(),
    v = zeros(n * n);
  for (let i = 0; i < n; i++) v[i * n + i] = 1;
  for (let sweep = 0; sweep < 60; sweep++) {
    const off = a.reduce((sum, x, i) => (i % (n + 1) ? sum + x * x : sum), 0),
      all = a.reduce((sum, x) => sum + x * x, 0);
    if (off <= all * 1e-32) break;
    for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) rotate(a, v, n, p, q);
  }
  const order = range(n).sort((i, j) => a[i * n + i] - a[j * n + j]);
  return { values: Float64Array.from(order, (i) => a[i * n + i]), vectors: taken(points(n, n, v), order) };
}

/** Make a[p, q] zero. @type {(a: Float64Array, v: Float64Array, n: number, p: number, q: number) => void} */
function rotate(a, v, n, p, q) {
  const apq = a[p * n + q];
  if (apq === 0) return;
  const theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
  const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const c = 1 / Math.sqrt(t * t + 1),
    s = t * c;
  for (let i = 0; i < n; i++) {
    const x = a[i * n + p],
      y = a[i * n + q];
    a[i * n + p] = c * x - s * y;
    a[i * n + q] = s * x + c * y;
  }
  for (let i = 0; i < n; i++) {
    const x = a[p * n + i],
      y = a[q * n + i],
      r = v[p * n + i],
      u = v[q * n + i];
    a[p * n + i] = c * x - s * y;
    a[q * n + i] = s * x + c * y;
    v[p * n + i] = c * r - s * u;
    v[q * n + i] = s * r + c * u;
  }
  a[p * n + q] = a[q * n + p] = 0;
}
