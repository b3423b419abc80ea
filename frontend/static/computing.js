// A report is being computed: ask for the page again until it is there, but not while nobody looks.

const RELOAD_MS = 2500;

function reload() {
  if (document.hidden || !document.querySelector("[data-computing]")) setTimeout(reload, RELOAD_MS);
  else location.reload();
}

setTimeout(reload, RELOAD_MS);
