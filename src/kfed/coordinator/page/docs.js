// The OpenAPI document for people; nothing is fetched from other machines.

function made(name, text, className = "") {
  const node = document.createElement(name);
  node.textContent = text;
  node.className = className;
  return node;
}

const api = await (await fetch("/openapi.json")).json();
for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, about] of Object.entries(methods)) {
    const card = made("section", "", "card"), title = made("h2", "");
    title.append(made("span", method.toUpperCase(), "method"), made("code", path));
    card.append(title, made("p", about.description ?? about.summary));
    const rights = (about.security ?? []).flatMap(Object.keys);
    card.append(made("p", rights.length ? `Requires: ${rights.join(", or ")}` : "Requires no token", "quiet"));
    const answers = made("ul", "", "quiet");
    for (const [status, answer] of Object.entries(about.responses)) answers.append(made("li", `${status}: ${answer.description}`));
    card.append(answers);
    document.getElementById("api").append(card);
  }
}
