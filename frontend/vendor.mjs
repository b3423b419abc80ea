// Copies the browser files that pages need out of node_modules, with the version in each name,
// their licences, and a list of hashes that a test checks. Run with `npm ci && npm run vendor`.
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const modules = join(here, "node_modules");

const pages = [
  { package: "plotly.js-cartesian-dist-min", file: "plotly-cartesian.min.js", as: "plotly-cartesian-%.min.js" },
  { package: "htmx.org", file: "dist/htmx.min.js", as: "htmx-%.min.js" },
];
const tests = [{ package: "axe-core", file: "axe.min.js", as: "axe-%.min.js" }];

/** @param {typeof pages} entries @param {string} target */
function vendor(entries, target) {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  /** @type {Record<string, {package: string, version: string, sha256: string}>} */
  const hashes = {};
  for (const entry of entries) {
    const root = join(modules, entry.package);
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const name = entry.as.replace("%", version);
    copyFileSync(join(root, entry.file), join(target, name));
    copyFileSync(join(root, "LICENSE"), join(target, `LICENSE.${entry.package}.txt`));
    const sha256 = createHash("sha256").update(readFileSync(join(target, name))).digest("hex");
    hashes[name] = { package: entry.package, version, sha256 };
  }
  writeFileSync(join(target, "hashes.json"), `${JSON.stringify(hashes, null, 2)}\n`);
}

vendor(pages, join(here, "static", "vendor"));
vendor(tests, join(here, "..", "tests", "browser", "vendor"));
