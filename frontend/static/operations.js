// The operations page between two looks at the service: it says when the service is silent, keeps the
// reader's place, can be paused, and says aloud only that something new needs attention.

const live = document.getElementById("live");
const trouble = document.getElementById("trouble");
const announcement = document.getElementById("announcement");
const pause = document.getElementById("pause");

let paused = false;
if (pause) {
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
  });
}
live?.addEventListener("htmx:beforeRequest", (event) => {
  if (paused || document.hidden) event.preventDefault();
});

function silent() {
  const last = document.getElementById("as-of")?.textContent ?? "";
  const words = `The service does not answer. The numbers below are of ${last}; it is asked again every 5 s.`;
  if (!trouble || trouble.textContent === words) return;
  trouble.textContent = words;
  trouble.hidden = false;
}
for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) live?.addEventListener(name, silent);

let said = "";
function announce() {
  const words = live?.querySelector("[data-announce]")?.getAttribute("data-announce") ?? "";
  if (announcement && words !== said) announcement.textContent = words;
  said = words;
}

/** @type {Map<string, number>} */
let scrolled = new Map();
live?.addEventListener("htmx:beforeSwap", () => {
  scrolled = new Map([...live.querySelectorAll(".scroll")].map((s) => [s.id, s.scrollLeft]));
});
live?.addEventListener("htmx:afterSwap", () => {
  live.querySelectorAll(".scroll").forEach((s) => (s.scrollLeft = scrolled.get(s.id) ?? 0));
  if (trouble) {
    trouble.hidden = true;
    trouble.textContent = "";
  }
  announce();
});
announce();

export {}; // a module of its own, for the types
