// Comfort for the form, which also works without: add proposer rows, offer a draft only to the methods
// that take one, and only the methods that the chosen runtime has. A check exchanges the whole sheet, so
// that nothing of it is held on to: everything listens at the document.

/** @param {string} id */
const byId = (id) => document.getElementById(id);

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

function addRow() {
  const rows = byId("arm-rows");
  const template = /** @type {HTMLTemplateElement | null} */ (byId("arm-template"));
  if (!rows || !template) return;
  const index = String(rows.children.length + 1);
  const html = template.innerHTML.replaceAll("arms[N]", `arms[${index}]`).replace("Arm N", `Arm ${index}`);
  rows.insertAdjacentHTML("beforeend", html);
  suit();
  /** @type {HTMLElement | null} */ (rows.lastElementChild?.querySelector("select"))?.focus();
}

document.addEventListener("click", (event) => {
  if (event.target instanceof Element && event.target.closest("#add-arm")) addRow();
});
document.addEventListener("change", (event) => {
  if (event.target instanceof Element && event.target.closest("#arm-rows, #runtime")) suit();
});
document.addEventListener("htmx:afterSettle", () => {
  suit();
  const found = byId("preflight-title") ?? document.querySelector("#sheet [role='alert']");
  found?.scrollIntoView({ block: "center" });
});
suit();
