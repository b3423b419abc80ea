// What needs a script on the page of an experiment: copying the command, printing with everything open.
// Without one the command can still be selected, and a browser's own menu prints.

/** @param {HTMLElement} source */
async function copy(source) {
  const text = source.textContent ?? "";
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Only a secure address may write to the clipboard: select it, so that one key copies it.
    getSelection()?.selectAllChildren(source);
    return false;
  }
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!(button instanceof HTMLButtonElement)) continue;
  const source = document.getElementById(button.dataset.copy ?? "");
  if (!source) continue;
  const before = button.textContent;
  button.hidden = false;
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    button.textContent = (await copy(source)) ? "Copied" : "Selected: copy with Ctrl+C";
    setTimeout(() => { button.textContent = before; }, 3000);
  });
}

for (const button of document.querySelectorAll("button[data-print]")) {
  if (!(button instanceof HTMLButtonElement)) continue;
  button.hidden = false;
  button.addEventListener("click", () => print());
}

/** @type {HTMLDetailsElement[]} */
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open], .confirm)")].filter((d) => d instanceof HTMLDetailsElement);
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
  opened = [];
});

// A link to something inside a closed part opens it.
function reveal() {
  const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  for (let part = target; part; part = part.parentElement) if (part instanceof HTMLDetailsElement) part.open = true;
}
addEventListener("hashchange", reveal);
reveal();
