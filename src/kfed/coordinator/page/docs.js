// The OpenAPI document for people; nothing is fetched from other machines.

import { made } from "/assets/dom.js";

const api = await (await fetch("/openapi.json")).json();

const resolved = (schema) => (schema?.$ref ? api.components.schemas[schema.$ref.split("/").at(-1)] : schema);

/** A type in a few words. */
function type(schema) {
  const own = resolved(schema);
  if (!own) return "";
  if (own.const !== undefined) return JSON.stringify(own.const);
  if (own.enum) return own.enum.map((one) => JSON.stringify(one)).join(" or ");
  const several = own.anyOf ?? own.oneOf;
  if (several) return several.map(type).filter((text) => text !== "null").join(" or ");
  if (own.type === "array") return `list of ${type(own.items) || "values"}`;
  if (own.format === "binary") return "bytes";
  if (own.additionalProperties && own.type === "object") return `object of ${type(own.additionalProperties) || "values"}`;
  return own.type ?? "";
}

/** An example value, from the document itself or made up from the type. */
function example(schema, depth = 0) {
  const own = resolved(schema);
  if (!own || depth > 4) return null;
  if (own.examples?.length) return own.examples[0];
  if (own.default !== undefined && own.default !== null) return own.default;
  if (own.const !== undefined) return own.const;
  if (own.enum) return own.enum[0];
  const several = (own.anyOf ?? own.oneOf)?.filter((one) => one.type !== "null");
  if (several) return example(several[0], depth + 1);
  if (own.properties) {
    const needed = Object.entries(own.properties).filter(([name]) => !own.required || own.required.includes(name));
    return Object.fromEntries(needed.map(([name, one]) => [name, example({ title: name, ...one }, depth + 1)]));
  }
  if (own.type === "array") return [example(own.items, depth + 1)];
  if (own.type === "object") return {};
  return { string: "text", integer: 1, number: 1.5, boolean: true, null: null }[own.type] ?? null;
}

function fields(heading, rows) {
  if (rows.length === 0) return null;
  const cells = rows.map(([name, kind, words]) => made("tr", {}, made("th", { scope: "row" }, made("code", {}, name)), made("td", {}, kind), made("td", {}, ...worded(words))));
  return made("div", {}, made("h3", {}, heading), made("div", { class: "scroll" }, made("table", {}, made("tbody", {}, ...cells))));
}

const number = (value) => (Math.abs(value) < 1e16 ? value.toLocaleString("en") : String(value));

/** Words in which backticks mark code. */
const worded = (text) => text.split("`").map((part, i) => (i % 2 ? made("code", {}, part) : part));

const limits = (schema) => {
  const own = resolved(schema) ?? {};
  const said = [];
  for (const part of [own, ...(own.anyOf ?? [])]) {
    if (part.minimum !== undefined) said.push(`at least ${number(part.minimum)}`);
    if (part.exclusiveMinimum !== undefined) said.push(`above ${number(part.exclusiveMinimum)}`);
    if (part.maximum !== undefined) said.push(`at most ${number(part.maximum)}`);
    if (part.maxLength !== undefined) said.push(`at most ${part.maxLength} characters`);
  }
  if (own.default !== undefined && own.default !== null) said.push(`by default ${JSON.stringify(own.default)}`);
  return said.join(", ");
};

function parameters(about) {
  return (about.parameters ?? []).map((one) => [one.name, `${type(one.schema)} in the ${one.in}${one.required ? "" : ", optional"}`, [one.description, limits(one.schema)].filter(Boolean).join("; ")]);
}

function body(about) {
  const content = about.requestBody?.content;
  if (!content) return [];
  if (!content["application/json"]) return [["body", Object.keys(content).join(" or "), about.requestBody.description ?? ""]];
  const schema = content["application/json"].schema, own = resolved(schema.anyOf?.find((one) => one.$ref) ?? schema);
  return Object.entries(own.properties ?? {}).map(([name, one]) => [name, `${type(one)}${own.required?.includes(name) ? "" : ", optional"}`, [one.description, limits(one)].filter(Boolean).join("; ")]);
}

function command(method, path, about) {
  const rights = (about.security ?? []).flatMap(Object.keys);
  const bearer = rights.some((right) => right.endsWith("token")) && !rights.includes("device secret");
  const lines = [`curl -X ${method.toUpperCase()} ${location.origin}${path.replace("{name}", "clinics").replace("{device_id}", "north").replace("{which}", "report")}`];
  if (bearer) lines.push(`  -H "Authorization: Bearer $(cat ${rights[0] === "join token" ? "clinics" : "admin"}.token)"`);
  if (rights.includes("device secret")) lines.push('  -H "Kfed-Device-Secret: $SECRET"');
  const content = about.requestBody?.content;
  if (content?.["application/json"]) {
    const schema = content["application/json"].schema, own = schema.anyOf?.find((one) => one.$ref) ?? schema;
    lines.push('  -H "Content-Type: application/json"', `  -d '${JSON.stringify(example(own))}'`);
  } else if (content) lines.push("  --data-binary @north.kfed");
  return lines.join(" \\\n");
}

function answers(about) {
  const rows = Object.entries(about.responses).map(([status, answer]) => {
    const content = answer.content?.["application/json"]?.schema, isGood = status.startsWith("2");
    const shown = isGood && content ? JSON.stringify(example(content), null, 1) : "";
    return made("li", {}, made("code", {}, status), " ", ...worded(answer.description), shown && shown.length < 4000 && shown !== "null" ? made("details", {}, made("summary", {}, "Example"), made("pre", {}, made("code", {}, shown))) : null);
  });
  return made("div", {}, made("h3", {}, "Answers"), made("ul", { class: "quiet" }, ...rows));
}

const index = document.getElementById("index");
for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, about] of Object.entries(methods)) {
    const rights = (about.security ?? []).flatMap(Object.keys), id = about.operationId;
    index.append(made("li", {}, made("a", { href: `#${id}` }, made("span", { class: "method" }, method.toUpperCase()), made("code", {}, path))));
    document.getElementById("api").append(made("section", { class: "card", id },
      made("h2", {}, made("span", { class: "method" }, method.toUpperCase()), " ", made("code", {}, path)),
      ...(about.description ?? about.summary).split("\n\n").map((text) => made("p", {}, ...worded(text))),
      made("p", { class: "quiet" }, rights.length ? `Requires: ${rights.join(", or ")}` : "Requires no token"),
      fields("Parameters", parameters(about)), fields("Body", body(about)),
      made("h3", {}, "Example"), made("pre", {}, made("code", {}, command(method, path, about))), answers(about)));
  }
}
