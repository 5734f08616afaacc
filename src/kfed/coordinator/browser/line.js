// Requests to the coordinator, the link that invites, and the ticket that a site keeps.

import { fail } from "./words.js";

/** @typedef {import("./kinds.js").Terms} Terms */
/** @typedef {{ federation: string, device: string, token: string }} Invitation */
/** What fetches the answer later; `browser` says how to group the same table again. @typedef {{ kind: string, url: string, federation: string, device_id: string, secret: string, cafile: null, insecure: boolean, browser: { wish: import("./site.js").Wish, terms: Terms, agreed: string | null, digest: string } }} Ticket */
/** @typedef {{ n_devices: number, quorum: number | null, remark: string, wait: number }} Gathering */

const BYTES = "application/octet-stream",
  SECRET = "Kfed-Device-Secret",
  KIND = "kfed ticket";

/** What a link says behind its #, which browsers send to nobody. @param {string} hash @returns {Invitation} */
export function invitationIn(hash) {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  return { federation: said.get("federation") ?? "", device: said.get("device") ?? "", token: said.get("token") ?? "" };
}

/** A device secret of 192 random bits. */
export function newSecret() {
  return btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(24))))
    .replaceAll("+", "-")
    .replaceAll("/", "_");
}

/** @param {string} text @returns {Ticket} */
export function readTicket(text, origin = location.origin) {
  let ticket;
  try {
    ticket = JSON.parse(text);
  } catch {
    /* said below */
  }
  if (ticket?.kind !== KIND) fail("this is not a ticket; choose the .ticket file that this page gave you");
  if (!ticket.browser) fail("this is the ticket of `kfed join`; use `kfed label` with it, where the .local file is");
  if (ticket.url !== origin) fail(`this is a ticket for ${ticket.url}; open ${ticket.url}/join and choose it there`);
  return ticket;
}

/** @param {Omit<Ticket, "kind" | "url" | "cafile" | "insecure">} facts */
export const newTicket = (facts) => ({
  kind: KIND,
  url: location.origin,
  cafile: null,
  insecure: location.protocol === "http:",
  ...facts,
});

/** One device of a federation. @param {string} federation @param {string} device */
export function deviceLine(federation, device) {
  const path = `/v1/federations/${encodeURIComponent(federation)}/devices/${encodeURIComponent(device)}`;
  return {
    /** @param {string} token @returns {Promise<Terms>} */
    terms: async (token) => (await ask("GET", `${path}/terms`, { Authorization: `Bearer ${token}` })).json(),
    /** @param {Uint8Array<ArrayBuffer>} body @param {string} token @param {string} secret */
    send: async (body, token, secret) =>
      read(
        await ask(
          "PUT",
          `${path}/message`,
          { Authorization: `Bearer ${token}`, [SECRET]: secret, "Content-Type": BYTES, Accept: BYTES },
          body,
        ),
      ),
    /** @param {string} secret */
    answer: async (secret) => read(await ask("GET", `${path}/identity`, { [SECRET]: secret, Accept: BYTES })),
    /** @param {string} secret */
    leave: (secret) => ask("DELETE", path, { [SECRET]: secret }),
  };
}

/** @type {(method: string, path: string, headers: { [name: string]: string }, body?: Uint8Array<ArrayBuffer>) => Promise<Response>} */
async function ask(method, path, headers, body) {
  let answer;
  try {
    answer = await fetch(path, { method, headers, body, cache: "no-store", credentials: "omit" });
  } catch {
    fail("the coordinator does not answer. Check the connection and try again; sending twice is no harm");
  }
  if (answer.ok) return answer;
  const detail = await answer.json().then(
    (problem) => String(problem.detail),
    () => answer.statusText,
  );
  throw Object.assign(new Error(`the coordinator refused (${answer.status}): ${detail}`), { status: answer.status });
}

/** The bytes of the answer, or how the federation is getting on. @type {(answer: Response) => Promise<ArrayBuffer | Gathering>} */
async function read(answer) {
  if (answer.headers.get("content-type")?.startsWith(BYTES))
    return Object.assign(await answer.arrayBuffer(), { notices: JSON.parse(answer.headers.get("kfed-notices") ?? "[]") });
  return { ...(await answer.json()), wait: Math.min(600, Number(answer.headers.get("retry-after") ?? 5)) };
}
