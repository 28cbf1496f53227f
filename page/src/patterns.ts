/** Sequences by pattern and outcome: bars, and the table. */

import { type Child, h } from "./dom.ts";
import { type JsonObject, number, object } from "./json.ts";
import { patternTable } from "./summary.ts";

const OUTCOMES: readonly [name: string, tone: string][] = [
    ["completed", "held"],
    ["rejected", "waiting"],
    ["failed", "bad"],
    ["indeterminate", "other"],
];

/** A bar for each pattern: its requests by outcome, beside those of the pattern with the most. */
function bars(document: JsonObject): Child {
    const patterns = Object.entries(object(document["patterns"])).map(([name, counts]): [string, JsonObject] => [
        name,
        object(counts),
    ]);
    const most = Math.max(1, ...patterns.map(([, counts]) => number(counts["requests"]) ?? 0));
    const rows = patterns.map(([name, counts]) => {
        const bar = h("span", { class: "parts thin" });
        for (const [outcome, tone] of OUTCOMES) {
            const its = number(counts[outcome]) ?? 0;
            if (its > 0) {
                const part = h("span", { class: `part ${tone}`, title: `${outcome}: ${its}` });
                part.style.width = `${Math.max(0.3, (its / most) * 100)}%`;
                bar.appendChild(part);
            }
        }
        return h("div", { class: "bar-row" }, h("span", {}, name), bar);
    });
    return patterns.length > 0 && h("div", { class: "bar-rows", "aria-hidden": "true" }, ...rows);
}

/** The section of patterns and outcomes. */
export function patterns(document: JsonObject): Child[] {
    const legend = OUTCOMES.map(([name, tone]) => h("span", {}, h("i", { class: `swatch ${tone}` }), ` ${name}`));
    return [
        bars(document),
        h("p", { class: "legend", "aria-hidden": "true" }, "requests:", ...legend),
        patternTable(document),
        h(
            "p",
            { class: "muted" },
            "As designed: sequences in which every step was completed, or was rightly rejected. Rejected: the server answered with an error and did not execute the step; a right rejection is no violation. Indeterminate: no response, because the stream was cut or the tool stopped waiting.",
        ),
    ];
}
