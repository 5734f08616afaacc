// The message of a device as bytes, and the answer from bytes: safetensors as kfed/wire and kfed/_base/files.py write it.

import { points } from "./points.js";
import { fail } from "./words.js";

/** @typedef {import("./points.js").Points} Points */
/** @typedef {import("./kinds.js").Schema} Schema */
/** @typedef {{ observed: Points, squares: Points, leftOut: number | null }} Details */
/** What leaves a device. @typedef {{ deviceId: string, centers: Points, counts: number[], squares: number[] | null, deviation: number | null, names: string[] | null, schema: Schema | null, details: Details | null }} Message */
/** What comes back. @typedef {{ deviceId: string, clusterIds: number[], centers: Points, schema: Schema | null, shift: Float64Array | null, scale: Float64Array | null }} Identity */

/** The message as it goes over the wire, byte for byte what `DeviceMessage.to_bytes` writes. @param {Message} message */
export function encodeMessage(message) {
  const { centers, counts, squares, deviation, schema, details } = message;
  const table = points(centers.n, centers.d + 3);
  for (let r = 0; r < centers.n; r++) {
    table.data.set(centers.data.subarray(r * centers.d, (r + 1) * centers.d), r * table.d);
    table.data.set([counts[r], squares ? squares[r] : NaN, deviation ?? NaN], r * table.d + centers.d);
  }
  const tensors = /** @type {[string, Points][]} */ ([[`${schema ? "kfed2" : "kfed1"}:${message.deviceId}`, table]]);
  if (details) tensors.push(["observed", details.observed], ["squares", details.squares]);
  const facts = /** @type {{ [name: string]: unknown }} */ ({});
  if (schema) facts.schema = { columns: schema.columns.map(columnFacts), scaling: schema.scaling, missing: schema.missing };
  else if (message.names) facts.feature_names = message.names;
  if (details && details.leftOut !== null) facts.n_left_out = details.leftOut;
  return safetensors(tensors, facts);
}

/** @type {(column: import("./kinds.js").Column) => object} */
const columnFacts = ({ name, kind, levels }) => ({
  name,
  kind: kind === "number" ? undefined : kind,
  levels: levels.length ? levels : undefined,
});

/** @type {(tensors: [string, Points][], facts: object) => Uint8Array} */
function safetensors(tensors, facts) {
  let end = 0;
  const entries = tensors.map(
    ([name, { n, d }]) =>
      `${JSON.stringify(name)}:{"dtype":"F64","shape":[${n},${d}],"data_offsets":[${end},${(end += 8 * n * d)}]}`,
  );
  if (Object.keys(facts).length) entries.unshift(`"__metadata__":{"kfed":${JSON.stringify(pythonJson(facts))}}`);
  const head = new TextEncoder().encode(`{${entries.join(",")}}`),
    length = Math.ceil(head.length / 8) * 8;
  const bytes = new Uint8Array(8 + length + end).fill(32, 0, 8 + length),
    view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(length), true);
  bytes.set(head, 8);
  let at = 8 + length;
  for (const [, { data }] of tensors) for (const x of data) view.setFloat64((at += 8) - 8, x, true);
  return bytes;
}

/** What `json.dumps(value, sort_keys=True)` writes, of text and whole numbers. @param {any} value @returns {string} */
export function pythonJson(value) {
  if (typeof value === "string")
    return JSON.stringify(value).replace(
      /[\x7f-\uffff]/g,
      (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(", ")}]`;
  if (value === null || typeof value !== "object") return String(value);
  const keys = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .sort();
  return `{${keys.map((key) => `${pythonJson(key)}: ${pythonJson(value[key])}`).join(", ")}}`;
}

/** The answer to a device. Raises unless it is one. @param {ArrayBuffer} payload @returns {Identity} */
export function decodeIdentity(payload) {
  const view = new DataView(payload),
    length = Number(view.getBigUint64(0, true));
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(payload, 8, length))),
    facts = JSON.parse(head.__metadata__.kfed);
  if (facts.kind !== "identity" || facts.version !== 1)
    fail("the coordinator sent another answer than this page knows; reload it");
  const numbers = (/** @type {string} */ name) => {
    const {
        dtype,
        data_offsets: [begin, end],
      } = head[name],
      size = dtype === "F32" ? 4 : 8;
    return Float64Array.from({ length: (end - begin) / size }, (_, i) => {
      const at = 8 + length + begin + i * size;
      return dtype === "I64"
        ? Number(view.getBigInt64(at, true))
        : size === 4
          ? view.getFloat32(at, true)
          : view.getFloat64(at, true);
    });
  };
  const schema = facts.schema && {
    ...facts.schema,
    columns: facts.schema.columns.map((/** @type {object} */ column) => ({ kind: "number", levels: [], ...column })),
  };
  const [n, d] = head.cluster_centers.shape,
    has = "scale" in head;
  return {
    deviceId: facts.device_id,
    clusterIds: [...numbers("cluster_ids")],
    centers: points(n, d, numbers("cluster_centers")),
    schema: schema ?? null,
    shift: has ? numbers("shift") : null,
    scale: has ? numbers("scale") : null,
  };
}
