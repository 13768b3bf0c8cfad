// Messages that this page sends, until they are seen in the transcript. Each has an id of its own
// making, so that sending it again is safe; those not sent yet survive a reload.

import { ApiError, post, randomId } from "./api.js";

const KEY = "clawbot.sends";

export class Sends {
  /** on.changed(session), on.accepted(session). */
  constructor(on) {
    this.on = on;
    this.list = load();
    this.chains = new Map();
  }

  of(session) {
    return this.list.filter((send) => send.session === session);
  }

  add(session, text) {
    const send = { session, text, id: randomId(), state: "sending", error: "" };
    this.list.push(send);
    this.#changed(session);
    this.#queue(send);
  }

  /** Try again what failed for want of an answer. */
  retryUnanswered() {
    for (const send of this.list) if (send.state === "unanswered") this.retry(send);
  }

  retry(send) {
    send.state = "sending";
    this.#changed(send.session);
    this.#queue(send);
  }

  drop(send) {
    this.list = this.list.filter((one) => one !== send);
    this.#changed(send.session);
  }

  /** The transcript as read after `accepted` shows these; forget them. */
  seen(session, isShown, readAt) {
    const before = this.list.length;
    this.list = this.list.filter((send) =>
      send.session !== session || !(isShown(send.id) || send.acceptedAt <= readAt));
    if (this.list.length !== before) this.#save();
  }

  /** One after the other in a session, so that they arrive in the order they were written. */
  #queue(send) {
    const before = this.chains.get(send.session) ?? Promise.resolve();
    const sent = before.then(() => this.#send(send));
    this.chains.set(send.session, sent);
  }

  async #send(send) {
    if (!this.list.includes(send)) return;
    try {
      await post("/api/messages", { session: send.session, text: send.text, client_msg_id: send.id });
      send.state = "accepted";
      send.acceptedAt = performance.now();
      this.on.accepted(send.session);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      send.state = error.status === 0 || error.status === 503 ? "unanswered" : "refused";
      send.error = error.message;
    }
    this.#changed(send.session);
  }

  #changed(session) {
    this.#save();
    this.on.changed(session);
  }

  #save() {
    const kept = this.list.filter((send) => send.state !== "accepted");
    try {
      sessionStorage.setItem(KEY, JSON.stringify(kept));
    } catch {
      // Without storage they live as long as the page.
    }
  }
}

/** What an earlier page left: whether it was sent is not known, and sending it again is safe. */
function load() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEY)) ?? [];
    return kept.map((send) => ({ ...send, state: send.state === "refused" ? "refused" : "unanswered" }));
  } catch {
    return [];
  }
}
