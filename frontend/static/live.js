// The live page: one stream says what changed and what the run under way does; parts are fetched when they changed.
// It says when it is not heard, goes on by itself, costs nothing while hidden, and turns into the result at the end.

const RETRY_FIRST_MS = 1000;
const RETRY_LAST_MS = 10_000;
const SILENT_MS = 25_000; // the stream pings every 10 s
const AGE_SHOWN_S = 5;
const ENDED = "verdraft-ended";

const running = document.getElementById("running");
const connection = document.getElementById("connection");
const announcement = document.getElementById("announcement");
const nowPanel = document.getElementById("now");
const nowAge = document.getElementById("now-age");
const tail = document.getElementById("tail");
const tailSection = document.getElementById("tail-section");

/** @param {string} words */
function say(words) {
  if (announcement && announcement.textContent !== words) announcement.textContent = words;
}

/** @param {number} seconds */
function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  if (minutes >= 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return minutes > 0 ? `${minutes} min ${two(seconds % 60)} s` : `${seconds} s`;
}

/**
 * Put new content in, unless it is the same; what the reader opened and where they scrolled stays.
 * @param {Element} place
 * @param {string} html
 */
function put(place, html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const known = document.createElement("template");
  known.innerHTML = drawn.get(place) ?? "";
  if (drawn.has(place) && known.innerHTML === fresh.innerHTML) return;
  drawn.set(place, html);
  const opened = [...place.querySelectorAll("details")].map((d) => d.open);
  const scrolled = [...place.querySelectorAll(".scroll, pre")].map((s) => ({ left: s.scrollLeft, top: s.scrollTop }));
  const focused = place.contains(document.activeElement) ? address(document.activeElement) : null;
  place.replaceChildren(fresh.content);
  place.querySelectorAll("details").forEach((d, i) => (d.open = opened[i] ?? d.open));
  place.querySelectorAll(".scroll, pre").forEach((s, i) => s.scrollTo({ ...scrolled[i], behavior: "instant" }));
  if (focused) /** @type {HTMLElement | null} */ (place.querySelector(focused))?.focus({ preventScroll: true });
}

/** @type {WeakMap<Element, string>} */
const drawn = new WeakMap();

/**
 * What finds the same element in the new content.
 * @param {Element | null} element
 */
function address(element) {
  const href = element?.getAttribute("href");
  const label = element?.getAttribute("aria-label");
  if (href) return `[href="${CSS.escape(href)}"]`;
  if (label) return `[aria-label="${CSS.escape(label)}"]`;
  return element?.tagName === "SUMMARY" ? "summary" : null;
}

let shown = Number(running?.querySelector("[data-version]")?.getAttribute("data-version"));
let asked = false;
let again = false;

/** Fetch the parts anew; whether the service answered. */
async function refetch() {
  if (!running) return false;
  if (asked) {
    again = true;
    return true;
  }
  asked = true;
  try {
    const answer = await fetch(running.dataset.fragment ?? "", { cache: "no-store" });
    if (!answer.ok) return false;
    place(await answer.text());
    return true;
  } catch {
    return false;
  } finally {
    asked = false;
    if (again) {
      again = false;
      void refetch();
    }
  }
}

/** @param {string} html */
function place(html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const over = fresh.content.querySelector("[data-over]")?.getAttribute("data-over");
  if (over) {
    close();
    sessionStorage.setItem(ENDED, over);
    location.replace(location.pathname); // the query only says that a cancel was asked for
    return;
  }
  for (const part of fresh.content.querySelectorAll("[data-part]")) {
    const there = running?.querySelector(`[data-part="${part.getAttribute("data-part")}"]`);
    if (there) put(there, part.innerHTML);
  }
  const top = running?.querySelector("[data-version]");
  shown = Number(top?.getAttribute("data-version"));
  say(top?.getAttribute("data-announce") ?? "");
}

/** @type {EventSource | null} */
let source = null;
let heardMs = Date.now();
let liveMs = 0;
let retryMs = RETRY_FIRST_MS;
/** @type {number | undefined} */
let timer;

function open() {
  close();
  if (!running || document.hidden) return;
  const opened = new EventSource(running.dataset.stream ?? "");
  source = opened;
  heardMs = Date.now();
  opened.addEventListener("change", (event) => {
    heard();
    if (JSON.parse(event.data).version !== shown) void refetch();
  });
  opened.addEventListener("live", (event) => {
    heard();
    liveMs = Date.now();
    if (nowPanel) put(nowPanel, event.data);
  });
  opened.addEventListener("log", (event) => {
    heard();
    showTail(event.data);
  });
  opened.addEventListener("ping", heard);
  opened.addEventListener("reconnect", () => open());
  opened.addEventListener("error", () => {
    if (source === opened) lost();
  });
}

/** @param {string} html */
function showTail(html) {
  if (!tail || !tailSection) return;
  tailSection.hidden = false;
  const before = tail.querySelector("pre");
  const follows = !before || before.scrollTop + before.clientHeight >= before.scrollHeight - 8;
  put(tail, html);
  const log = tail.querySelector("pre");
  if (log && follows) log.scrollTop = log.scrollHeight; // a reader who scrolled up is left there
}

function close() {
  source?.close();
  source = null;
  window.clearTimeout(timer);
}

function heard() {
  heardMs = Date.now();
  retryMs = RETRY_FIRST_MS;
  if (connection && !connection.hidden) {
    connection.hidden = true;
    connection.textContent = "";
    say("Connected again.");
  }
}

/** Nothing is heard: say so, try again less and less often, and meanwhile look whether the service answers at all. */
async function lost() {
  close();
  const since = new Date(heardMs).toLocaleTimeString();
  trouble(`Connection lost, retrying. What is shown is of ${since}.`);
  const waitMs = retryMs;
  retryMs = Math.min(retryMs * 2, RETRY_LAST_MS);
  timer = window.setTimeout(open, waitMs);
  if (await refetch()) trouble("No live stream is free or it was cut; this page asks again every few seconds instead.");
}

/** @param {string} words */
function trouble(words) {
  if (!connection || source?.readyState === EventSource.OPEN || connection.textContent === words) return;
  connection.textContent = words;
  connection.hidden = false;
}

let tickedMs = Date.now();
function tick() {
  const now = Date.now();
  const slept = now - tickedMs > 10_000;
  tickedMs = now;
  document.querySelectorAll("[data-seconds-left]").forEach((clock) => {
    const left = Number(/** @type {HTMLElement} */ (clock).dataset.secondsLeft);
    if (!(left > 0)) return;
    /** @type {HTMLElement} */ (clock).dataset.secondsLeft = String(left - 1);
    clock.textContent = duration(left - 1);
  });
  age(now);
  if (document.hidden || !source) return;
  if (slept) open(); // a laptop that slept: its stream may be dead without knowing
  else if (now - heardMs > SILENT_MS) void lost();
}

/** @param {number} now */
function age(now) {
  const seconds = Math.round((now - liveMs) / 1000);
  const old = liveMs > 0 && seconds >= AGE_SHOWN_S;
  nowPanel?.toggleAttribute("data-old", old);
  if (!nowAge) return;
  nowAge.hidden = !old;
  if (old) nowAge.textContent = `No live values for ${duration(seconds)}: between two servers, or its worker is silent.`;
}

if (running) {
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => event.persisted && open());
  window.addEventListener("online", () => open());
  setInterval(tick, 1000);
  open();
}

const ended = sessionStorage.getItem(ENDED);
if (ended && !running) {
  sessionStorage.removeItem(ENDED);
  window.setTimeout(() => say(ended), 300); // a region speaks only what comes after it is there
}

export {}; // a module of its own, for the types
