// Draws the figures that the server built. Figures carry no colours: an arm's slot decides its colour,
// dash and marker here, from the page's tokens, and again whenever the colour scheme changes.

const DASHES = /** @type {const} */ (["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash"]);
const MARKERS = ["circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "pentagon", "star"];
const OPTIONS = { displayModeBar: false, responsive: true };

/** @typedef {{data: any[], layout: Record<string, any>}} Figure */

/** @param {string} name */
function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** @param {any} trace */
function dressTrace(trace) {
  const slot = trace.meta.slot % MARKERS.length;
  const color = token(`--arm-${slot}`);
  const bars = { color, thickness: 1.5, width: 4 };
  return {
    ...trace,
    line: { ...trace.line, color, width: 2, dash: DASHES[slot] },
    marker: { color, size: 9, symbol: MARKERS[slot], line: { color: token("--surface"), width: 1 } },
    ...(trace.error_x && { error_x: { ...trace.error_x, ...bars } }),
    ...(trace.error_y && { error_y: { ...trace.error_y, ...bars } }),
  };
}

/** @param {any} shape */
function dressShape(shape) {
  if (shape.name === "margin") return { ...shape, layer: "below", fillcolor: token("--band"), line: { width: 0 } };
  return { ...shape, line: { color: token("--line-strong"), width: 1, dash: "dot" } };
}

/** @param {Record<string, any>} layout @param {number} width */
function dressLayout(layout, width) {
  const axis = {
    gridcolor: token("--line"), linecolor: token("--line-strong"), zerolinecolor: token("--line-strong"),
    tickfont: { family: token("--mono"), size: 11, color: token("--soft") }, automargin: true,
  };
  /** @type {Record<string, any>} */
  const dressed = {
    ...layout,
    font: { family: token("--sans"), size: 12, color: token("--ink") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: layout.meta.horizontal ? 8 : 64, r: 12, t: 56, b: layout.meta.horizontal ? 48 : 58 },
    legend: { ...layout.legend, x: 0, y: 1, xanchor: "left", yanchor: "bottom", yref: "container", font: { family: token("--mono") } },
    hoverlabel: { font: { family: token("--mono"), color: token("--ink") }, bgcolor: token("--surface"), bordercolor: token("--line-strong") },
    shapes: (layout.shapes ?? []).map(dressShape),
    annotations: (layout.annotations ?? []).map((/** @type {any} */ a) => ({ ...a, font: { size: 12, color: token("--soft") } })),
  };
  dressed.legend.y = 0.995;
  dressed.legend.yanchor = "top";
  for (const key of Object.keys(layout).filter((k) => /^[xy]axis\d*$/.test(k))) {
    dressed[key] = { ...axis, ...layout[key] };
    if (width < 560 && layout[key].tickvals) {
      dressed[key].tickangle = -60;
      dressed[key].title = { ...layout[key].title, font: { size: 10 } };
    }
  }
  return dressed;
}

/** @param {HTMLElement} element @param {Figure} figure */
async function draw(element, figure) {
  const layout = dressLayout(figure.layout, element.clientWidth);
  await Plotly.react(element, figure.data.map(dressTrace), layout, OPTIONS);
}

/** @type {Map<HTMLElement, Figure>} */
const drawn = new Map();

/** @param {HTMLElement} element */
async function load(element) {
  const answer = await fetch(element.dataset.figure ?? "");
  if (!answer.ok) {
    element.textContent = `The figure could not be loaded (${answer.status}); its numbers are below.`;
    return;
  }
  const figure = /** @type {Figure} */ (await answer.json());
  drawn.set(element, figure);
  await draw(element, figure);
}

function redraw() {
  for (const [element, figure] of drawn) void draw(element, figure);
}

const visible = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    visible.unobserve(target);
    void load(/** @type {HTMLElement} */ (target));
  }
}, { rootMargin: "400px" });
document.querySelectorAll("[data-figure]").forEach((element) => visible.observe(element));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
