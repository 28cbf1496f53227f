/** The data of a report, as the tool writes them into the page. `page/README.md` describes every field. */

import { type Json, type JsonObject, isObject, list, object, parse, text } from "./json.ts";

export interface Explained {
    what: string;
    text: string;
}

export interface Result {
    name: string;
    document: JsonObject;
    /** Packed `LaneData`: one entry for a run, one for each scenario of a suite, one for each finding of a hunt. */
    lanes: (string | null)[];
    lanesNote: string | null;
    /** The same for each finding of a hunt. */
    lanesNotes?: (string | null)[];
}

export interface Report {
    toolVersion: string;
    madeAt: string;
    results: Result[];
    comparison: JsonObject | null;
    /** Why several runs are not compared. */
    comparisonNote: string | null;
    kinds: ReadonlyMap<string, Explained>;
    causes: ReadonlyMap<string, Explained>;
}

/** The columns of the sequences: equally long, sorted by the time of START. */
export interface SequenceColumns {
    worker: number[];
    context: number[];
    number: number[];
    id: (number | string)[];
    pattern: number[];
    end: number[];
    lane: number[];
    begun: number[];
    held: number[];
    over: number[];
    violations: number[];
    step: number[];
    steps: number[];
    sent: number[];
}

export interface StepColumns {
    number: number[];
    sent: number[];
    took: number[];
    value: (number | string | null)[];
    answer: (number | string | null)[];
    outcome: number[];
    flags: number[];
    slot: number[];
}

export interface MarkColumns {
    at: number[];
    kind: string[];
    sequence: number[];
    violation: number[];
    text: string[];
}

/** A span in which the server had one model loaded all the time: another one may have another number of slots. */
export interface Stretch {
    from_us: number;
    until_us: number;
    slots: number | null;
    told: boolean;
    lanes: number;
}

/** Who had which slot when. Times are in µs. */
export interface LaneData {
    slots: number | null;
    told: boolean;
    /** The spans between reloads and restarts. */
    stretches: Stretch[];
    lanes: number;
    from_us: number;
    until_us: number;
    gaps: [number, number][];
    left_out: number;
    /** Marks that are not here because a bound was met. */
    marks_left_out?: number;
    patterns: string[];
    ends: string[];
    outcomes: string[];
    sequences: SequenceColumns;
    steps: StepColumns;
    marks: MarkColumns;
}

/** The form of the data that this page can read. */
const FORM = 1;

function explained(value: Json | undefined): Map<string, Explained> {
    const entry = ([name, its]: [string, Json | undefined]): [string, Explained] => [
        name,
        { what: text(object(its)["what"]) ?? "", text: text(object(its)["text"]) ?? "" },
    ];
    return new Map(Object.entries(object(value)).map(entry));
}

function result(value: Json): Result {
    const its = object(value);
    return {
        name: text(its["name"]) ?? "result",
        document: object(its["document"]),
        lanes: list(its["lanes"]).map((packed) => text(packed)),
        lanesNote: text(its["lanes_note"]),
        lanesNotes: list(its["lanes_notes"]).map((note) => text(note)),
    };
}

/**
 * The data of a report.
 *
 * @throws Error with words for people if the page is the empty template, or if it cannot read the data.
 */
export function readReport(source: string): Report {
    const data = parse(source);
    if (!isObject(data) || Object.keys(data).length === 0) {
        throw new Error(
            "This file is the empty template of a report. Make a report with: sequence-stress report RESULT.json",
        );
    }
    if (data["form"] !== FORM) {
        throw new Error(
            `This page reads data of form ${FORM}, and the file has form ${JSON.stringify(data["form"] ?? null)}. Make the report again with one version of sequence-stress.`,
        );
    }
    return {
        toolVersion: text(data["tool_version"]) ?? "",
        madeAt: text(data["made_at"]) ?? "",
        results: list(data["results"]).map(result),
        comparison: isObject(data["comparison"]) ? data["comparison"] : null,
        comparisonNote: text(data["comparison_note"]),
        kinds: explained(data["kinds"]),
        causes: explained(data["causes"]),
    };
}
