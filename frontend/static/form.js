// Comfort for the form, which also works without: add proposer rows, and offer a draft only to the
// methods that take one.

const rows = document.getElementById("arm-rows");
const template = /** @type {HTMLTemplateElement | null} */ (document.getElementById("arm-template"));
const button = document.getElementById("add-arm");
const withDraft = new Set((rows?.dataset.withDraft ?? "").split(" "));

/** @param {ParentNode} scope */
function suit(scope) {
  for (const method of scope.querySelectorAll("select[name$='.speculation.method']")) {
    const row = method.closest("fieldset");
    const draft = /** @type {HTMLSelectElement | null} */ (row?.querySelector("select[name$='.draft_or_speculator']"));
    const k = /** @type {HTMLInputElement | null} */ (row?.querySelector("input[name$='.num_speculative_tokens']"));
    const value = /** @type {HTMLSelectElement} */ (method).value;
    if (draft) draft.disabled = !withDraft.has(value);
    if (k) k.disabled = value === "";
  }
}

function addRow() {
  if (!rows || !template) return;
  const index = String(rows.children.length + 1);
  const html = template.innerHTML.replaceAll("arms[N]", `arms[${index}]`).replace("Arm N", `Arm ${index}`);
  rows.insertAdjacentHTML("beforeend", html);
  suit(rows);
  /** @type {HTMLElement | null} */ (rows.lastElementChild?.querySelector("select"))?.focus();
}

if (button && rows) {
  button.hidden = false;
  button.addEventListener("click", addRow);
  rows.addEventListener("change", () => suit(rows));
  suit(rows);
}
