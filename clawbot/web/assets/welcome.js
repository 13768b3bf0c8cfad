// What an empty conversation says: what clawbot is, and what one can try.

import { el } from "./dom.js";

const TRIALS = [
  ["list files", "See what is in the work directory"],
  ["read README.md", "Have a file read"],
  ["!help", "See the commands"],
];

export function welcome(isOffline, onTry) {
  const trials = TRIALS.map(([text, about]) => {
    const button = el("button", { type: "button", class: "trial" },
      el("span", { class: "trial-text" }, text),
      el("span", { class: "trial-about" }, about));
    button.addEventListener("click", () => onTry(text));
    return button;
  });
  const about = isOffline
    ? "The built-in offline model answers here: no account, no key, no network. It understands a few plain requests and really uses its tools. Try one:"
    : "Ask anything, or try one of these:";
  const parts = [
    el("img", { src: "/assets/icon.svg", alt: "", width: 52, height: 52 }),
    el("h2", {}, "What can I do for you?"),
    el("p", {}, about),
    el("div", { class: "trials" }, ...trials),
  ];
  if (isOffline) {
    parts.push(el("p", { class: "quiet-text" },
      "For real answers, set ", el("code", {}, "model:"), " in the configuration to a model of a provider, such as ",
      el("code", {}, "anthropic:claude-sonnet-4-5"), "."));
  }
  return parts;
}
