// The page at /join: from an invitation to the message of a table that never leaves the browser.

import { invitationIn } from "./line.js";
import { comeBack, labelAgain, send, withdraw } from "./sending.js";
import { ask, capital, download, get, input, line, on, problem, say, show, state, working } from "./steps.js";
import { make, numbersTable, rowOf } from "./tables.js";
import { count, listed, plural } from "./words.js";

/** @typedef {import("./site.js").Wish} Wish */

async function enter() {
  const { federation, device, token } = state.invitation;
  say("title", `Join ${federation}`);
  say("where", device);
  const terms = await working("invitation", () => line().terms(token));
  if (!terms) return;
  state.terms = terms;
  const columns = terms.feature_names ? `: ${listed(terms.feature_names, 20)}` : "";
  say(
    "terms",
    `${federation} takes ${terms.by_column ? "tables of" : "numbers in"} ${plural(terms.n_features, "column")}${columns}.` +
      (terms.by_column
        ? " Cells may be missing, and columns may stand in any order."
        : " Every cell must be filled, on the scale that the sites agreed on."),
  );
  get("agreed-part").hidden = terms.by_column;
  show("table");
  if (Number(terms.rounds) > 1)
    problem(
      `${federation} asks for a second message about its clusters, which this page does not send. Join here with the first, or use \`kfed join\` for both.`,
    );
  const refusal = terms.closed
    ? `this federation is closed to new sites. Ask its administrator, or come back with your ticket.`
    : terms.max_epsilon
      ? `${federation} takes differentially private messages alone, which this page cannot make. Use \`kfed join --epsilon ${terms.max_epsilon}\`.`
      : terms.agreed_schema &&
        `${federation} has a schema, which this page cannot use. Use \`kfed join\`.`;
  if (refusal) {
    input("file").disabled = true;
    problem(refusal);
  }
}

/** @param {File} file */
async function readTable(file) {
  const found = await working("table", async () => {
    const [agreed] = input("agreed").files ?? [];
    state.agreed = agreed ? await agreed.text() : null;
    return ask("read", { file, terms: state.terms, agreed: state.agreed });
  });
  input("file").value = "";
  if (!found) return;
  state.fileName = file.name;
  say("table-words", `${file.name} has ${plural(found.nRows, "row")} and ${plural(found.columns.length, "column")}.`);
  const isFree = !state.terms.feature_names;
  get("column-rows").replaceChildren(...found.columns.map((/** @type {any} */ column) => columnRow(column, isFree)));
  const names = found.columns.map((/** @type {any} */ column) => column.name).filter((/** @type {string} */ name) => name);
  get("id-column").replaceChildren(
    new Option("each row is its own", ""),
    ...names.map((/** @type {string} */ name) => new Option(name, name)),
  );
  show("columns");
}

const KINDS = /** @type {{ [kind: string]: string }} */ ({ number: "number", flag: "yes or no", date: "date", text: "category" });

/** @param {{ name: string, kind: string, filled: number, missing: number, levels: number, isUsed: boolean }} column @param {boolean} isFree */
function columnRow(column, isFree) {
  const kind = column.filled === 0 ? "empty" : KINDS[column.kind] + (column.levels ? ` (${plural(column.levels, "value")})` : "");
  const row = rowOf(column.name, [
    [kind],
    [count.format(column.filled), "number"],
    [column.missing ? count.format(column.missing) : "", "number"],
    [column.isUsed ? "yes" : "no"],
  ]);
  row.classList.toggle("unused", !column.isUsed);
  if (isFree) {
    const box = make("input", {
      type: "checkbox",
      checked: column.isUsed,
      value: column.name,
      name: "use",
      ariaLabel: `use ${column.name}`,
    });
    row.lastElementChild?.replaceChildren(box);
  }
  return row;
}

async function group() {
  const boxes = /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("input[name=use]"));
  const wish = /** @type {Wish} */ ({
    deviceId: state.invitation.device,
    k: input("k").value ? Number(input("k").value) : "auto",
    least: Number(input("least").value),
    idColumn: input("id-column").value || null,
    chosen: boxes.length
      ? [...boxes].filter((box) => box.checked && box.value !== input("id-column").value).map((box) => box.value)
      : null,
  });
  const grouped = await working("columns", () => ask("group", { terms: state.terms, agreed: state.agreed, wish }));
  if (!grouped) return;
  state.grouped = { ...grouped, wish };
  showMessage(grouped);
  show("leaves");
}

/** @param {any} grouped */
function showMessage(grouped) {
  const { message, bytes, nRows, nWithheld, notices, warnings } = grouped,
    { federation } = state.invitation;
  const stay = nWithheld ? ` ${plural(nWithheld, "group")} with too few rows ${nWithheld === 1 ? "stays" : "stay"} here.` : "";
  say(
    "leaves-words",
    `One message of ${plural(bytes.length, "byte")} to ${federation}: ${plural(message.centers.n, "group")} of the ${plural(nRows, "row")} of ${state.fileName}.${stay}`,
  );
  const said = [...warnings, ...notices];
  fill("notices", said);
  get("notices").hidden = !said.length;
  fill("holds", grouped.holds);
  fill("lacks", grouped.lacks);
  say(
    "numbers-words",
    message.details
      ? "Of each group and column: the average, the filled cells, and the sum of their squared distances to it. Empty: not told."
      : "Of each group: its rows, the sum of their squared distances to the center, and the average of each column.",
  );
  get("numbers").replaceChildren(numbersTable(message));
  const copy = /** @type {HTMLAnchorElement} */ (get("copy"));
  download(copy, new Blob([bytes]), `${state.invitation.device}.kfed`);
}

/** @type {(id: string, lines: string[]) => void} */
const fill = (id, lines) => get(id).replaceChildren(...lines.map((words) => make("li", { textContent: capital(words) })));

// Events -----------------------------------------------------------------------------------------------------------

/** @type {(id: string, take: (file: File) => void) => void} */
const onFile = (id, take) =>
  on(id, "change", () => {
    const [file] = input(id).files ?? [];
    if (file) take(file);
  });
onFile("file", readTable);
onFile("ticket", comeBack);
onFile("again", labelAgain);

const drop = get("drop");
for (const kind of ["dragover", "dragleave", "drop"])
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragover");
  });
drop.addEventListener("drop", (event) => {
  const [file] = event.dataTransfer?.files ?? [];
  if (file && !input("file").disabled) readTable(file);
});

on("ask", "submit", (event) => {
  event.preventDefault();
  state.invitation = {
    federation: input("federation").value.trim(),
    device: input("device").value.trim(),
    token: input("token").value.trim(),
  };
  enter();
});
on("how", "submit", (event) => {
  event.preventDefault();
  group();
});
on("send", "click", send);
on("leave", "click", withdraw);
on("ticket-file", "click", () => {
  state.isKept = true;
});
document.querySelectorAll("[data-to]").forEach((button) =>
  button.addEventListener("click", () => {
    problem("");
    show(/** @type {HTMLElement} */ (button).dataset.to ?? "");
  }),
);
addEventListener("beforeunload", (event) => {
  if (!state.isKept) event.preventDefault();
});

// A link's secret leaves the address at once, so that it is in no history and no screenshot.
state.invitation = invitationIn(location.hash);
if (location.hash) history.replaceState(null, "", location.pathname);
Object.entries(state.invitation).forEach(([name, value]) => (input(name).value = value)); // seen again if it is refused
if (state.invitation.federation && state.invitation.device && state.invitation.token) enter();
else show("invitation");
