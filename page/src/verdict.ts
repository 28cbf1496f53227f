/** What a result comes to, in a word and a sentence. */

import { counted } from "./format.ts";
import { type JsonObject, list, number, object, text, texts, word } from "./json.ts";
import { isWindow, windowVerdict } from "./window.ts";

export type Tone = "good" | "bad" | "doubt";

export interface Verdict {
    word: string;
    tone: Tone;
    sentence: string;
}

/** What a document is the result of. */
export type Kind = "run" | "suite" | "limit" | "hunt" | "window";

export function kindOf(document: JsonObject): Kind {
    if (Array.isArray(document["scenarios"])) {
        return "suite";
    }
    if (Array.isArray(document["findings"])) {
        return "hunt";
    }
    if (isWindow(document)) {
        return "window";
    }
    return Array.isArray(document["trials"]) ? "limit" : "run";
}

function seed(document: JsonObject): string {
    const its = word(document["seed"]);
    return its === null ? "" : ` (seed ${its})`;
}

/** Where a greater share of the responses could not be judged, the verdict says how many could be. */
const UNJUDGED = 0.1;

/** How many responses were checked. */
function checkedWords(document: JsonObject, responses: number): string {
    const outcomes = object(document["outcomes"]);
    const unjudged = number(outcomes["unjudged"]) ?? 0;
    const answered = ["completed", "rejected", "failed"].reduce((all, name) => all + (number(outcomes[name]) ?? 0), 0);
    return unjudged > answered * UNJUDGED
        ? `${counted(answered, "response")}, ${answered - unjudged} of them judged`
        : `${counted(responses, "response")} checked`;
}

function ofRun(document: JsonObject): Verdict {
    const verdict = text(document["verdict"]) ?? "unknown";
    const responses =
        number(object(object(document["latency_us"])["step"])["count"]) ?? number(document["requests"]) ?? 0;
    const found = number(document["violation_count"]) ?? 0;
    const missed = texts(document["missed_thresholds"]);
    const checked = checkedWords(document, responses);
    if (verdict === "invalid") {
        return {
            word: "INVALID",
            tone: "bad",
            sentence: `${checked}, ${counted(found, "violation")}${seed(document)}`,
        };
    }
    if (verdict === "unknown") {
        return {
            word: "UNKNOWN",
            tone: "doubt",
            sentence: `${checked}, no violations, and too little shown for VALID${seed(document)}`,
        };
    }
    if (missed.length > 0) {
        return {
            word: "VALID, TOO SLOW",
            tone: "bad",
            sentence: `${checked}, no violations; ${counted(missed.length, "threshold")} missed${seed(document)}`,
        };
    }
    return { word: "VALID", tone: "good", sentence: `${checked}, no violations${seed(document)}` };
}

function ofSuite(document: JsonObject): Verdict {
    const scenarios = list(document["scenarios"]).map(object);
    const runs = scenarios
        .filter((its) => its["outcome"] === "run")
        .map((its) => text(object(its["result"])["verdict"]) ?? "unknown");
    const of = (wanted: string): number => runs.filter((verdict) => verdict === wanted).length;
    const sentence = `${runs.length} of ${counted(scenarios.length, "scenario")} run: ${of("valid")} valid, ${of("invalid")} invalid, ${of("unknown")} unknown${seed(document)}`;
    switch (number(document["exit_code"])) {
        case 0:
            return { word: "VALID", tone: "good", sentence };
        case 1:
            return { word: "INVALID", tone: "bad", sentence };
        case 4:
            return { word: "NOT TESTED", tone: "doubt", sentence };
        case 5:
            return { word: "VALID, TOO SLOW", tone: "bad", sentence };
        default:
            return { word: "UNKNOWN", tone: "doubt", sentence };
    }
}

function ofLimit(document: JsonObject): Verdict {
    const limit = text(document["limit"]) ?? "";
    switch (number(document["exit_code"])) {
        case 0:
            return { word: "LIMIT", tone: "good", sentence: `${limit}${seed(document)}` };
        case 1:
            return {
                word: "INVALID",
                tone: "bad",
                sentence: `the search ended at a violation; ${limit}${seed(document)}`,
            };
        case 4:
            return { word: "NOT TESTED", tone: "doubt", sentence: `${limit}${seed(document)}` };
        default:
            return { word: "UNKNOWN", tone: "doubt", sentence: `${limit}${seed(document)}` };
    }
}

/** What a run of a hunt can come to. */
const HELD = ["valid", "with_violations", "unknown", "too_slow", "ended_early"];
export const OUTCOMES = [...HELD, "not_run"];

/** How many runs of a hunt came to what, in words; runs that could not be held are not among them. */
export function coverageWords(coverage: readonly JsonObject[], outcomes = HELD): string {
    return outcomes
        .map((name) => [coverage.reduce((all, row) => all + (number(row[name]) ?? 0), 0), name] as const)
        .filter(([sum]) => sum > 0)
        .map(([sum, name]) => `${sum} ${name.replaceAll("_", " ")}`)
        .join(", ");
}

function sum(rows: readonly JsonObject[], names: readonly string[]): number {
    return rows.reduce((all, row) => all + names.reduce((its, name) => its + (number(row[name]) ?? 0), 0), 0);
}

/** Whether a run or a replay of a hunt had a finding on a release. */
export function failedOn(release: JsonObject): boolean {
    return (number(release["met"]) ?? 0) > 0 || (number(object(release["replays"])["failed"]) ?? 0) > 0;
}

function ofHunt(document: JsonObject): Verdict {
    const coverage = list(document["coverage"]).map(object);
    const findings = list(document["findings"]).map((finding) => list(object(finding)["releases"]).map(object));
    const [runs, notRun] = [sum(coverage, HELD), sum(coverage, ["not_run"])];
    const replays = sum(
        findings.flat().map((release) => object(release["replays"])),
        ["runs"],
    );
    const more = notRun > 0 ? `; ${notRun} more could not be held` : "";
    const counts = runs > 0 ? ` (${coverageWords(coverage)}${more})` : "";
    const done = [
        (runs > 0 || replays === 0) && `${counted(runs, "run")}${counts}`,
        replays > 0 && counted(replays, "replay"),
    ]
        .filter((part) => part !== false)
        .join(" and ");
    const first = word(document["first_seed"]);
    const end = first === null ? "" : ` (first seed ${first})`;
    const doubtful = (sentence: string): Verdict => ({ word: "UNKNOWN", tone: "doubt", sentence: `${sentence}${end}` });
    switch (number(document["exit_code"])) {
        case 1: {
            const found = findings.filter((releases) => releases.some(failedOn)).length;
            const waiting = list(document["waiting"]).length;
            const parts = [
                `${counted(found, "finding")} in ${done}`,
                waiting > 0 && `not looked into yet: ${counted(waiting, "run")}`,
                document["complete"] === false && "the hunt did not come to its end",
            ];
            return { word: "INVALID", tone: "bad", sentence: `${parts.filter(Boolean).join("; ")}${end}` };
        }
        case 4:
            return { word: "NOT TESTED", tone: "doubt", sentence: `nothing could be run${end}` };
        case 0:
            return sum(coverage, ["valid", "too_slow"]) + replays > 0
                ? { word: "NOTHING FOUND", tone: "good", sentence: `${done}${end}` }
                : doubtful(`nothing was found, and no run was valid: ${done}`);
        default:
            return doubtful(`the hunt did not come to its end, and had found nothing in ${done}`);
    }
}

export function verdictOf(document: JsonObject): Verdict {
    switch (kindOf(document)) {
        case "run":
            return ofRun(document);
        case "suite":
            return ofSuite(document);
        case "limit":
            return ofLimit(document);
        case "hunt":
            return ofHunt(document);
        case "window":
            return windowVerdict(document);
    }
}
