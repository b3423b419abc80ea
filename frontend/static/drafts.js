// What was typed into the form and not submitted, kept in this browser: one draft for each tab and address, so
// that a reload, a crash or the end of a session loses nothing and two tabs never write over each other.

/** @typedef {{ at: number, name: string, side: "form" | "paste", pairs: [string, string][] }} Draft */

const PREFIX = "verdraft-draft:";
const KEPT = 10;
const AGE_MS = 30 * 24 * 3600 * 1000;
const ANSWER_MS = 400;
const CLAIM_MS = 1000;

const channel = "BroadcastChannel" in window ? new BroadcastChannel("verdraft-drafts") : null;
const tab = `${PREFIX}${location.pathname}${location.search}`;
let mine = "";

const fresh = () => `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 10)}`;

/** @param {string} id @returns {Draft | null} */
function read(id) {
  try {
    const draft = JSON.parse(localStorage.getItem(PREFIX + id) ?? "null");
    return draft && Array.isArray(draft.pairs) && Date.now() - draft.at < AGE_MS ? draft : null;
  } catch {
    return null; // no storage here, or written by something else
  }
}

/** @returns {string[]} every draft, the newest first */
function known() {
  try {
    const ids = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
    const stamped = ids.map((key) => ({ id: key.slice(PREFIX.length), at: read(key.slice(PREFIX.length))?.at ?? 0 }));
    return stamped.sort((a, b) => b.at - a.at).map((entry) => entry.id);
  } catch {
    return [];
  }
}

/** @param {string} id */
function remove(id) {
  try {
    localStorage.removeItem(PREFIX + id);
  } catch {
    // nothing was kept
  }
}

// Who has which draft open: the browser's own locks, which end with their tab however it ends; where the address is
// not one that browsers trust (http on another host), tabs ask each other.

let letGo = () => {};

/** Have this draft for as long as the tab lasts; false where another tab has it. @param {string} id */
async function claim(id) {
  if (!navigator.locks) return !(await held()).has(id);
  return await new Promise((resolve) => {
    const patience = AbortSignal.timeout(CLAIM_MS); // of a reload, the page before may not have let go yet
    const had = navigator.locks.request(PREFIX + id, { signal: patience }, () => {
      letGo();
      resolve(true);
      return new Promise((done) => (letGo = () => done(undefined)));
    });
    had.catch(() => resolve(false));
  });
}

/** Which drafts other tabs have open. @returns {Promise<Set<string>>} */
async function held() {
  if (navigator.locks) {
    const names = ((await navigator.locks.query()).held ?? []).map((lock) => lock.name ?? "");
    return new Set(names.filter((name) => name.startsWith(PREFIX)).map((name) => name.slice(PREFIX.length)));
  }
  return asked();
}

/** @returns {Promise<Set<string>>} */
function asked() {
  /** @type {Set<string>} */
  const open = new Set();
  if (!channel) return Promise.resolve(open);
  return new Promise((resolve) => {
    /** @param {MessageEvent} event */
    const heard = (event) => event.data.mine && open.add(event.data.mine);
    channel.addEventListener("message", heard);
    channel.postMessage({ who: true });
    setTimeout(() => {
      channel.removeEventListener("message", heard);
      resolve(open);
    }, ANSWER_MS);
  });
}

/** Keep what is typed. @param {Omit<Draft, "at">} draft */
export function keep(draft) {
  try {
    sessionStorage.setItem(tab, mine);
    localStorage.setItem(PREFIX + mine, JSON.stringify({ ...draft, at: Date.now() }));
    for (const id of known().slice(KEPT)) remove(id);
  } catch {
    // full or forbidden: the page works on without
  }
}

/** It was submitted, or is not wanted any more. */
export function drop() {
  remove(mine);
  try {
    sessionStorage.removeItem(tab);
  } catch {
    // nothing was kept
  }
}

/** @param {string} words @param {() => void} act */
function button(words, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "button";
  made.textContent = words;
  made.addEventListener("click", act);
  return made;
}

/** @param {Draft} draft */
const when = (draft) => new Date(draft.at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

/** @param {Draft} draft */
function notice(draft) {
  const box = document.createElement("p");
  box.className = "banner drafts";
  box.id = "restored";
  box.setAttribute("role", "status");
  const again = () => {
    drop();
    location.reload();
  };
  box.append(`Your draft of ${when(draft)} was restored; it is kept in this browser until it is submitted. `);
  box.append(button("Discard it", again));
  document.getElementById("drafts")?.replaceChildren(box);
}

/** @param {string[]} ids @param {(draft: Draft) => Promise<boolean>} restore */
function offer(ids, restore) {
  const box = document.createElement("div");
  const list = document.createElement("ul");
  box.className = "banner drafts";
  box.id = "others";
  for (const id of ids) {
    const draft = read(id);
    if (!draft) continue;
    const line = document.createElement("li");
    line.append(`${draft.name || "without a name"}, ${when(draft)}`);
    line.append(button("Continue", () => void take(id, draft, restore)));
    line.append(
      button("Discard", () => {
        remove(id);
        line.remove();
        if (!list.children.length) box.remove();
      }),
    );
    list.append(line);
  }
  box.append("Drafts in this browser that were not submitted:", list);
  if (list.children.length) document.getElementById("drafts")?.replaceChildren(box);
}

/** Go on with another tab's draft; the tab itself, if it is open after all, keeps its own.
 * @param {string} id @param {Draft} draft @param {(draft: Draft) => Promise<boolean>} restore */
async function take(id, draft, restore) {
  if (await claim(id)) mine = id;
  if (!(await restore(draft))) return;
  keep(draft);
  notice(draft);
}

/** Find this tab's draft and restore it, or offer those of tabs that are gone.
 * @param {(draft: Draft) => Promise<boolean>} restore */
export async function begin(restore) {
  let had = "";
  try {
    had = sessionStorage.getItem(tab) ?? "";
  } catch {
    // no storage: nothing to restore
  }
  mine = had || fresh();
  const open = await held();
  const draft = had ? read(had) : null;
  if (!(await claim(mine))) {
    mine = fresh(); // this tab was copied from one that is still open
    await claim(mine);
  }
  channel?.addEventListener("message", (event) => event.data.who && channel.postMessage({ mine }));
  if (draft) {
    if (await restore(draft)) {
      keep(draft);
      notice(draft);
    }
    return;
  }
  offer(known().filter((id) => id !== mine && !open.has(id)), restore);
}
