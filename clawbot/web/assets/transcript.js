// The conversation that is shown: items in order, the live answer, and messages on their way.

import { el } from "./dom.js";
import { closeQuestion, fillResult, itemNode, prose, userBubble } from "./items.js";

const NEAR_PX = 80;

export class Transcript {
  /** nodes: scroll, log, live, waiting, jump. */
  constructor(nodes) {
    this.nodes = nodes;
    this.clear();
    nodes.scroll.addEventListener("scroll", () => this.#follow(), { passive: true });
    nodes.jump.addEventListener("click", () => this.toEnd({ smooth: true }));
    // What grows later (a picture-less page: folded text, fonts) keeps the end in view.
    new ResizeObserver(() => this.sticks && this.toEnd()).observe(nodes.log.parentElement);
  }

  clear() {
    this.known = new Map(); // id -> { item, node, order }
    this.order = []; // the same, sorted
    this.clientIds = new Set();
    this.decided = new Set(); // ids of questions
    this.sticks = true;
    this.liveKey = "";
    this.nodes.log.replaceChildren();
    this.setRunning(null);
    this.setWaiting([]);
  }

  get isEmpty() {
    return this.order.length === 0 && this.nodes.waiting.children.length === 0 && this.nodes.live.hidden;
  }

  /** Add what is not there yet. */
  add(items) {
    for (const item of items) {
      if (this.known.has(item.id)) continue;
      if (item.client_msg_id) this.clientIds.add(item.client_msg_id);
      const call = item.kind === "tool_result" ? this.#openCall(item) : null;
      const node = call ? null : itemNode(item);
      const place = { item, node, key: [item.epoch, item.seq] };
      if (node) {
        if (item.kind === "tool_result") fillResult(node, item);
        this.#insert(place);
      } else {
        fillResult(call.node, item);
        call.hasResult = true;
      }
      this.known.set(item.id, place);
      if (item.kind === "approval_decided") this.decided.add(item.approval);
    }
    // A question may come with an earlier page than its answer.
    for (const node of this.nodes.log.querySelectorAll("[data-approval]")) {
      if (this.decided.has(node.dataset.approval)) closeQuestion(node);
    }
  }

  /** Add earlier items above; what is in view stays where it is. */
  addEarlier(items) {
    const { scroll, log } = this.nodes;
    const before = scroll.scrollHeight - scroll.scrollTop;
    log.setAttribute("aria-live", "off");
    this.add(items);
    scroll.scrollTop = scroll.scrollHeight - before;
    requestAnimationFrame(() => log.setAttribute("aria-live", "polite"));
  }

  #openCall(result) {
    for (let at = this.order.length - 1; at >= 0; at -= 1) {
      const place = this.order[at];
      const { item } = place;
      if (item.kind === "tool_call" && item.call_id === result.call_id && !place.hasResult
          && compare([item.epoch, item.seq], [result.epoch, result.seq]) < 0) return place;
    }
    return null;
  }

  #insert(place) {
    let at = this.order.length;
    while (at > 0 && compare(this.order[at - 1].key, place.key) > 0) at -= 1;
    const after = this.order[at]?.node ?? null;
    this.nodes.log.insertBefore(place.node, after);
    this.order.splice(at, 0, place);
  }

  /** Show the open turn, or none. */
  setRunning(running) {
    const { live } = this.nodes;
    live.hidden = !running || running.state !== "running";
    const key = live.hidden ? "" : JSON.stringify([running.html, running.progress]);
    if (key === this.liveKey) return;
    this.liveKey = key;
    if (live.hidden) {
      live.replaceChildren();
      return;
    }
    const status = el("div", { class: "progress" },
      el("span", { class: "dots", "aria-hidden": "true" }, el("i"), el("i"), el("i")),
      el("span", {}, running.progress || (running.html ? "" : "Thinking")));
    live.replaceChildren(...(running.html ? [prose(running.html)] : []), status);
  }

  /** Show messages on their way: { id, text, note, failed, actions: [[label, function]] }. */
  setWaiting(messages) {
    this.nodes.waiting.replaceChildren(...messages.map((message) => {
      const said = userBubble(message.text, { sender: message.sender, note: message.note });
      for (const [label, act] of message.actions ?? []) {
        const button = el("button", { type: "button", class: "link" }, label);
        button.addEventListener("click", act);
        said.lastElementChild.append(" · ", button);
      }
      const kind = message.failed ? "item user not-sent" : "item user pending";
      return el("li", { class: kind }, said);
    }));
  }

  // -- the end of the page -------------------------------------------------------------------------

  /** Keep the end in view if it was; else a button leads there. */
  settle() {
    if (this.sticks) this.toEnd();
  }

  toEnd({ smooth = false } = {}) {
    const { scroll, jump } = this.nodes;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    scroll.scrollTo({ top: scroll.scrollHeight, behavior: smooth && !calm ? "smooth" : "instant" });
    this.sticks = true;
    jump.hidden = true;
  }

  #follow() {
    const { scroll, jump } = this.nodes;
    this.sticks = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_PX;
    jump.hidden = this.sticks;
  }
}

function compare([epoch, seq], [otherEpoch, otherSeq]) {
  return epoch - otherEpoch || seq - otherSeq;
}
