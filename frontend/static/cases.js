// The cases' page: a filter that refuses what was typed says so beside the form, and cases that are being taken from
// their evidence are asked for again. Fragments are fetched by htmx; without it the form has a button.

const REFETCH_MS = 2500;

/** An address without the fields that ask for nothing, so that it can be read aloud. @param {CustomEvent} event */
function leaveOutEmpty(event) {
  const form = /** @type {Element} */ (event.target);
  if (!form.matches(".cases-filters")) return;
  const parameters = /** @type {FormData} */ (event.detail.formData);
  for (const [name, value] of [...parameters]) if (value === "") parameters.delete(name);
}

function refetch() {
  if (!document.hidden && document.querySelector("#found [data-computing]")) {
    const address = location.pathname + location.search;
    void htmx.ajax("get", address, { target: "#found", select: "#found", swap: "outerHTML" });
  }
  setTimeout(refetch, REFETCH_MS);
}

/** @param {CustomEvent} event */
function tellRefusal(event) {
  const found = document.getElementById("found");
  const answer = /** @type {XMLHttpRequest} */ (event.detail.xhr);
  if (!found || answer.status !== 422) return;
  const page = new DOMParser().parseFromString(answer.responseText, "text/html");
  const told = document.createElement("p");
  told.className = "banner bad";
  told.setAttribute("role", "alert");
  told.textContent = page.querySelector(".problems")?.textContent?.trim().replace(/\s+/g, " ") ?? "The filter is not valid.";
  found.replaceChildren(told);
}

document.addEventListener("htmx:configRequest", (event) => leaveOutEmpty(/** @type {CustomEvent} */ (event)));
document.addEventListener("htmx:responseError", (event) => tellRefusal(/** @type {CustomEvent} */ (event)));
setTimeout(refetch, REFETCH_MS);
