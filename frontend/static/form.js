// The form and the YAML in step: whichever side is edited, the service parses it and tells the other side, what is
// wrong with it, what it costs and what it could show. An answer to older typing never takes the place of newer.
// Without scripts both sides submit by themselves.

import { begin, drop, keep } from "./drafts.js";

/** @typedef {"form" | "paste"} Side */
/** @typedef {{ input: string, outcome: string, words: string }} Beside */
/** @typedef {{ yaml: string | null, form: string | null, look: string, price: string, unshown: string,
 *   problems: [string, string][], beside: Beside[] }} Answer */

const WAIT_MS = 350;
const LIVE = "/experiments/new/live";

/** @type {Side} */
let side = "form";
let edits = 0;
let timer = 0;
/** @type {AbortController | null} */
let asking = null;
/** @type {Set<string>} */
const touched = new Set();

/** @param {string} id */
const byId = (id) => document.getElementById(id);
/** @param {Side} which */
const formOf = (which) => /** @type {HTMLFormElement} */ (byId(which));
const yaml = () => /** @type {HTMLTextAreaElement} */ (byId("manifest"));

/** @param {string} words */
function say(words) {
  const place = byId("announcement");
  if (place && place.textContent !== words) place.textContent = words;
}

// Rows of the guided side: only what the runtime has, only what the method reads.

/** The methods of the chosen runtime; null where it could not be asked, so that all stay on offer. */
function methodsHere() {
  const runtime = /** @type {HTMLSelectElement | null} */ (byId("runtime"));
  const listed = runtime?.selectedOptions[0]?.dataset.methods ?? "";
  return listed ? new Set(listed.split(" ")) : null;
}

/** @param {Element} row */
function suitRow(row) {
  const method = /** @type {HTMLSelectElement | null} */ (row.querySelector("select[name$='.speculation.method']"));
  const draft = /** @type {HTMLSelectElement | null} */ (row.querySelector("select[name$='.draft_or_speculator']"));
  const k = /** @type {HTMLInputElement | null} */ (row.querySelector("input[name$='.num_speculative_tokens']"));
  const withDraft = new Set((byId("arm-rows")?.dataset.withDraft ?? "").split(" "));
  const here = methodsHere();
  if (!method) return;
  for (const option of method.options) option.disabled = option.value !== "" && here !== null && !here.has(option.value);
  if (draft) draft.disabled = !withDraft.has(method.value);
  if (k) k.disabled = method.value === "";
}

function suit() {
  const add = byId("add-arm");
  if (add) add.hidden = false;
  for (const row of byId("arm-rows")?.children ?? []) suitRow(row);
}

/** Only the keys of the row's method, with what was typed into those that both methods have. @param {Element} row */
function exchangeKeys(row) {
  const method = /** @type {HTMLSelectElement | null} */ (row.querySelector("select[name$='.speculation.method']"));
  const box = /** @type {HTMLDetailsElement | null} */ (row.querySelector(".keys"));
  const place = box?.querySelector("[data-keys]");
  if (!method || !box || !place || !(row instanceof HTMLElement)) return;
  const typed = new Map([...place.querySelectorAll("input, select")].map((i) => [i.getAttribute("name"), value(i)]));
  const template = /** @type {HTMLTemplateElement | null} */ (document.querySelector(`[data-keys-of="${method.value}"]`));
  place.innerHTML = template?.innerHTML.replaceAll("arms[N]", `arms[${row.dataset.row}]`) ?? "";
  const inputs = /** @type {NodeListOf<HTMLInputElement>} */ (place.querySelectorAll("input, select"));
  for (const input of inputs) input.value = typed.get(input.name) ?? input.value;
  box.hidden = inputs.length === 0;
  const summary = box.querySelector("summary");
  if (summary) summary.textContent = `${method.value} has ${inputs.length} more keys`;
}

/** @param {Element} input */
const value = (input) => /** @type {HTMLInputElement} */ (input).value;

function addRow() {
  const rows = byId("arm-rows");
  const template = /** @type {HTMLTemplateElement | null} */ (byId("arm-template"));
  if (!rows || !template) return;
  const used = [...rows.children].map((row) => Number(/** @type {HTMLElement} */ (row).dataset.row));
  const index = String(Math.max(Number(rows.dataset.first) - 1, ...used) + 1);
  const html = template.innerHTML.replaceAll("arms[N]", `arms[${index}]`).replaceAll('data-row="N"', `data-row="${index}"`);
  rows.insertAdjacentHTML("beforeend", html.replace("Arm N", `Arm ${index}`));
  suit();
  /** @type {HTMLElement | null} */ (rows.lastElementChild?.querySelector("select"))?.focus();
}

// What is wrong, and what was found, beside the inputs.

/** @param {[string, string][]} problems @param {Beside[]} found */
function place(problems, found) {
  for (const box of document.querySelectorAll("[data-beside]")) box.replaceChildren();
  for (const marked of document.querySelectorAll("[aria-invalid]")) unmark(marked);
  const counts = new Map();
  for (const [name, words] of problems) {
    const input = byId(name);
    if (input && "value" in input && input.value === "" && !touched.has(name)) continue; // still to be filled in
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    const line = write(name, "wrong", words);
    if (!line) continue;
    line.id = `wrong-${name}-${count}`;
    if (input && count === 1 && "value" in input) mark(input, line.id);
  }
  for (const name of new Set(found.map((f) => f.input))) {
    const of = found.filter((f) => f.input === name);
    for (const f of of.filter((f) => f.outcome !== "pass")) check(name, f.outcome, `? ${f.words}`);
    const passes = of.filter((f) => f.outcome === "pass").map((f) => f.words);
    if (passes.length) check(name, "pass", `✓ ${passes.join(", ")}`);
  }
}

/** @param {string} name @param {string} kind @param {string} words */
function write(name, kind, words) {
  const box = document.querySelector(`[data-beside="${CSS.escape(name)}"]`);
  if (!box) return null;
  const line = document.createElement("span");
  line.className = kind;
  line.textContent = words;
  box.append(line);
  return line;
}

/** @param {string} name @param {string} outcome @param {string} words */
function check(name, outcome, words) {
  const line = write(name, "checked", words);
  if (line) line.dataset.outcome = outcome;
}

/** @param {Element} input @param {string} id */
function mark(input, id) {
  const hint = (input.getAttribute("aria-describedby") ?? "").split(" ").filter((part) => part.startsWith("hint-"));
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-describedby", [id, ...hint].join(" "));
}

/** @param {Element} input */
function unmark(input) {
  const hint = (input.getAttribute("aria-describedby") ?? "").split(" ").filter((part) => part.startsWith("hint-"));
  input.removeAttribute("aria-invalid");
  if (hint.length) input.setAttribute("aria-describedby", hint.join(" "));
  else input.removeAttribute("aria-describedby");
}

// In step.

/** @param {Side} which @returns {[string, string][]} */
function typedInto(which) {
  const pairs = /** @type {[string, string][]} */ ([...new FormData(formOf(which))].filter(([, v]) => typeof v === "string"));
  return pairs.filter(([name]) => name !== "form_token");
}

/** @param {[string, string][]} pairs */
function body(pairs) {
  const token = /** @type {HTMLInputElement | null} */ (document.querySelector("[name='form_token']"));
  return new URLSearchParams([...pairs, ["form_token", token?.value ?? ""]]);
}

/** @param {Side} which */
function edited(which) {
  side = which;
  edits += 1;
  const name = /** @type {HTMLInputElement | null} */ (byId("name"));
  keep({ side, name: name?.value ?? "", pairs: typedInto(side) });
  clearTimeout(timer);
  byId("look")?.setAttribute("aria-busy", "true");
  timer = setTimeout(() => void ask(), WAIT_MS);
}

/** Ask about the side that was edited last; resolves to whether the answer was still wanted. */
async function ask() {
  clearTimeout(timer);
  const at = edits;
  const answer = await answered(typedInto(side));
  if (!answer || at !== edits) return false;
  if (side === "form" && answer.yaml !== null) yaml().value = answer.yaml;
  if (side === "paste") showForm(answer);
  showLook(answer);
  return true;
}

/** @param {[string, string][]} pairs @returns {Promise<Answer | null>} */
async function answered(pairs) {
  asking?.abort();
  const mine = (asking = new AbortController());
  try {
    const response = await fetch(LIVE, { method: "POST", body: body(pairs), signal: mine.signal });
    if (response.ok && !response.redirected) return await response.json();
    say("The service refused to look at this. Reload the page; your draft is kept.");
  } catch (error) {
    if (mine.signal.aborted) return null;
    say("The service does not answer. Your draft is kept in this browser.");
  }
  byId("look")?.setAttribute("aria-busy", "false");
  return null;
}

/** @param {Answer} answer */
function showForm(answer) {
  const guided = /** @type {HTMLFieldSetElement | null} */ (byId("guided"));
  const why = byId("unshown");
  if (!guided || !why) return;
  const open = [...guided.querySelectorAll("details[open]")].map((d) => d.id).filter(Boolean);
  if (answer.form !== null) guided.innerHTML = answer.form;
  for (const id of open) byId(id)?.setAttribute("open", "");
  guided.disabled = answer.form === null;
  why.innerHTML = answer.unshown;
  suit();
}

/** @param {Answer} answer */
function showLook(answer) {
  const look = byId("look");
  const price = byId("price");
  if (!look || !price) return;
  look.innerHTML = answer.look;
  price.innerHTML = answer.price;
  look.setAttribute("aria-busy", "false");
  place(answer.problems, answer.beside);
  const found = answer.problems.length;
  say(found ? `${found} thing${found > 1 ? "s" : ""} to correct` : "Nothing to correct");
}

/** @param {import("./drafts.js").Draft} draft */
async function restore(draft) {
  const answer = await answered([...draft.pairs, ["whole", "true"]]);
  if (!answer) return false;
  side = draft.side;
  yaml().value = answer.yaml ?? draft.pairs.find(([name]) => name === "manifest")?.[1] ?? "";
  showForm(answer);
  showLook(answer);
  return true;
}

/** Submit the side that was edited last; the draft is gone only once the experiment is there. */
async function submit() {
  const buttons = /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll(".buttons button"));
  clearTimeout(timer);
  edits += 1; // answers that are under way are of no use any more
  for (const button of buttons) button.disabled = true;
  try {
    const response = await fetch("/experiments/new", { method: "POST", body: body(typedInto(side)) });
    if (response.redirected) {
      if (/\/experiments\/[0-9a-f]{12}/.test(response.url)) drop();
      location.assign(response.url);
      return;
    }
    exchange(await response.text());
  } catch {
    say("The service does not answer. Your draft is kept; submit it again.");
  }
  for (const button of buttons) button.disabled = false;
}

/** The page as the service answered it, its summary of what is wrong in focus. @param {string} html */
function exchange(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const sheet = page.getElementById("sheet") ?? page.getElementById("main");
  if (sheet) byId("sheet")?.replaceChildren(...sheet.childNodes);
  for (const input of document.querySelectorAll("#guided input, #guided select")) touched.add(input.id);
  suit();
  const summary = byId("summary") ?? byId("sheet");
  summary?.focus();
  summary?.scrollIntoView({ block: "start" });
}

/** @param {Side} which */
async function checkNow(which) {
  side = which;
  for (const input of document.querySelectorAll("#guided input, #guided select")) touched.add(input.id);
  edits += 1;
  await ask();
  const found = byId("preflight-title") ?? document.querySelector("#look .problems a");
  /** @type {HTMLElement | null} */ (found)?.focus();
  found?.scrollIntoView({ block: "center" });
}

document.addEventListener("click", (event) => {
  if (event.target instanceof Element && event.target.closest("#add-arm")) addRow();
});
document.addEventListener("change", (event) => {
  if (!(event.target instanceof Element)) return;
  const row = event.target.matches("select[name$='.speculation.method']") && event.target.closest(".arm-row");
  if (row) exchangeKeys(row);
  if (event.target.closest("#arm-rows, #runtime")) suit();
});
for (const kind of ["input", "change"]) {
  document.addEventListener(kind, (event) => {
    const form = event.target instanceof Element ? event.target.closest("#form, #paste") : null;
    if (!form || !(event.target instanceof Element)) return;
    if (kind === "change" && !event.target.matches("select, [type='checkbox']")) return;
    if (kind === "input" && event.target.matches("select, [type='checkbox']")) return;
    touched.add(event.target.id);
    edited(form.id === "paste" ? "paste" : "form");
  });
}
document.addEventListener("submit", (event) => {
  const form = event.target instanceof HTMLFormElement ? event.target : null;
  if (form?.id !== "form" && form?.id !== "paste") return;
  event.preventDefault();
  const which = form.id === "paste" ? "paste" : "form";
  if (event.submitter?.classList.contains("check")) void checkNow(edits ? side : which);
  else {
    if (!edits) side = which;
    void submit();
  }
});
suit();
await begin(restore);
if (!byId("restored") && !byId("summary") && !edits) void ask();
