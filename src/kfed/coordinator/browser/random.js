// Random numbers that are a function of (seed, device id), as kfed/_base/random.py draws them; and BLAKE2b.

const MASK = (1n << 64n) - 1n;
const GOLDEN_GAMMA = 0x9e3779b97f4a7c15n;
const IV = [
  0x6a09e667f3bcc908n,
  0xbb67ae8584caa73bn,
  0x3c6ef372fe94f82bn,
  0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n,
  0x9b05688c2b3e6c1fn,
  0x1f83d9abfb41bd6bn,
  0x5be0cd19137e2179n,
];
const SIGMA = [
  "0123456789abcdef",
  "ea489fd61c02b753",
  "b8c052fdae367194",
  "7931dcbe265a40f8",
  "905724afe1bc683d",
  "2c6a0b834d75fe19",
  "c51fed4a0763928b",
  "db7ec13950f4862a",
  "6fe9b308c2d714a5",
  "a2847615fb9e3cd0",
].map((row) => [...row].map((digit) => parseInt(digit, 16)));
const LANES = [0, 1].flatMap((turn) => [0, 1, 2, 3].map((i) => [0, 1, 2, 3].map((row) => 4 * row + ((i + turn * row) % 4)))); // columns, then diagonals

/** @type {(x: bigint, by: bigint) => bigint} */
const rotated = (x, by) => ((x >> by) | (x << (64n - by))) & MASK;

/** BLAKE2b of some bytes, as RFC 7693 has it. @param {Uint8Array} bytes @param {number} size */
export function blake2b(bytes, size) {
  const state = IV.slice();
  state[0] ^= 0x01010000n ^ BigInt(size);
  const n = Math.max(1, Math.ceil(bytes.length / 128));
  const padded = new Uint8Array(128 * n);
  padded.set(bytes);
  const words = new DataView(padded.buffer);
  for (let block = 0; block < n; block++) {
    const v = [...state, ...IV];
    v[12] ^= BigInt(Math.min(bytes.length, 128 * (block + 1)));
    if (block === n - 1) v[14] ^= MASK;
    const m = Array.from({ length: 16 }, (_, i) => words.getBigUint64(128 * block + 8 * i, true));
    for (let round = 0; round < 12; round++) {
      const order = SIGMA[round % 10];
      LANES.forEach(([a, b, c, d], i) => {
        for (const [word, first, second] of /** @type {const} */ ([
          [order[2 * i], 32n, 24n],
          [order[2 * i + 1], 16n, 63n],
        ])) {
          v[a] = (v[a] + v[b] + m[word]) & MASK;
          v[d] = rotated(v[d] ^ v[a], first);
          v[c] = (v[c] + v[d]) & MASK;
          v[b] = rotated(v[b] ^ v[c], second);
        }
      });
    }
    for (let i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
  }
  const out = new DataView(new ArrayBuffer(64));
  state.forEach((word, i) => out.setBigUint64(8 * i, word, true));
  return new Uint8Array(out.buffer, 0, size);
}

/** The 64-bit key of a device. @param {number} seed @param {string} deviceId */
export function deviceKey(seed, deviceId) {
  const digest = blake2b(new TextEncoder().encode(`${seed}:${deviceId}`), 8);
  return new DataView(digest.buffer, 0, 8).getBigUint64(0, true);
}

/** The first `n` numbers in [0, 1) of a key, by SplitMix64. @param {bigint} key @param {number} n */
export function uniforms(key, n) {
  const numbers = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    let bits = (key = (key + GOLDEN_GAMMA) & MASK);
    bits = ((bits ^ (bits >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    bits = ((bits ^ (bits >> 27n)) * 0x94d049bb133111ebn) & MASK;
    numbers[i] = Number((bits ^ (bits >> 31n)) >> 11n) * 2 ** -53;
  }
  return numbers;
}
