// The page: which conversation is shown, and keeping all its parts true to the server.
//
// The server's transcript is the truth. Events only say that there is more to read, so nothing is
// lost or shown twice however often the connection breaks.

import { ApiError, get, post, randomId } from "./api.js";
import { Composer } from "./composer.js";
import { Marks } from "./marks.js";
import { Sends } from "./sends.js";
import { Sidebar } from "./sidebar.js";
import { Stream } from "./stream.js";
import { Transcript } from "./transcript.js";
import { welcome } from "./welcome.js";

const MAIN = "global";
const RETRY_MS = 2_000;
const $ = (id) => document.getElementById(id);

const CONNECTION = {
  connecting: "Connecting…",
  live: "Connected",
  lost: "Connection lost, trying again…",
  locked: "Signed out: open the address that clawbot printed",
};

class App {
  sessions = new Map();
  shown = MAIN;
  head = 0; // the newest number of the shown session that was read
  older = null;
  running = null;
  serverWaiting = [];
  visit = 0; // counts changes of the shown session: late answers for another are dropped
  isOffline = false;
  isLoaded = false;
  reading = null;
  readAgain = "";

  constructor() {
    this.sidebar = new Sidebar($("sessions"), (key) => this.show(key));
    this.transcript = new Transcript({
      scroll: $("scroll"), log: $("log"), live: $("live"), waiting: $("waiting"), jump: $("jump"),
    });
    this.composer = new Composer(
      { form: $("composer"), text: $("text"), send: $("send"), stop: $("stop") },
      { send: (text) => this.send(text), stop: () => this.stop() },
    );
    this.sends = new Sends({
      changed: (key) => key === this.shown && this.drawWaiting(),
      accepted: (key) => key === this.shown && this.read(),
    });
    this.stream = new Stream({
      change: (body) => this.onChange(body),
      draft: (body) => this.onDraft(body),
      resync: () => this.onResync(),
      state: (state) => this.onConnection(state),
    });
    $("log").addEventListener("click", (event) => {
      const command = event.target.closest("[data-command]")?.dataset.command;
      if (command) this.send(command);
    });
    $("new-chat").addEventListener("click", () => this.newChat());
    $("menu").addEventListener("click", () => this.openMenu(!document.body.classList.contains("menu-open")));
    $("scrim").addEventListener("click", () => this.openMenu(false));
    $("skip").addEventListener("click", () => $("text").focus());
    $("earlier").addEventListener("click", () => this.readEarlier());
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.openMenu(false));
    document.addEventListener("visibilitychange", () => this.onVisible());
    window.addEventListener("online", () => this.stream.hurry());
    window.addEventListener("hashchange", () => this.show(keyOfHash()));
    setInterval(() => this.drawSidebar(), 30_000);
    new IntersectionObserver(
      ([seen]) => seen.isIntersecting && this.isLoaded && this.readEarlier(),
      { root: $("scroll"), rootMargin: "200px" },
    ).observe($("earlier"));
  }

  async start() {
    for (;;) {
      try {
        const cursor = await this.readList();
        this.show(keyOfHash(), cursor);
        return;
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        this.onConnection(error.status === 401 ? "locked" : "lost");
        if (error.status === 401) return;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  async readList() {
    const body = await get("/api/sessions");
    this.isOffline = body.is_offline;
    $("model").textContent = body.is_offline ? "Offline model" : body.model;
    this.sessions = new Map(body.sessions.map((session) => [session.key, session]));
    this.marks ??= new Marks(body.sessions, Date.now(), () => this.drawSidebar());
    this.drawSidebar();
    return body.cursor;
  }

  // -- the shown session ---------------------------------------------------------------------------

  show(key, cursor) {
    this.openMenu(false);
    if (key === this.shown && this.visit > 0) return this.composer.focus();
    this.shown = key;
    this.visit += 1;
    this.isLoaded = false;
    Object.assign(this, { head: 0, older: null, running: null, serverWaiting: [], reading: null, readAgain: "" });
    if (keyOfHash() !== key) history.pushState(null, "", key === MAIN ? "#" : `#${encodeURIComponent(key)}`);
    $("earlier").hidden = true;
    $("empty").hidden = true;
    this.transcript.clear();
    this.composer.show(key);
    this.composer.focus();
    this.problem("");
    this.drawSidebar();
    this.drawWaiting();
    this.stream.watch(key, cursor);
    return this.read("newest");
  }

  newChat() {
    const session = this.sessions.get(this.shown);
    if (this.shown.startsWith("web:") && !session && this.sends.of(this.shown).length === 0) {
      this.openMenu(false);
      this.composer.focus();
      return;
    }
    this.show(`web:${randomId()}`);
  }

  /** Read what is new ("after"), or the newest page; requests that meet become one more reading. */
  async read(what = "after") {
    if (this.reading) {
      if (this.readAgain !== "newest") this.readAgain = what;
      return;
    }
    const visit = this.visit;
    const mine = {};
    this.reading = mine;
    try {
      await this.readOnce(this.isLoaded ? what : "newest", visit);
      if (visit === this.visit && this.hasReadProblem) this.problem("");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (visit === this.visit) this.#notRead(error, what, visit);
    } finally {
      if (this.reading === mine) this.reading = null;
    }
    if (visit === this.visit && this.readAgain) {
      const next = this.readAgain;
      this.readAgain = "";
      await this.read(next);
    }
  }

  #notRead(error, what, visit) {
    if (error.status === 401) return; // the stream tells it
    if (error.status === 400 && this.shown !== MAIN) {
      this.show(MAIN); // a broken address
      this.problem(error.message);
      return;
    }
    this.problem(error.message);
    this.hasReadProblem = true;
    setTimeout(() => visit === this.visit && this.read(what), RETRY_MS);
  }

  async readOnce(what, visit) {
    const startedAt = performance.now();
    const query = { session: this.shown };
    if (what === "after") query.after = this.head;
    const body = await get("/api/transcript", query);
    if (visit !== this.visit) return;
    if (what === "after" && body.older) {
      await this.readOnce("newest", visit); // more happened than one page holds
      return;
    }
    const isApart = body.older && !body.items.some((item) => this.transcript.known.has(item.id));
    if (body.session.seq < this.head || isApart) {
      // Another store than before, or so much is new that something would be missing between.
      this.transcript.clear();
      this.isLoaded = false;
    }
    this.transcript.add(body.items);
    if (!this.isLoaded) this.older = body.older;
    this.isLoaded = true;
    this.head = body.session.seq;
    this.running = body.running;
    this.serverWaiting = body.waiting;
    const ids = new Set(body.waiting.map((one) => one.client_msg_id));
    this.sends.seen(this.shown, (id) => ids.has(id) || this.transcript.clientIds.has(id), startedAt);
    if (body.session.seq > 0) this.sessions.set(body.session.key, body.session);
    $("earlier").hidden = this.older === null;
    this.transcript.setRunning(this.running);
    this.drawWaiting();
    this.transcript.settle();
    this.drawSidebar();
  }

  async readEarlier() {
    if (this.older === null || this.readingEarlier) return;
    const visit = this.visit;
    this.readingEarlier = true;
    try {
      const body = await get("/api/transcript", { session: this.shown, before: this.older });
      if (visit !== this.visit) return;
      this.older = body.older;
      $("earlier").hidden = this.older === null;
      this.transcript.addEarlier(body.items);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.problem(error.message);
    } finally {
      this.readingEarlier = false;
    }
  }

  // -- what a person does --------------------------------------------------------------------------

  send(text) {
    this.transcript.sticks = true;
    this.sends.add(this.shown, text);
    this.transcript.toEnd();
  }

  async stop() {
    $("stop").disabled = true;
    try {
      await post("/api/stop", { session: this.shown });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      $("stop").disabled = false;
      this.problem(error.message);
    }
  }

  openMenu(isOpen) {
    const wasOpen = document.body.classList.contains("menu-open");
    document.body.classList.toggle("menu-open", isOpen);
    $("menu").setAttribute("aria-expanded", String(isOpen));
    $("scrim").hidden = !isOpen;
    document.querySelector("main").inert = isOpen;
    if (isOpen) $("new-chat").focus();
    else if (wasOpen) $("menu").focus();
  }

  // -- what the server tells -----------------------------------------------------------------------

  onChange({ session, events, has_gap: hasGap }) {
    this.sessions.set(session.key, session);
    this.drawSidebar();
    if (session.key !== this.shown) return;
    // What a stop withdrew lies before what was read.
    const isOlder = hasGap || events.some((one) => one.kind === "stopped" || one.kind === "new_epoch");
    this.read(isOlder ? "newest" : "after");
  }

  onDraft({ session, running }) {
    if (session !== this.shown || !this.isLoaded) return;
    if (running && running.seq > this.head) {
      this.read();
      return;
    }
    if (running && running.seq < this.head) return;
    this.running = running;
    this.transcript.setRunning(running);
    this.drawWaiting();
    this.transcript.settle();
  }

  async onResync() {
    const visit = this.visit;
    try {
      this.stream.cursor = { ...(await this.readList()) };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setTimeout(() => this.onResync(), RETRY_MS);
      return;
    }
    if (visit === this.visit) await this.read("newest");
  }

  onConnection(state) {
    const place = $("connection");
    place.dataset.state = state;
    place.textContent = CONNECTION[state];
    if (state === "live") this.sends.retryUnanswered();
  }

  onVisible() {
    if (document.visibilityState !== "visible") return;
    this.stream.hurry();
    this.drawSidebar();
  }

  // -- drawing -------------------------------------------------------------------------------------

  drawSidebar() {
    if (!this.marks) return;
    const shown = this.sessions.get(this.shown);
    if (shown && this.isLoaded && document.visibilityState === "visible") this.marks.read(shown);
    const listed = [...this.sessions.values()].sort((one, other) => other.active_ms - one.active_ms);
    for (const key of new Set([MAIN, this.shown])) {
      if (this.sessions.has(key)) continue;
      const title = key === MAIN ? "Main chat" : "New chat";
      const place = { key, title, channel: "web", state: "idle", total: 0, active_ms: 0, created_ms: 0 };
      if (key === MAIN) listed.push(place);
      else listed.unshift(place);
    }
    const unread = (session) => this.marks.unread(session);
    this.sidebar.draw(listed, this.shown, unread);
    const others = listed.reduce((sum, session) => sum + unread(session), 0);
    const current = listed.find((session) => session.key === this.shown);
    $("title").textContent = current.title;
    $("title").title = current.key;
    $("channel").textContent = current.channel;
    $("channel").hidden = current.channel === "web";
    $("menu-badge").hidden = others === 0;
    document.title = others ? `(${others}) ${current.title} · clawbot` : `${current.title} · clawbot`;
  }

  drawWaiting() {
    const known = new Set([...this.serverWaiting.map((one) => one.client_msg_id), ...this.transcript.clientIds]);
    const waiting = this.serverWaiting.map((one) => ({
      text: one.text, sender: one.sender, note: this.running ? "Waits for its turn" : "Sent",
    }));
    for (const send of this.sends.of(this.shown)) {
      if (!known.has(send.id)) waiting.push(this.#sending(send));
    }
    this.transcript.setWaiting(waiting);
    const isBusy = Boolean(this.running) || this.serverWaiting.length > 0;
    this.composer.setRunning(isBusy);
    const isEmpty = this.isLoaded && this.transcript.isEmpty;
    if (isEmpty && $("empty").hidden) {
      $("empty").replaceChildren(...welcome(this.isOffline, (text) => this.send(text)));
    }
    $("empty").hidden = !isEmpty;
  }

  #sending(send) {
    if (send.state === "sending") return { text: send.text, note: "Sending…" };
    if (send.state === "accepted") return { text: send.text, note: "Sent" };
    const edit = () => {
      this.sends.drop(send);
      this.composer.giveBack(send.text);
    };
    const actions = [["Try again", () => this.sends.retry(send)], ["Edit", edit]];
    return { text: send.text, note: `Not sent. ${send.error}`.trim(), failed: true, actions };
  }

  problem(text) {
    this.hasReadProblem = false;
    $("problem").textContent = text;
    $("problem").hidden = !text;
  }
}

function keyOfHash() {
  try {
    return decodeURIComponent(location.hash.slice(1)) || MAIN;
  } catch {
    return MAIN;
  }
}

new App().start();
