// The second half of the page at /join: send the message, wait for the clusters, label the table; also later, with a ticket.

import { newSecret, newTicket, readTicket } from "./line.js";
import { ask, download, get, input, line, problem, say, show, state, working } from "./steps.js";
import { profileTable } from "./tables.js";
import { count, fail, plural } from "./words.js";

/** @typedef {import("./line.js").Ticket} Ticket */

const ABOUT_A_SITE = /unit|aside|scale|flag/; // the codes of what a site can mend; the rest is the administrator's

// Sending and waiting ----------------------------------------------------------------------------------------------

export async function send() {
  const { grouped, invitation, terms, agreed } = state;
  // The secret is made before the first attempt and stays, so that an attempt whose answer was lost can be repeated.
  const secret = state.ticket?.secret ?? newSecret(),
    { wish, digest } = grouped;
  state.ticket = newTicket({
    federation: invitation.federation,
    device_id: invitation.device,
    secret,
    browser: { wish, terms, agreed, digest },
  });
  const answer = await working("leaves", () => line().send(grouped.bytes, invitation.token, secret));
  if (!answer) return;
  state.isKept = false;
  keepTicket();
  await follow(answer);
}

function keepTicket() {
  const { ticket } = state,
    text = JSON.stringify(ticket, null, 2);
  download(
    /** @type {HTMLAnchorElement} */ (get("ticket-file")),
    new Blob([text + "\n"], { type: "application/json" }),
    `${ticket?.federation}-${ticket?.device_id}.ticket`,
  );
}

/** Wait for the clusters, asking as often as the coordinator allows. @param {ArrayBuffer | import("./line.js").Gathering} answer */
async function follow(answer) {
  const { secret } = /** @type {Ticket} */ (state.ticket);
  if (!(answer instanceof ArrayBuffer)) show("sent");
  for (let failures = 0; !(answer instanceof ArrayBuffer);) {
    const quorum = answer.quorum ? ` of ${count.format(answer.quorum)}` : "";
    say(
      "sent-words",
      `Your message has arrived. ${count.format(answer.n_devices)}${quorum} ${answer.n_devices === 1 && !quorum ? "site has" : "sites have"} joined; the clusters are not ready yet. ${answer.remark}`,
    );
    await new Promise((resume) => setTimeout(resume, 1000 * Math.max(1, /** @type {any} */ (answer).wait)));
    if (!state.ticket) return;
    try {
      answer = await line().answer(secret);
      failures = 0;
      problem("");
    } catch (error) {
      const status = /** @type {any} */ (error).status;
      problem(/** @type {Error} */ (error).message);
      if (status === 403 || status === 404) return;
      answer = { ...answer, wait: Math.min(60, 2 ** ++failures) };
    }
  }
  await showAnswer(answer);
}

/** @param {ArrayBuffer} payload */
async function showAnswer(payload) {
  const names = state.terms.feature_names ?? state.grouped?.message.names ?? null;
  const found = await working("sent", () => ask("label", { payload: payload.slice(0), names, agreed: state.agreed }));
  if (!found) return;
  const { profile, rows, url, fileName } = found,
    k = profile.values.length;
  const held = rows ? rows.filter((/** @type {number} */ n) => n > 0).length : 0;
  say(
    "answer-words",
    rows
      ? `${state.invitation.federation} has ${plural(k, "cluster")}; the rows of ${state.fileName} are in ${held} of them.`
      : `${state.invitation.federation} has ${plural(k, "cluster")}.`,
  );
  get("label-part").hidden = Boolean(rows);
  get("labelled").hidden = true;
  if (rows) download(/** @type {HTMLAnchorElement} */ (get("labelled")), url, fileName);
  say(
    "profile-words",
    `The center of each cluster: the average of the groups of all sites in it; not shown if few sites are.${profile.apart ? " ▲ and ▼: at least one standard deviation above or below the average of all." : ""}`,
  );
  get("profile").replaceChildren(profileTable(profile, rows));
  state.isKept = true;
  show("answer");
  const own = /** @type {{ code: string, text: string }[]} */ (/** @type {any} */ (payload).notices).filter(({ code }) => ABOUT_A_SITE.test(code));
  problem(own.map(({ text }) => text).join("; "));
  /** @type {any} */ (get("again")).payload = payload;
}

export async function withdraw() {
  const { ticket } = state;
  if (!ticket || !confirm(`Withdraw from ${ticket.federation}? Your message is deleted, and the clusters are made without it.`))
    return;
  const done = await working("sent", () => line().leave(ticket.secret));
  if (!done) return;
  Object.assign(state, { ticket: null, isKept: true });
  show("sent");
  say("sent-words", `${ticket.device_id} has left ${ticket.federation}.`);
  for (const id of ["ticket-words", "ticket-file", "leave"]) get(id).hidden = true;
}

// Coming back with a ticket ----------------------------------------------------------------------------------------

/** @param {File} file */
export async function comeBack(file) {
  const answer = await working("invitation", async () => {
    const ticket = readTicket(await file.text());
    const { federation, device_id: device, browser } = ticket;
    Object.assign(state, { ticket, terms: browser.terms, agreed: browser.agreed, invitation: { federation, device, token: "" } });
    say("title", federation);
    say("where", device);
    return line().answer(ticket.secret);
  });
  input("ticket").value = "";
  if (!answer) return;
  keepTicket();
  await follow(answer);
}

/** Group the same table again: the same rows give the same message, so nothing has to be kept. @param {File} file */
export async function labelAgain(file) {
  const { ticket, terms, agreed } = state,
    { payload } = /** @type {any} */ (get("again"));
  const grouped = await working("answer", async () => {
    const { wish, digest } = /** @type {Ticket} */ (ticket).browser;
    await ask("read", { file, terms, agreed });
    const again = await ask("group", { terms, agreed, wish });
    if (again.digest === digest) return again;
    await ask("forget", {});
    fail(`${file.name}: this must be the table whose groups were sent, unchanged; its groups are others`);
  });
  input("again").value = "";
  if (!grouped) return;
  state.fileName = file.name;
  await showAnswer(payload);
}
