/** The summary of a run: checks, doubts, thresholds, claims, patterns, and where the time of a step goes. */

import { type Cell, NO_NUMBERS, type Child, h, table, tableOfUsed } from "./dom.ts";
import { bytes, count, duration, percent, rate, short } from "./format.ts";
import { type JsonObject, isObject, list, number, object, text, texts, word } from "./json.ts";

/** A badge that says in a word what a check came to; its colour says the same. */
export function badge(words: string): HTMLElement {
    const tone =
        {
            passed: "good",
            valid: "good",
            sustained: "good",
            kept: "good",
            failed: "bad",
            invalid: "bad",
            missed: "bad",
            doubtful: "doubt",
            unknown: "doubt",
            "too much": "doubt",
        }[words] ?? "plain";
    return h("span", { class: `badge-word ${tone}` }, words);
}

/** The checks of a document without `checks`, from its own fields. */
function derivedChecks(document: JsonObject): JsonObject[] {
    const check = (name: string, value: JsonObject, key: string, good: readonly string[]): JsonObject[] => {
        const result = text(value[key]);
        if (result === null || result === "not-asked") {
            return [];
        }
        const isUnknown = result.startsWith("not-check");
        const outcome = isUnknown ? "not-checked" : good.includes(result) ? "passed" : "failed";
        return [{ name, outcome, says: text(value["why"]) ?? result.replaceAll("-", " ") }];
    };
    return [
        ...check("server counts", object(document["server_counts"]), "result", ["agrees"]),
        ...check("slots", object(document["slots_check"]), "result", ["all-there"]),
        ...check("pending", object(document["pending_requests"]), "result", ["none"]),
        ...check("idle limit", object(document["idle_limit"]), "status", ["found"]),
        ...texts(document["notes"]).map((says) => ({ name: "note", outcome: "noted", says })),
    ];
}

function checks(document: JsonObject): Child {
    const given = list(document["checks"]).map(object);
    const rows = (given.length > 0 ? given : derivedChecks(document)).map((check): Cell[] => [
        text(check["name"]) ?? "",
        badge((text(check["outcome"]) ?? "").replace("not-checked", "not checked")),
        text(check["says"]) ?? "",
    ]);
    return (
        rows.length > 0 &&
        table("What was checked besides the responses", ["check", "outcome", "result"], rows, NO_NUMBERS)
    );
}

function doubts(document: JsonObject): Child[] {
    const reasons = texts(document["doubts"]);
    // Beside violations a doubt decides nothing.
    return document["verdict"] !== "unknown" || reasons.length === 0
        ? []
        : [
              h("h4", {}, "Why the verdict is unknown"),
              h("ul", { class: "doubts" }, ...reasons.map((why) => h("li", {}, why))),
          ];
}

function measured(threshold: JsonObject): string {
    const value = number(threshold["value"]);
    if (threshold["measured"] === false) {
        return "nothing was measured";
    }
    switch (text(threshold["unit"])) {
        case "us":
            return value === null ? "∞" : duration(value);
        case "per_second":
            return rate(value);
        case "percent":
            return value === null ? "–" : `${short(value)} %`;
        case "bytes":
            return bytes(value);
        case "bytes_per_hour":
            return `${bytes(value)}/h`;
        default:
            return value === null ? "–" : short(value);
    }
}

function thresholds(document: JsonObject): Child[] {
    const rows = list(document["thresholds"])
        .map(object)
        .map((its): Cell[] => {
            const outcome = its["measured"] === false ? "doubtful" : its["missed"] === true ? "missed" : "kept";
            const at = number(its["at_s"]);
            return [
                text(its["threshold"]) ?? "",
                badge(outcome),
                measured(its),
                [
                    text(its["population"]),
                    at === null ? null : `in the window from ${at} s`,
                    its["ended_the_run"] === true ? "ended the run" : null,
                ]
                    .filter((part) => part !== null)
                    .join(", "),
            ];
        });
    const missed = texts(document["missed_thresholds"]);
    if (rows.length === 0 && missed.length === 0) {
        return [];
    }
    return [
        h("h4", {}, "Thresholds"),
        rows.length > 0
            ? tableOfUsed("Thresholds", ["fails if", "outcome", "measured", "where"], rows)
            : h("ul", {}, ...missed.map((words) => h("li", {}, words))),
    ];
}

function claims(document: JsonObject): Child[] {
    const all = list(document["claims"]).map(object);
    const rows = all.map((its): Cell[] => {
        const least = number(its["least"]) ?? 0;
        const reached = number(its["reached"]) ?? 0;
        return [
            text(its["name"]) ?? "",
            { cell: count(reached), class: "number" },
            { cell: least === 0 ? "–" : count(least), class: "number" },
            reached < least ? badge("missed") : least > 0 ? badge("passed") : "",
            text(its["hint"]) ?? "",
        ];
    });
    return rows.length === 0
        ? []
        : [
              h("h4", {}, "Claims"),
              tableOfUsed("Claims", ["the run exercised", "times", "at least", "outcome", "what helps"], rows),
          ];
}

const COLUMNS: readonly [name: string, words: string][] = [
    ["sequences", "begun"],
    ["sequences_as_designed", "as designed"],
    ["requests", "sent"],
    ["completed", "completed"],
    ["rejected", "rejected"],
    ["expired", "of these expired"],
    ["failed", "failed"],
    ["indeterminate", "indeterminate"],
    ["unjudged", "unjudged"],
];

/** The table of patterns and outcomes. Columns without a number above zero are left out from the fifth on. */
export function patternTable(document: JsonObject): Child {
    const total = object(document["outcomes"]);
    const shown = COLUMNS.filter(([name], place) => place < 4 || (number(total[name]) ?? 0) > 0);
    const row = (name: string, counts: JsonObject): Cell[] => [name, ...shown.map(([key]) => number(counts[key]) ?? 0)];
    const rows = Object.entries(object(document["patterns"])).map(([name, counts]) => row(name, object(counts)));
    const all = isObject(document["outcomes"]) ? [row("all", total)] : [];
    return (
        rows.length + all.length > 0 &&
        table("Patterns and outcomes", ["pattern", ...shown.map(([, words]) => words)], [...rows, ...all])
    );
}

const PARTS: readonly [name: string, words: string, tone: string][] = [
    ["client_late", "client late", "other"],
    ["held_back", "held back", "other"],
    ["queue", "server queue", "waiting"],
    ["compute", "compute", "held"],
    ["other", "server's rest", "other"],
    ["outside", "network and client", "series"],
];

/** Parts that sum up to more than this share of the mean step need a word. */
const MORE = 1.005;
/** A part that is a smaller share of the mean step is left out. */
const LEAST_PART = 0.0005;

/** The parts of the mean step as a bar and in words; `null` where they are not known. */
export function meanStep(document: JsonObject): Child[] {
    const mean = object(document["mean_step_us"]);
    const total = number(mean["total"]);
    const batch = object(document["mean_batch"]);
    const size = number(batch["mean"]);
    const possible = number(batch["possible"]);
    const words =
        size === null
            ? null
            : `Mean batch ${short(size)}${possible === null ? "" : ` of ${short(Math.max(possible, size))} possible`}.`;
    if (total === null) {
        return [words !== null && h("p", {}, words)];
    }
    const all = { ...mean, ...object(mean["server"]) };
    const parts = PARTS.map(([name, label, tone]) => ({ label, tone, us: number(all[name]) ?? 0 })).filter(
        ({ us }) => us >= total * LEAST_PART,
    );
    if (parts.length === 0) {
        return [
            h("h4", {}, "Where the time of a step goes"),
            h(
                "p",
                {},
                h("strong", {}, `mean step ${duration(total)}`),
                ". The parts are not known, because the server's counts were not checkable, or do not fit the responses.",
            ),
            words !== null && h("p", {}, words),
        ];
    }
    const sum = parts.reduce((so, { us }) => so + us, 0);
    const inServer = ["queue", "compute", "other"].reduce((so, name) => so + (number(all[name]) ?? 0), 0);
    const waited = total - (number(all["client_late"]) ?? 0) - (number(all["held_back"]) ?? 0);
    const bar = h("div", { class: "parts", "aria-hidden": "true" });
    for (const { us, tone, label } of parts) {
        const part = h("span", { class: `part ${tone}`, title: `${label} ${duration(us)}` });
        part.style.flexGrow = String(us);
        bar.appendChild(part);
    }
    return [
        h("h4", {}, "Where the time of a step goes"),
        bar,
        h(
            "p",
            { class: "legend" },
            h("strong", {}, `mean step ${duration(total)}`),
            ...parts.map(({ label, tone, us }) =>
                h(
                    "span",
                    {},
                    h("i", { class: `swatch ${tone}` }),
                    ` ${label} ${duration(us)} (${percent(us / total)})`,
                ),
            ),
        ),
        sum > total * MORE &&
            h(
                "p",
                { class: "muted" },
                `Together the parts are more than the mean step: the server counts ${duration(inServer)} for a request, and the client waited ${duration(waited)}.`,
            ),
        words !== null && h("p", {}, words),
    ];
}

function longestWait(document: JsonObject): Child[] {
    const its = document["longest_wait"];
    if (!isObject(its)) {
        return [];
    }
    const holders = list(its["holders"])
        .map(object)
        .map((holder): Cell[] => [
            word(holder["correlation_id"]) ?? "",
            { cell: number(holder["slot"]) ?? "–", class: "number" },
            { cell: duration(number(holder["held_us"])), class: "number" },
            text(holder["population"]) ?? "",
        ]);
    return [
        h("h4", {}, "Longest wait for a slot"),
        h(
            "p",
            {},
            `The START of correlation ID ${word(its["correlation_id"]) ?? "?"} at ${duration(number(its["at_us"]))} waited ${duration(number(its["waited_us"]))}. All slots were taken. These sequences held them meanwhile:`,
        ),
        tableOfUsed("Holders of the slots", ["correlation ID", "slot", "held for", "population"], holders),
    ];
}

/** What was measured in all, as pairs of name and figure. */
export function facts(document: JsonObject): Child {
    const fact = (name: string, value: string | null): Child =>
        value !== null && h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const elapsed = number(document["elapsed_s"]);
    const goodput = number(document["goodput_per_second"]);
    const latency = object(object(document["latency_us"])["step"]);
    return h(
        "dl",
        { class: "facts" },
        fact("requests", count(number(document["requests"]))),
        fact("sequences", count(number(document["sequences"]))),
        fact("time", elapsed === null ? null : duration(elapsed * 1e6)),
        fact("throughput", rate(number(document["requests_per_second"]))),
        fact("goodput", goodput === null ? null : rate(goodput)),
        fact("step p50", duration(number(latency["p50"]))),
        fact("step p99", duration(number(latency["p99"]))),
        fact("client CPU per request", duration(number(document["client_cpu_us_per_request"]))),
        fact("client memory", bytes(number(object(document["client_memory_bytes"])["peak"]))),
    );
}

/** The section of the summary. */
export function summary(document: JsonObject): Child[] {
    return [
        facts(document),
        ...doubts(document),
        checks(document),
        ...thresholds(document),
        ...meanStep(document),
        ...longestWait(document),
        ...claims(document),
    ];
}
