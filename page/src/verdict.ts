/** What a result comes to, in a word and a sentence. */

import { counted } from "./format.ts";
import { type JsonObject, list, number, object, text, texts, word } from "./json.ts";

export type Tone = "good" | "bad" | "doubt";

export interface Verdict {
    word: string;
    tone: Tone;
    sentence: string;
}

/** What a document is the result of. */
export type Kind = "run" | "suite" | "limit";

export function kindOf(document: JsonObject): Kind {
    if (Array.isArray(document["scenarios"])) {
        return "suite";
    }
    return Array.isArray(document["trials"]) ? "limit" : "run";
}

function seed(document: JsonObject): string {
    const its = word(document["seed"]);
    return its === null ? "" : ` (seed ${its})`;
}

function ofRun(document: JsonObject): Verdict {
    const verdict = text(document["verdict"]) ?? "unknown";
    const responses =
        number(object(object(document["latency_us"])["step"])["count"]) ?? number(document["requests"]) ?? 0;
    const found = number(document["violation_count"]) ?? 0;
    const missed = texts(document["missed_thresholds"]);
    const checked = `${counted(responses, "response")} checked`;
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

export function verdictOf(document: JsonObject): Verdict {
    switch (kindOf(document)) {
        case "run":
            return ofRun(document);
        case "suite":
            return ofSuite(document);
        case "limit":
            return ofLimit(document);
    }
}
