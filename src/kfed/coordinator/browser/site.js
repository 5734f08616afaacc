// What a site does with its table: read it, group its rows, label them. It keeps the rows in memory, and sends nothing.

import { globalClusters, profileOf } from "./answer.js";
import { fromText } from "./cells.js";
import { decode, readCsv, withColumn } from "./csv.js";
import { clusterColumns, clusterNumbers } from "./device.js";
import { isIdentifier } from "./identifiers.js";
import { columnsToUse, readAgreed, tableOf } from "./kinds.js";
import { blake2b } from "./random.js";
import { decodeIdentity, encodeMessage } from "./wire.js";
import { described, fail, quoted } from "./words.js";

/** @typedef {import("./kinds.js").Terms} Terms */
/** @typedef {import("./kinds.js").Agreed} Agreed */
/** How a site wants its rows grouped; the ticket keeps it. @typedef {{ deviceId: string, k: number | "auto", least: number, idColumn: string | null, chosen: string[] | null }} Wish */

const SEED = 0;

/** @param {import("./device.js").Tell} tell */
export const siteOf = (tell) => ({
  csv: /** @type {import("./csv.js").Csv | null} */ (null),
  cells: /** @type {import("./cells.js").Cells[]} */ ([]),
  found: /** @type {import("./device.js").Found | null} */ (null),
  schema: /** @type {import("./kinds.js").Schema | null} */ (null),
  fileName: "",

  /** @param {{ file: File, terms: Terms, agreed: string | null }} given */
  async read({ file, terms, agreed }) {
    tell("Reading the table", 0);
    const { text, hasMark } = decode(new Uint8Array(await bytesOf(file)));
    tell("Looking at the columns", 0.4);
    const csv = readCsv(text, hasMark),
      cells = csv.names.map((name, c) => fromText(name, csv.columns[c], csv.decimal));
    Object.assign(this, { csv, cells, fileName: file.name, found: null });
    agreedOf(agreed);
    const used = terms.feature_names
      ? columnsToUse(csv, cells, terms, null, null)
      : csv.names.filter((_, c) => !isIdentifier(cells[c], false));
    const columns = cells.map((one) => ({
      name: one.name,
      kind: one.kind,
      filled: csv.lines.length - one.missing,
      missing: one.missing,
      levels: one.texts.length,
      isUsed: used.includes(one.name),
    }));
    return { nRows: csv.lines.length, columns };
  },

  /** @param {{ terms: Terms, agreed: string | null, wish: Wish }} given */
  group({ terms, agreed, wish }) {
    const { csv, cells } = this;
    if (!csv) fail("choose a table first");
    const names = columnsToUse(csv, cells, terms, wish.idColumn, wish.chosen);
    const known = names.filter((name) => isIdentifier(cells[csv.names.indexOf(name)], !!wish.idColumn));
    if (terms.by_column && !wish.chosen && known.length)
      fail(`the federation has ${quoted(known)}, which may name people; if not, use \`kfed join --kinds\``);
    const table = tableOf(csv, cells, names, terms, agreedOf(agreed), wish.idColumn, wish.least);
    const how = { ...wish, ids: table.ids, seed: SEED };
    const found = table.schema
      ? clusterColumns(table.values, table.schema, how, tell)
      : clusterNumbers(table.values, names, how, tell);
    Object.assign(this, { found, schema: table.schema });
    const bytes = encodeMessage(found.message),
      nRows = csv.lines.length,
      { message } = found;
    const nWithheld = found.withheld.filter((gone, r) => gone && found.counts[r] > 0).length;
    return {
      message,
      bytes,
      digest: digestOf(bytes),
      nRows,
      nWithheld,
      notices: table.notices,
      ...described(message, wish.least, nRows),
    };
  },

  forget() {
    Object.assign(this, { csv: null, cells: [], found: null });
  },

  /** @param {{ payload: ArrayBuffer, names: string[] | null, agreed: string | null }} given */
  label({ payload, names, agreed }) {
    const identity = decodeIdentity(payload),
      profile = profileOf(identity, names, agreedOf(agreed));
    const { csv, found, schema, fileName } = this;
    if (!found || !csv) return { profile, rows: null, url: "", fileName: "" };
    const clusters = globalClusters(found, schema, identity),
      labels = found.labels.map((label) => clusters[label]);
    const rows = Array(identity.centers.n).fill(0);
    labels.forEach((label) => rows[label]++);
    const url = URL.createObjectURL(new Blob(withColumn(csv, labels), { type: "text/csv" }));
    return { profile, rows, url, fileName: fileName.replace(/\.\w+$/, "-clusters.csv") };
  },
});

/** @type {(file: File) => Promise<ArrayBuffer>} */
async function bytesOf(file) {
  if (!/\.(csv|tsv|txt)$/i.test(file.name))
    fail(
      "the name of a table must end in .csv, .tsv or .txt. Save the table as CSV first, or use `kfed join`, which reads Excel, Parquet and Feather files",
    );
  return file.arrayBuffer().catch(() => fail("the file could not be read; choose it again"));
}

/** @type {(text: string | null) => Agreed} */
const agreedOf = (text) => (text ? readAgreed(text) : null);

/** @type {(bytes: Uint8Array) => string} */
const digestOf = (bytes) => Array.from(blake2b(bytes, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
