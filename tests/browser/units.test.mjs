// Units of what runs in a browser, by Node's own test runner.

import assert from "node:assert/strict";
import { test } from "node:test";

const at = (name) => import(new URL(`../../src/kfed/coordinator/browser/${name}`, import.meta.url));
const { decode, readCsv, withColumn } = await at("csv.js");
const { byCodePoint, fromText, numberIn } = await at("cells.js");
const { draw, stratified } = await at("seeding.js");
const { eigen, points } = await at("points.js");
const { pythonJson } = await at("wire.js");
const { sentSums } = await at("withholding.js");
const { invitationIn, readTicket } = await at("line.js");
const { readAgreed } = await at("kinds.js");

const cells = (text) => { const { names, columns } = readCsv(text); return [names, ...columns[0].map((_, i) => columns.map((column) => column[i]))]; };

test("cells may be quoted, hold separators, quotes and line ends, and stand between any line ends", () => {
  assert.deepEqual(cells('a,"b ""x"", y"\r\n1,"two\nlines"\r2,\n\n3,"c"d\n'), [["a", 'b "x", y'], ["1", "two\nlines"], ["2", ""], ["3", "cd"]]);
});

test("a row knows its last line, and a line with too few cells is named", () => {
  assert.deepEqual([...readCsv('a,b\n"x\ny",2\n\n3,4\n').lines], [3, 5]);
  assert.throws(() => readCsv("a,b\n1,2\n3\n"), /every line must have 2 cells; line 3 has 1/);
});

test("the separator is the one that the first line has most of", () => {
  for (const separator of [",", ";", "\t", "|"]) assert.deepEqual(cells(`a${separator}b\n1${separator}2`), [["a", "b"], ["1", "2"]]);
});

test("a decimal comma is told from a separator, and dots may part thousands then", () => {
  const { decimal, columns } = readCsv("a;b\n1,5;2\n1.234,5;3\n");
  assert.equal(decimal, ",");
  assert.deepEqual([...fromText("a", columns[0], decimal).numbers], [1.5, 1234.5]);
  assert.equal(readCsv("a;b\n1.5;2\n").decimal, ".");
});

test("UTF-8, UTF-16 and Latin-1 are read; a file that is no text is refused", () => {
  const text = "größe\n1\n", utf16 = Uint8Array.from([0xff, 0xfe, ...Buffer.from(text, "utf16le")]);
  for (const bytes of [Buffer.from(text), Buffer.from(text, "latin1"), utf16, Buffer.from(`\ufeff${text}`)]) {
    assert.equal(readCsv(decode(new Uint8Array(bytes)).text).names[0], "größe");
  }
  assert.throws(() => decode(Uint8Array.from([80, 75, 3, 4, 0, 0, 255, 0])), /must be text/);
});

test("blank lines are empty cells of a single column, but not at the end", () => {
  assert.deepEqual(cells("a\n1\n\n2\n\n\n"), [["a"], ["1"], [""], ["2"]]);
});

test("a first line of numbers and an empty file are refused", () => {
  assert.throws(() => readCsv("1,2\n3,4\n"), /the first line must hold the names/);
  assert.throws(() => readCsv(" \n\n"), /this file is empty/);
  assert.throws(() => readCsv("a,b\n"), /at least one row/);
});

test("numbers are what Python takes for numbers, and nothing else is", () => {
  for (const [word, number] of [["1", 1], ["-1.5e3", -1500], [".5", 0.5], ["+2.", 2]]) assert.equal(numberIn(word), number);
  for (const word of ["", "0x10", "1_000", "Infinity", "nan", "1,5", "1e999"]) assert.ok(Number.isNaN(numberIn(word)), word);
});

test("columns are numbers, flags, dates or text, with missing cells", () => {
  assert.deepEqual([...fromText("x", ["1", "NA", "<5", " 2 "], ".").numbers], [1, NaN, NaN, 2]);
  assert.deepEqual([...fromText("x", ["yes", "No", "?"], ".").numbers], [1, 0, NaN]);
  assert.deepEqual([...fromText("x", ["1970-01-31", "2.1.1970", "-", "1970-01-02T12:00"], ".").numbers], [30, 1, NaN, 1.5]);
  assert.equal(fromText("x", ["2026-02-30"], ".").kind, "text");
  assert.deepEqual(fromText("x", ["b", "a", "none", ""], ".").texts, ["a", "b", "none"]);
  assert.equal(fromText("x", ["1", "2", "three"], ".").badRow, 2);
});

test("text is sorted by code points, as Python sorts it", () => {
  assert.deepEqual(["\u{1f600}", "\uffee", "b", "ab", "a"].sort(byCodePoint), ["a", "ab", "b", "\uffee", "\u{1f600}"]);
});

test("a draw reaches a point just if its share of the mass covers the number", () => {
  assert.deepEqual(draw(Float64Array.of(1, 0, 3), Float64Array.of(0, 0.2499, 0.25, 0.999)), [0, 0, 2, 2]);
  assert.deepEqual([...stratified(Float64Array.of(0, 0.5))], [0, 0.75]);
});

test("eigenvectors are orthonormal, and give the matrix back", () => {
  const matrix = points(3, 3, Float64Array.of(4, 1, 0, 1, 3, -1, 0, -1, 2)), { values, vectors } = eigen(matrix);
  for (let i = 0; i < 3; i++) for (let j = 0; j < 3; j++) {
    let entry = 0, product = 0;
    for (let r = 0; r < 3; r++) {
      entry += values[r] * vectors.data[3 * r + i] * vectors.data[3 * r + j];
      product += vectors.data[3 * i + r] * vectors.data[3 * j + r];
    }
    assert.ok(Math.abs(entry - matrix.data[3 * i + j]) < 1e-12);
    assert.ok(Math.abs(product - (i === j)) < 1e-12);
  }
});

test("sums of squares of small groups are shared out, and too few rows send none", () => {
  assert.deepEqual([...sentSums(Float64Array.of(2, 10, 90), Float64Array.of(5, 9, 40), [true, true, true], 4)], [4, 8, 90]);
  assert.equal(sentSums(Float64Array.of(2), Float64Array.of(5), [true], 4), null);
});

test("JSON is written as Python writes it", () => {
  assert.equal(pythonJson({ b: ["é", 1], a: {}, c: undefined }), '{"a": {}, "b": ["\\u00e9", 1]}');
});

test("a column is added to the table as it is, under a name that is free", () => {
  const csv = readCsv('cluster;x\r\n"a;b";1\r\n\r\nc;2\n');
  assert.equal(withColumn(csv, Int32Array.of(4, 0)).join(""), 'cluster;x;cluster_\r\n"a;b";1;4\r\nc;2;0\r\n');
});

test("an invitation is read from behind the #", () => {
  assert.deepEqual(invitationIn("#federation=clinics&device=north%20wing&token=a-b_c"), { federation: "clinics", device: "north wing", token: "a-b_c" });
  assert.deepEqual(invitationIn(""), { federation: "", device: "", token: "" });
});

test("a ticket is for this coordinator, and made by this page", () => {
  const own = { kind: "kfed ticket", url: "https://here", browser: {} };
  assert.deepEqual(readTicket(JSON.stringify(own), "https://here"), own);
  assert.throws(() => readTicket("{}", "https://here"), /not a ticket/);
  assert.throws(() => readTicket(JSON.stringify(own), "https://there"), /a ticket for https:\/\/here/);
  assert.throws(() => readTicket(JSON.stringify({ ...own, browser: undefined }), "https://here"), /kfed label/);
});

test("what sites agreed on is a scale; other files are refused, and a schema with what to do", () => {
  assert.deepEqual([...readAgreed('{"a": {"shift": 1, "scale": 2.5}}')], [["a", { shift: 1, scale: 2.5 }]]);
  for (const text of ["no", "null", '{"a": 1}', '{"a": {"shift": 1, "scale": 0}}']) assert.throws(() => readAgreed(text), Error);
  assert.throws(() => readAgreed('{"columns": [{"name": "a"}], "scaling": "agreed"}'), /kfed join --schema/);
});

test("words that say nothing are missing among words, too, but a minus beside a plus is a result", () => {
  assert.deepEqual(fromText("ward", ["A", "-", "--", "?", ".", "n/a", "Missing", "none"], ".").texts, ["A", "none"]);
  assert.deepEqual(fromText("test", ["+", "-", "?"], ".").texts, ["+", "-"]);
  assert.equal(fromText("nothing", ["-", "?", "", "NA"], ".").missing, 4);
});
