/** The table of several results, or of a suite's scenarios. */

import { type Cell, NO_NUMBERS, type Child, h, link, table } from "./dom.ts";
import { count, duration, rate } from "./format.ts";
import { type JsonObject, isObject, list, number, object, text } from "./json.ts";
import { badge } from "./summary.ts";
import { kindOf, verdictOf } from "./verdict.ts";

/** A row of the table. */
export interface Entry {
    name: string;
    /** The ID of the element that shows it; `null` where there is nothing more to show. */
    id: string | null;
    document: JsonObject | null;
    /** What came of it where there is no document. */
    outcome: string;
    why: string;
}

function cells({ name, id, document, outcome, why }: Entry): Cell[] {
    const title = id === null ? name : link(id, name);
    const figure = (words: string): Cell => ({ cell: words, class: "number" });
    if (document === null) {
        return [title, badge(outcome), "–", "–", "–", "–", "–", why].map((cell, place) =>
            place > 1 && place < 7 ? figure("–") : cell,
        );
    }
    const { word, tone } = verdictOf(document);
    const kind = kindOf(document);
    const step = object(object(document["latency_us"])["step"]);
    const verdict = h("span", { class: `badge-word ${tone}` }, word);
    const elapsed = number(document["elapsed_s"]) ?? number(document["took_s"]);
    if (kind !== "run") {
        return [
            title,
            verdict,
            figure("–"),
            figure("–"),
            figure("–"),
            figure("–"),
            figure(elapsed === null ? "–" : duration(elapsed * 1e6)),
            { suite: "suite", limit: "find-limit", hunt: "hunt", window: "replay --window" }[kind],
        ];
    }
    return [
        title,
        verdict,
        figure(count(number(document["requests"]))),
        figure(count(number(document["violation_count"]))),
        figure(duration(number(step["p99"]))),
        figure(rate(number(document["goodput_per_second"]))),
        figure(elapsed === null ? "–" : duration(elapsed * 1e6)),
        why !== "" ? why : document["complete"] === false ? "checkpoint" : "",
    ];
}

/** The table of the entries. */
export function overview(caption: string, entries: readonly Entry[]): HTMLElement {
    return table(
        caption,
        ["result", "verdict", "requests", "violations", "step p99", "goodput", "time", "note"],
        entries.map(cells),
        NO_NUMBERS,
    );
}

/** The scenarios of a suite as entries. */
export function scenarioEntries(document: JsonObject, prefix: string): Entry[] {
    return list(document["scenarios"])
        .map(object)
        .map((scenario, place) => ({
            name: text(scenario["name"]) ?? "",
            id: isObject(scenario["result"]) ? `${prefix}-s${place + 1}` : null,
            document: isObject(scenario["result"]) ? scenario["result"] : null,
            outcome: (text(scenario["outcome"]) ?? "").replaceAll("-", " "),
            why: text(scenario["why"]) ?? "",
        }));
}

/** A heading for a result that can be unfolded. */
export function resultHeading(name: string, document: JsonObject, level: "h2" | "h3"): Child[] {
    const { word, tone } = verdictOf(document);
    return [h(level, {}, name), " ", h("span", { class: `badge-word ${tone}` }, word)];
}
