/** The comparison of runs: what differs by more than noise. */

import { type Cell, NO_NUMBERS, type Child, h, svg, table } from "./dom.ts";
import { bytes, change, duration, percent, rate, short } from "./format.ts";
import { type JsonObject, list, number, object, text, texts, word } from "./json.ts";
import { badge } from "./summary.ts";
import type { Tone } from "./verdict.ts";

const FINDINGS: Readonly<Record<string, [word: string, tone: Tone, sentence: string]>> = {
    regression: ["REGRESSION", "bad", "at least one measure that a user feels is certainly worse"],
    "no-regression": ["NO REGRESSION", "good", "no measure that a user feels is certainly worse by as much as counts"],
    unknown: ["UNKNOWN", "doubt", "the runs show too little to say"],
};

function inUnit(value: number | null, unit: string | null): string {
    if (value === null) {
        return "–";
    }
    switch (unit) {
        case "us":
            return duration(value);
        case "per_second":
            return rate(value);
        case "bytes":
            return bytes(value);
        case "percent":
            return `${short(value)} %`;
        default:
            return short(value);
    }
}

const [WIDTH, HEIGHT] = [160, 18];
/** How many measures the finding names. */
const NAMED_MAX = 3;

/** The interval of a ratio as a bar around 1, the same scale for all measures. */
function interval(measure: JsonObject, widest: number): Child {
    const [low, high, ratio] = [number(measure["low"]), number(measure["high"]), number(measure["ratio"])];
    if (low === null || high === null || ratio === null || low <= 0) {
        return null;
    }
    const x = (value: number): number => WIDTH / 2 + (Math.log(value) / widest) * (WIDTH / 2 - 4);
    const tone = { worse: "bad", better: "good" }[text(measure["difference"]) ?? ""] ?? "plain";
    return svg(
        "svg",
        {
            class: `interval ${tone}`,
            width: WIDTH,
            height: HEIGHT,
            viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
            "aria-hidden": "true",
        },
        svg("line", { class: "zero", x1: WIDTH / 2, x2: WIDTH / 2, y1: 0, y2: HEIGHT }),
        svg("line", { class: "range", x1: x(low), x2: x(high), y1: HEIGHT / 2, y2: HEIGHT / 2 }),
        svg("circle", { cx: x(ratio), cy: HEIGHT / 2, r: 4 }),
    );
}

function mark(measure: JsonObject): Child {
    const difference = text(measure["difference"]) ?? "none";
    if (difference === "none") {
        return "";
    }
    const isRegression = difference === "worse" && measure["felt"] === true;
    return h(
        "span",
        { class: `badge-word ${difference === "worse" ? "bad" : difference === "better" ? "good" : "plain"}` },
        isRegression ? "WORSE" : difference,
    );
}

function measures(comparison: JsonObject): Child {
    const all = list(comparison["measures"]).map(object);
    const ratios = all
        .flatMap((its) => [number(its["low"]), number(its["high"])])
        .filter((ratio) => ratio !== null && ratio > 0) as number[];
    const widest = Math.max(0.02, ...ratios.map((ratio) => Math.abs(Math.log(ratio))));
    const rows = all.map((its): Cell[] => {
        const unit = text(its["unit"]);
        const [low, high] = [number(its["low"]), number(its["high"])];
        return [
            text(its["name"]) ?? "",
            { cell: inUnit(number(its["old"]), unit), class: "number" },
            { cell: inUnit(number(its["new"]), unit), class: "number" },
            { cell: change(number(its["ratio"])), class: "number" },
            low === null || high === null ? "–" : `${change(low)} to ${change(high)}`,
            interval(its, widest),
            mark(its),
        ];
    });
    return table(
        "Measures of both sides",
        ["measure", "old", "new", "change", "95 % interval", "drawn", "finding"],
        rows,
        NO_NUMBERS,
    );
}

function runs(comparison: JsonObject): Child {
    const rows = ["old", "new"].flatMap((side) =>
        list(comparison[side])
            .map(object)
            .map((run): Cell[] => [
                side,
                text(run["file"]) ?? "",
                text(run["server_version"]) ?? "",
                badge(text(run["verdict"]) ?? ""),
                { cell: word(run["seed"]) ?? "", class: "number" },
                { cell: duration((number(run["elapsed_s"]) ?? 0) * 1e6), class: "number" },
            ]),
    );
    return table("Compared runs", ["side", "file", "server", "verdict", "seed", "time"], rows, NO_NUMBERS);
}

/** The word, tone and sentence of a comparison's finding. */
export function findingOf(comparison: JsonObject): { word: string; tone: Tone; sentence: string } {
    const [name, tone, sentence] = FINDINGS[text(comparison["finding"]) ?? ""] ?? [
        "UNKNOWN",
        "doubt",
        "the finding is not known",
    ];
    const worse = list(comparison["measures"])
        .map(object)
        .filter((its) => its["difference"] === "worse" && its["felt"] === true)
        .map((its) => `${text(its["name"]) ?? ""} ${change(number(its["ratio"]))}`);
    const named =
        worse.slice(0, NAMED_MAX).join(", ") +
        (worse.length > NAMED_MAX ? `, and ${worse.length - NAMED_MAX} more` : "");
    return { word: name, tone, sentence: text(comparison["doubt"]) ?? (named === "" ? sentence : named) };
}

/** The section of each comparison of a document of `compare`. */
export function comparisons(document: JsonObject): Child[] {
    const least = number(document["least"]);
    return list(document["comparisons"])
        .map(object)
        .map((comparison) => {
            const { word: verdict, tone, sentence } = findingOf(comparison);
            const notes = texts(comparison["notes"]);
            return h(
                "section",
                { class: "group" },
                h("p", { class: `verdict ${tone}` }, h("strong", {}, verdict), `: ${sentence}`),
                notes.length > 0 && h("ul", { class: "doubts" }, ...notes.map((note) => h("li", {}, note))),
                measures(comparison),
                h(
                    "p",
                    { class: "muted" },
                    `An observation is a ${text(comparison["observed"]) ?? "run"}. A measure is marked if it certainly differs (95 %, corrected for the number of measures)${least === null ? "" : ` by ${percent(least)} or more`}. The first ${number(document["warm_up_s"]) ?? 0} s of each run do not count.`,
                ),
                runs(comparison),
            );
        });
}
