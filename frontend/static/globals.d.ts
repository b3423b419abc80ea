// What the pages' scripts find on the window: the vendored libraries.
import type PlotlyModule from "plotly.js-dist-min";

declare global {
  const Plotly: typeof PlotlyModule;
  const htmx: { ajax(verb: string, path: string, how: Record<string, string>): Promise<void> };
}
export {};
