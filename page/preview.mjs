// Makes a report of JSON results for a look: `node preview.mjs OUT.html RESULT.json...`. It has no sequences and no explanations.

import { readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { filled, page } from "./build.mjs";

const [out, ...files] = process.argv.slice(2);
if (out === undefined || files.length === 0) {
    console.error("preview: give the file to write, and results of --json: node preview.mjs OUT.html RESULT.json...");
    process.exit(2);
}
const documents = files.map((file) => ({
    name: basename(file),
    document: /** @type {Record<string, unknown>} */ (JSON.parse(readFileSync(file, "utf8"))),
}));
const comparison = documents.find(({ document }) => "comparisons" in document);
const data = {
    form: 1,
    tool_version: documents[0]?.document["tool_version"] ?? "",
    made_at: new Date().toISOString(),
    results: documents
        .filter((its) => !("comparisons" in its.document))
        .map((its) => ({ ...its, lanes: [], lanes_note: "The preview has no sequences." })),
    comparison: comparison?.document ?? null,
    kinds: {},
    causes: {},
};
writeFileSync(out, filled(await page(), data));
