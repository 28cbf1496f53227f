// Builds report.html: the template with the style sheet and the bundled script in it. `--check` compares instead of writing.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const HERE = import.meta.dirname;
const OUTPUT = join(HERE, "report.html");
const MARKER = '<script type="application/json" id="report-data">{}</script>';

/** @param {string} name */
const read = (name) => readFileSync(join(HERE, name), "utf8");

/** @param {string} text */
const hash = (text) => `sha256-${createHash("sha256").update(text).digest("base64")}`;

/** @param {string} entry @param {import("esbuild").BuildOptions} options */
async function bundled(entry, options) {
    const { outputFiles } = await build({
        absWorkingDir: HERE,
        entryPoints: [entry],
        bundle: true,
        minify: true,
        write: false,
        charset: "utf8",
        target: ["chrome111", "firefox115", "safari16.4"],
        legalComments: "none",
        ...options,
    });
    return outputFiles?.[0]?.text.trim() ?? "";
}

/**
 * uPlot asks for the browser's language when it is loaded, and fails where the browser has one that is none, such as `en-US@posix`. The
 * page formats numbers itself, so any language does.
 *
 * @type {import("esbuild").Plugin}
 */
const anyLanguage = {
    name: "any-language",
    setup(build) {
        build.onLoad({ filter: /uPlot\.esm\.js$/ }, ({ path }) => {
            const source = readFileSync(path, "utf8");
            const parts = source.split("domEnv ? nav.language : 'en-US'");
            if (parts.length !== 2) {
                throw new Error(
                    "uPlot no longer asks for the language as build.mjs expects: see whether the plugin is still needed",
                );
            }
            return { contents: parts.join("'en-US'"), loader: "js" };
        });
    },
};

/** The page without data. */
export async function page() {
    const licence = `/*! uPlot\n${read("node_modules/uplot/LICENSE").trim()}\n*/`;
    const script = await bundled("src/main.ts", { format: "iife", banner: { js: licence }, plugins: [anyLanguage] });
    const style = await bundled("src/style.css", {});
    for (const [name, text] of [
        ["script", script],
        ["style sheet", style],
    ]) {
        if (/<\/(script|style)|<!--|report-data">/i.test(text ?? "")) {
            throw new Error(`the ${name} has characters that would end its element`);
        }
    }
    const parts = { SCRIPT_HASH: hash(script), STYLE_HASH: hash(style), STYLE: style, SCRIPT: script };
    // One pass, so that nothing within a part is replaced.
    const html = read("src/template.html").replace(
        /SCRIPT_HASH|STYLE_HASH|STYLE|SCRIPT/g,
        (name) => parts[/** @type {keyof typeof parts} */ (name)],
    );
    if (html.split(MARKER).length !== 2) {
        throw new Error("the page does not have the marker for the data exactly once");
    }
    return html;
}

/** The page with data in place of the marker, as the tool writes it. @param {string} html @param {unknown} data */
export function filled(html, data) {
    const json = JSON.stringify(data).replace(
        /[<>&\u2028\u2029]/g,
        (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
    return html.replace(MARKER, () => MARKER.replace("{}", () => json));
}

if (process.argv[1] === import.meta.filename) {
    const html = await page();
    if (process.argv.includes("--check")) {
        if (readFileSync(OUTPUT, "utf8") !== html) {
            console.error(
                "page: report.html is not what the sources make: run scripts/page build, and commit report.html",
            );
            process.exit(1);
        }
    } else {
        writeFileSync(OUTPUT, html);
        console.log(`page: report.html has ${Math.round(html.length / 1024)} KiB`);
    }
}
