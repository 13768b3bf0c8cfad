// One item of a transcript as elements. User text is set as text, answers as HTML that the server
// has cleaned.

import { cleanHtml, copy, el, icon, moment } from "./dom.js";

const DOCUMENTS = {
  seed: "Context document",
  summary: "Summary of what came before",
  reminder: "Reminder",
  note: "Context given to clawbot",
};

/** An answer: rendered Markdown, whose code blocks and tables are made usable. */
export function prose(html) {
  const node = el("div", { class: "prose" });
  node.append(cleanHtml(html));
  for (const block of node.querySelectorAll("pre")) {
    const frame = el("div", { class: "code" });
    block.tabIndex = 0; // long lines are reached by the keyboard
    block.replaceWith(frame);
    frame.append(block, copyButton("Copy code", () => block.textContent));
  }
  for (const table of node.querySelectorAll("table")) {
    const frame = el("div", { class: "wide", tabIndex: 0 });
    table.replaceWith(frame);
    frame.append(table);
  }
  return node;
}

function copyButton(label, text) {
  const button = el("button", { type: "button", class: "copy", title: label, "aria-label": label });
  button.append(icon("copy"));
  button.addEventListener("click", async () => {
    await copy(text());
    button.replaceChildren(icon("done"));
    button.classList.add("copied");
    setTimeout(() => {
      button.replaceChildren(icon("copy"));
      button.classList.remove("copied");
    }, 1500);
  });
  return button;
}

export function userBubble(text, { sender = "", ms = 0, note = "" } = {}) {
  return el("div", { class: "said" },
    sender ? el("div", { class: "sender" }, sender) : null,
    el("div", { class: "bubble", title: ms ? moment(ms) : "" }, text),
    note ? el("div", { class: "status" }, note) : null);
}

const MAKERS = {
  user: (item) =>
    el("li", { class: "item user" }, userBubble(item.text, { sender: item.sender, ms: item.sent_ms ?? item.at_ms })),

  assistant: (item) =>
    el("li", { class: "item assistant" },
      prose(item.html),
      el("div", { class: "foot" },
        copyButton("Copy answer", () => item.text),
        el("time", {}, moment(item.at_ms)))),

  tool_call: (item) => {
    const result = el("div", { class: "tool-result" }, el("p", { class: "quiet-text" }, "No result yet."));
    const details = el("details", {},
      el("summary", {},
        icon("tool"),
        el("span", { class: "tool-name" }, item.tool),
        el("span", { class: "tool-arguments" }, item.text)),
      result);
    return el("li", { class: "item tool", "data-state": "open" }, details);
  },

  tool_result: (item) => MAKERS.tool_call({ tool: item.tool || "tool", text: "" }),

  notice: (item) =>
    el("li", { class: "item notice" },
      item.asked ? userBubble(item.asked, { ms: item.at_ms }) : null,
      el("div", { class: "card" }, prose(item.html))),

  failed: (item) =>
    el("li", { class: "item failed" },
      el("div", { class: "card" }, icon("fail"), prose(item.html))),

  withdrawn: (item) =>
    el("li", { class: "item user withdrawn" },
      userBubble(item.text, { sender: item.sender, ms: item.sent_ms, note: "Withdrawn" })),

  approval_asked: (item) =>
    el("li", { class: "item notice question", "data-approval": item.approval },
      el("div", { class: "card" }, prose(item.html), choices(item.approval))),

  approval_decided: (item) => line(DECISIONS[item.state] ?? item.state),

  stopped: (item) =>
    line(item.count === 1 ? "Stopped, a waiting message was withdrawn" : `Stopped, ${item.count} waiting messages were withdrawn`),

  new_epoch: () =>
    el("li", { class: "item beginning" }, el("span", {}, "New conversation")),

  note: (item) => {
    const short = /^\(([^\n]{1,80})\)$/.exec(item.text);
    return short ? line(short[1][0].toUpperCase() + short[1].slice(1)) : folded(item);
  },
};

const DECISIONS = {
  approved: "Approved",
  denied: "Refused",
  expired: "Nobody decided in time",
  cancelled: "The question was taken back",
};

/** Buttons below a question; each says its command in the conversation (see `App`). */
function choices(id) {
  const commands = [
    ["Approve", `/approve ${id}`],
    ["For this conversation", `/approve ${id} always`],
    ["For 1 hour", `/approve ${id} 1h`],
    ["Deny", `/deny ${id}`],
  ];
  return el("div", { class: "choices" }, ...commands.map(([label, command]) =>
    el("button", { type: "button", "data-command": command }, label)));
}

/** Take the buttons off a question that is decided. */
export function closeQuestion(node) {
  node.querySelector(".choices")?.remove();
}

function line(text) {
  return el("li", { class: "item line" }, el("span", {}, text));
}

function folded(item) {
  return el("li", { class: "item document" },
    el("details", {},
      el("summary", {}, DOCUMENTS[item.kind] ?? item.kind),
      el("div", { class: "plain" }, item.text)));
}

/** The elements of an item; one of a kind that is not known here is shown folded. */
export function itemNode(item) {
  return (MAKERS[item.kind] ?? folded)(item);
}

/** Put a tool's result into the elements of its call. */
export function fillResult(node, result) {
  node.dataset.state = result.is_error ? "failed" : "done";
  const place = node.querySelector(".tool-result");
  const text = el("pre", { tabIndex: 0 }, result.text || "(nothing)");
  place.replaceChildren(text);
}
