// Making elements. The one place where HTML text becomes elements is `cleanHtml`.

const policy = window.trustedTypes?.createPolicy("clawbot", { createHTML: (html) => html });

/** Make an element: properties are set as such, `class`, `data-…`, `aria-…` and `role` as attributes. */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name === "class" || name === "role" || name.includes("-")) node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** An icon of the sprite in index.html. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/** Elements from HTML that the server has cleaned; nothing else may be given here. */
export function cleanHtml(html) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  return template.content;
}

/** Put text to where the person can paste it; the clipboard needs a secure address. */
export async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = el("textarea", { value: text, class: "off-screen" });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** How long ago, in few letters. */
export function ago(ms, now = Date.now()) {
  const minutes = Math.floor((now - ms) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  return new Date(ms).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

/** The time of a message, for its tooltip. */
export function moment(ms) {
  return new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}
