// Requests to the coordinator. The admin token is kept in memory, and is gone when the page is.

let admin = null;

// A token that can only watch, from a link; it may outlive a reload of this tab.
const watching = () => sessionStorage.getItem("kfed-token");

export const isAdmin = () => admin !== null;
export const hasToken = () => (admin ?? watching()) !== null;

export function headers() {
  const token = admin ?? watching();
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export async function signIn(token) {
  const answer = await fetch("/v1/admin", { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
  if (answer.ok) admin = token;
  return answer;
}

export function signOut() { admin = null; }

// A link that `kfed serve` printed works once: its code becomes a token of this tab, and leaves the address.
export async function followLink() {
  const code = location.hash.match(/^#\/link=([\w-]+)$/)?.[1];
  if (!code) return "";
  history.replaceState(null, "", "/");
  const answer = await fetch("/v1/views", { method: "POST", headers: { Authorization: `Bearer ${code}` } });
  if (!answer.ok) return hasToken() ? "" : (await answer.json()).detail;
  sessionStorage.setItem("kfed-token", (await answer.json()).token);
  return "";
}

export const at = (name, ...parts) => ["/v1/federations", ...[name, ...parts].map(encodeURIComponent)].join("/");

/** The answer in JSON; an error has the words of the coordinator. */
export async function ask(method, path, body) {
  return (await sent(method, path, body)).json();
}

/** Save the answer as a file. */
export async function save(path, file) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await (await sent("GET", path)).blob());
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function sent(method, path, body) {
  const options = { method, headers: headers(), cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try { answer = await fetch(path, options); } catch { throw new Error("The coordinator does not answer; try again."); }
  if (!answer.ok) throw new Error(await reason(answer));
  return answer;
}

async function reason(answer) {
  try {
    const { detail } = await answer.json();
    return `${detail[0].toUpperCase()}${detail.slice(1)}.`.replace(/\.\.$/, ".");
  } catch { return `The coordinator answered ${answer.status}.`; }
}
