// Between two events of the live page: count the time left down, keep opened details open, and say
// aloud only what changed. The fragment itself is fetched by htmx when the server announces a change.

const live = document.getElementById("live");
const announcement = document.getElementById("announcement");

/** @param {number} seconds */
function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  if (minutes >= 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return minutes > 0 ? `${minutes} min ${two(seconds % 60)} s` : `${seconds} s`;
}

function tick() {
  const clock = /** @type {HTMLElement | null} */ (document.querySelector("[data-seconds-left]"));
  const left = Number(clock?.dataset.secondsLeft);
  if (!clock || !clock.dataset.secondsLeft || !(left > 0)) return;
  clock.dataset.secondsLeft = String(left - 1);
  clock.textContent = duration(left - 1);
}

let said = "";
function announce() {
  const words = live?.querySelector("[data-announce]")?.getAttribute("data-announce") ?? "";
  if (announcement && words !== said) announcement.textContent = said = words;
}

/** @type {boolean[]} */
let opened = [];
/** @type {number[]} */
let scrolled = [];
live?.addEventListener("htmx:beforeSwap", () => {
  opened = [...live.querySelectorAll("details")].map((d) => d.open);
  scrolled = [...live.querySelectorAll(".scroll")].map((s) => s.scrollLeft);
});
live?.addEventListener("htmx:afterSwap", () => {
  live.querySelectorAll("details").forEach((d, i) => (d.open = opened[i] ?? d.open));
  live.querySelectorAll(".scroll").forEach((s, i) => (s.scrollLeft = scrolled[i] ?? 0));
  announce();
});
announce();
setInterval(tick, 1000);
