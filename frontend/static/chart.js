// Draws the figures that the server built, and saves them as pictures. Figures carry no colours: an arm's slot decides
// its colour, dash and marker here, from the page's tokens, and again whenever the colour scheme or the width changes.

const DASHES = /** @type {const} */ (["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash"]);
const MARKERS = ["circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "pentagon", "star"];
const PATTERNS = /** @type {const} */ (["", "/", ".", "-", "\\", "x", "|", "+"]);
const OPTIONS = { displayModeBar: false, responsive: true };
const NARROW_PX = 600;
const PICTURE_PX = 900;
const LEGEND_ROW_PX = 28;
const STACK_GAP_PX = 64;
/** What the labels at the side take, and what a cell needs to hold its interval too. */
const SIDE_PX = 150;
const CELL_PX = 88;

/** @typedef {{data: any[], layout: Record<string, any>}} Figure */

/** @param {string} name */
function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** @param {string} hex @param {number} alpha */
function faded(hex, alpha) {
  const [r, g, b] = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${alpha})`;
}

/** @param {any} trace @param {number} panel how wide its panel is, about */
function dressTrace(trace, panel) {
  const slot = trace.meta.slot % MARKERS.length;
  const color = token(`--arm-${slot}`);
  switch (trace.meta.role) {
    case "band": return { ...trace, fillcolor: faded(color, 0.16), line: { width: 0, color } };
    case "absent": return { ...trace, textfont: { family: token("--sans"), size: 11, color: token("--soft") } };
    case "map": return {
      ...trace, colorscale: [[0, token("--sunken")], [1, faded(token("--accent"), 0.5)]],
      textfont: { family: token("--mono"), size: 11, color: token("--ink") },
      ...(panel / trace.x.length < CELL_PX && { texttemplate: "%{z:.2f}" }),
    };
    case "part": return {
      ...trace,
      marker: { color, line: { color: token("--surface"), width: 1 }, pattern: { shape: PATTERNS[slot], fillmode: "overlay", fgcolor: token("--surface"), size: 8, solidity: 0.16 } },
    };
  }
  const open = (/** @type {boolean} */ hollow) => MARKERS[slot] + (hollow ? "-open" : "");
  const bars = { color, thickness: 1.5, width: 4 };
  const size = /** @type {Record<string, number>} */ ({ share: 6, blocks: 6 })[trace.meta.role] ?? 9;
  const symbol = trace.meta.hollow ? trace.meta.hollow.map(open) : open(trace.meta.role === "blocks");
  const edge = { color: trace.meta.hollow || trace.meta.role === "blocks" ? color : token("--surface"), width: trace.meta.hollow ? 2 : 1 };
  return {
    ...trace,
    line: { ...trace.line, color, width: 2, dash: DASHES[slot] },
    marker: { ...trace.marker, color, size, symbol, line: edge },
    ...(trace.error_x && { error_x: { ...trace.error_x, ...bars } }),
    ...(trace.error_y && { error_y: { ...trace.error_y, ...bars } }),
  };
}

/** @param {any} shape */
function dressShape(shape) {
  const crossover = /^crossover-(\d+)$/.exec(shape.name);
  if (crossover) {
    const color = token(`--arm-${Number(crossover[1]) % MARKERS.length}`);
    const line = shape.type === "line" ? { color: faded(color, 0.35), width: 9 } : { color, width: 1.5, dash: "dash" };
    return { ...shape, layer: shape.type === "line" ? "below" : "above", line };
  }
  if (shape.name === "margin") return { ...shape, layer: "below", fillcolor: token("--band"), line: { width: 0 } };
  if (shape.name === "saturated") return { ...shape, layer: "below", fillcolor: faded(token("--invalid"), 0.13), line: { width: 0 } };
  if (shape.name === "capacity") return { ...shape, line: { color: token("--hurts"), width: 2, dash: "dash" } };
  return { ...shape, line: { color: token("--line-strong"), width: 1, dash: "dot" } };
}

/** How many rows the legend takes. @param {Figure} figure @param {number} width */
function legendRows(figure, width) {
  const names = figure.data.filter((t) => t.showlegend !== false).map((t) => String(t.name).length);
  const perRow = Math.max(1, Math.floor((width - 24) / (Math.max(0, ...names) * 7.4 + 72)));
  return Math.ceil(names.length / perRow);
}

/** Puts the panels under each other, where there is no room beside. @param {Record<string, any>} layout */
function stack(layout) {
  const { panels, panel_px: panel } = layout.meta;
  const whole = panels * panel + (panels - 1) * STACK_GAP_PX;
  for (let i = 0; i < panels; i++) {
    const top = 1 - (i * (panel + STACK_GAP_PX)) / whole;
    const number = i ? String(i + 1) : "";
    layout[`xaxis${number}`] = { ...layout[`xaxis${number}`], domain: [0, 1], showticklabels: true };
    layout[`yaxis${number}`] = { ...layout[`yaxis${number}`], domain: [Math.max(0, top - panel / whole), top], showticklabels: true };
    layout.annotations[i] = { ...layout.annotations[i], x: 1, xanchor: "right", y: top };
  }
  return whole;
}

/** @param {Figure} figure @param {number} width */
function dressLayout(figure, width) {
  const layout = figure.layout;
  const axis = {
    gridcolor: token("--line"), linecolor: token("--line-strong"), zerolinecolor: token("--line-strong"),
    tickfont: { family: token("--mono"), size: 11, color: token("--soft") }, automargin: true,
  };
  const narrow = width < NARROW_PX;
  const rows = legendRows(figure, width) * LEGEND_ROW_PX;
  /** @type {Record<string, any>} */
  const dressed = {
    ...layout,
    font: { family: token("--sans"), size: 12, color: token("--ink") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    hoverlabel: { font: { family: token("--mono"), color: token("--ink") }, bgcolor: token("--surface"), bordercolor: token("--line-strong"), align: "left" },
    shapes: (layout.shapes ?? []).map(dressShape),
    annotations: (layout.annotations ?? []).map((/** @type {any} */ a) => ({
      ...a, font: { size: 12, color: token("--soft") }, ...(narrow && a.y === 0 && { x: 1, xanchor: "right" }),
    })),
  };
  const named = dressed.annotations.some((/** @type {any} */ a) => a.textangle === -90);
  const plot = narrow && layout.meta.panels > 1 ? stack(dressed) : layout.height - 130;
  const margin = { l: named ? 64 : 8, r: 12, t: ((layout.meta.panels ?? 2) > 1 ? 30 : 12) + (narrow ? 0 : rows), b: 56 + (narrow ? rows : 0) };
  dressed.margin = margin;
  dressed.height = plot + margin.t + margin.b;
  dressed.legend = {
    ...layout.legend, x: 0.01, xanchor: "left", xref: "container", yref: "container", font: { family: token("--mono") },
    ...(narrow ? { y: 4 / dressed.height, yanchor: "bottom" } : { y: 0.998, yanchor: "top" }),
  };
  for (const key of Object.keys(dressed).filter((k) => /^[xy]axis\d*$/.test(k))) {
    dressed[key] = { ...axis, ...dressed[key] };
  }
  return dressed;
}

/** @param {Figure} figure @param {number} width */
function dressed(figure, width) {
  const panel = (width - SIDE_PX) / (width < NARROW_PX ? 1 : figure.layout.meta.columns ?? 1);
  return { data: figure.data.map((trace) => dressTrace(trace, panel)), layout: dressLayout(figure, width) };
}

/** @type {Map<HTMLElement, Figure>} */
const drawn = new Map();

/** @param {HTMLElement} element */
async function draw(element) {
  const figure = drawn.get(element);
  if (!figure) return;
  const { data, layout } = dressed(figure, element.clientWidth);
  await Plotly.react(element, data, layout, OPTIONS);
  element.style.minHeight = "";
}

/** @param {HTMLElement} element */
async function load(element) {
  const answer = await fetch(element.dataset.figure ?? "");
  if (!answer.ok) {
    element.textContent = `The figure could not be loaded (${answer.status}); its numbers are below.`;
    return;
  }
  drawn.set(element, /** @type {Figure} */ (await answer.json()));
  await draw(element);
  offerPictures(element);
}

function redraw() {
  for (const element of drawn.keys()) {
    if (element.isConnected) void draw(element);
    else drawn.delete(element);
  }
}

/** A picture of the figure on the page's ground, under its title. @param {HTMLElement} element @param {"png" | "svg"} format */
async function picture(element, format) {
  const figure = /** @type {Figure} */ (drawn.get(element));
  const { data, layout } = dressed(figure, PICTURE_PX);
  const title = (element.dataset.title ?? "").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const height = layout.height + 34;
  const margin = { ...layout.margin, t: layout.margin.t + 34 };
  const legend = { ...layout.legend, y: layout.legend.y - 34 / height };
  const head = { text: title, x: 0.01, xanchor: "left", y: 1 - 8 / height, yanchor: "top", yref: "container", font: { size: 16 } };
  const whole = { ...layout, title: head, height, margin, legend, paper_bgcolor: token("--surface") };
  const address = await Plotly.toImage(/** @type {any} */ ({ data, layout: whole }), { format, width: PICTURE_PX, height, scale: format === "png" ? 2 : 1 });
  return blobOf(address, format);
}

/** A data address's content; the page's policy forbids fetching it. @param {string} address @param {"png" | "svg"} format */
function blobOf(address, format) {
  const body = address.slice(address.indexOf(",") + 1);
  if (format === "svg") return new Blob([decodeURIComponent(body)], { type: "image/svg+xml" });
  return new Blob([Uint8Array.from(atob(body), (c) => c.charCodeAt(0))], { type: "image/png" });
}

/** @param {HTMLElement} element @param {"png" | "svg"} format */
async function save(element, format) {
  const address = URL.createObjectURL(await picture(element, format));
  const link = Object.assign(document.createElement("a"), { href: address, download: `${element.dataset.name}.${format}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** @param {HTMLElement} element */
function offerPictures(element) {
  const tools = element.closest("figure")?.querySelector("[data-tools]");
  if (!(tools instanceof HTMLElement)) return;
  tools.hidden = false;
  const said = tools.querySelector("[role=status]");
  /** @param {Promise<void>} done @param {string} words */
  const report = (done, words) => done.then(() => words, () => "This browser does not allow it.").then((text) => { if (said) said.textContent = text; });
  tools.querySelectorAll("button").forEach((button) => {
    if (button.dataset.copy !== undefined) {
      button.hidden = !navigator.clipboard || typeof ClipboardItem === "undefined";
      button.onclick = () => void report(navigator.clipboard.write([new ClipboardItem({ "image/png": picture(element, "png") })]), "Copied.");
    } else {
      const format = button.dataset.save === "svg" ? "svg" : "png";
      button.onclick = () => void report(save(element, format), "Saved.");
    }
  });
}

/** Left and right walk through the points that a pointer could be held over. @param {KeyboardEvent} event */
function walk(event) {
  const element = /** @type {HTMLElement} */ (event.currentTarget);
  const figure = drawn.get(element);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!figure || !step) return;
  const points = figure.data.flatMap((trace, curveNumber) =>
    (trace.hovertext ?? []).map((/** @type {string} */ text, /** @type {number} */ pointNumber) => ({ curveNumber, pointNumber, text })));
  if (!points.length) return;
  event.preventDefault();
  const at = (Number(element.dataset.at ?? (step > 0 ? -1 : 0)) + step + points.length) % points.length;
  element.dataset.at = String(at);
  const { curveNumber, pointNumber, text } = points[at];
  const trace = figure.data[curveNumber];
  const axes = (trace.xaxis ?? "x") + (trace.yaxis ?? "y");
  /** @type {any} */ (Plotly).Fx.hover(element, [{ curveNumber, pointNumber }], axes);
  const said = element.closest("figure")?.querySelector("[data-said]");
  if (said) said.textContent = new DOMParser().parseFromString(text, "text/html").body.textContent;
}

const visible = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    visible.unobserve(target);
    void load(/** @type {HTMLElement} */ (target));
  }
}, { rootMargin: "400px" });

/** @param {ParentNode} root */
function find(root) {
  for (const element of root.querySelectorAll("[data-figure]")) {
    if (!(element instanceof HTMLElement) || element.dataset.found) continue;
    element.dataset.found = "yes";
    element.style.minHeight = `${element.dataset.height ?? 200}px`;
    element.addEventListener("keydown", walk);
    visible.observe(element);
  }
}

find(document);
document.body.addEventListener("htmx:load", () => find(document));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
matchMedia(`(max-width: ${NARROW_PX}px)`).addEventListener("change", redraw);
