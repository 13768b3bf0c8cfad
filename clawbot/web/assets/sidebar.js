// The list of conversations, with a badge for what this browser has not read.

import { ago, el } from "./dom.js";

const STATES = { running: "working", parked: "waits for a decision", waiting: "waiting" };

export class Sidebar {
  constructor(list, onChoose) {
    this.list = list;
    this.onChoose = onChoose;
    this.drawn = "";
  }

  /** Draw `sessions` (in order); `unread` tells how many replies of one are unread. */
  draw(sessions, shown, unread) {
    const rows = sessions.map((session) => ({
      session,
      current: session.key === shown,
      count: unread(session),
      when: session.active_ms ? ago(session.active_ms) : "",
    }));
    const drawn = JSON.stringify(
      rows.map(({ session, current, count, when }) => [
        session.key, session.title, session.state, session.channel, current, count, when,
      ]),
    );
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const focused = document.activeElement?.dataset?.key;
    this.list.replaceChildren(...rows.map((row) => this.#row(row)));
    if (focused === undefined) return;
    const again = [...this.list.querySelectorAll("button")].find((one) => one.dataset.key === focused);
    again?.focus({ preventScroll: true });
  }

  #row({ session, current, count, when }) {
    const state = STATES[session.state];
    const button = el(
      "button",
      { type: "button", class: "session", title: session.key, "data-key": session.key,
        "data-state": session.state },
      el("span", { class: "session-title" }, session.title),
      el("span", { class: "session-facts" },
        state ? el("span", { class: "pulse", title: state }) : null,
        state ? el("span", { class: "session-state" }, state) : null,
        state ? null : el("span", {}, session.channel),
        state || !when ? null : el("span", {}, when)),
    );
    if (current) button.setAttribute("aria-current", "true");
    if (count > 0) {
      const shown = count > 99 ? "99+" : String(count);
      button.append(el("span", { class: "badge", "aria-label": `${count} unread` }, shown));
    }
    button.addEventListener("click", () => this.onChoose(session.key));
    return el("li", {}, button);
  }
}
