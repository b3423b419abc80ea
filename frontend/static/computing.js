// A report is being computed: ask for the page again until it is there, but not while nobody looks.

const AGAIN_MS = 2500;

function again() {
  if (document.hidden || !document.querySelector("[data-computing]")) setTimeout(again, AGAIN_MS);
  else location.reload();
}

setTimeout(again, AGAIN_MS);
