// Runs the modules of the browser for tests in Python: a list of jobs comes in as JSON, their results go out as JSON.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(`${process.argv[2]}/`);
const [{ siteOf }, { encodeMessage }, { named }, { blake2b, deviceKey, uniforms }] = await Promise.all(
  ["site.js", "wire.js", "identifiers.js", "random.js"].map((name) => import(new URL(name, folder))),
);
const points = ([rows, d]) => ({ data: Float64Array.from(rows.flat()), n: rows.length, d });
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

const jobs = {
  named: ({ names }) => names.map(named),
  random: ({ seed, id, n, text }) => ({ key: String(deviceKey(seed, id)), uniforms: [...uniforms(deviceKey(seed, id), n)], digest: Buffer.from(blake2b(Buffer.from(text), 16)).toString("hex") }),
  encode: ({ message }) => {
    const { details } = message;
    return base64(encodeMessage({ ...message, centers: points(message.centers), details: details && { ...details, observed: points(details.observed), squares: points(details.squares) } }));
  },
  async group({ name, table, terms, agreed = null, wish, answer }) {
    const site = siteOf(() => {}), file = new File([Buffer.from(table, "base64")], name);
    const read = await site.read({ file, terms, agreed });
    const how = { deviceId: "north", k: "auto", least: 5, idColumn: null, chosen: null, ...wish };
    const { bytes, message, notices, digest } = site.group({ terms, agreed, wish: how });
    const labelled = answer && site.label({ payload: new Uint8Array(Buffer.from(answer, "base64")).buffer, names: null, agreed });
    const csv = labelled && (await (await fetch(labelled.url)).text());
    const cost = message.squares && site.found.labels.length;
    return { columns: read.columns, bytes: base64(bytes), digest, notices, labels: [...site.found.labels], cost, labelled: csv, rows: labelled?.rows, names: message.names };
  },
};

const results = [];
for (const { job, ...given } of JSON.parse(readFileSync(0))) {
  try { results.push({ result: await jobs[job](given) }); } catch (error) { results.push({ error: error.message, kind: error.constructor.name }); }
}
console.log(JSON.stringify(results));
