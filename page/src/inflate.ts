/** Unpacks lane data: base64 of zlib-compressed JSON. */

import type { LaneData } from "./data.ts";
import { isObject, parse } from "./json.ts";

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
    const binary = atob(base64);
    const bytes = new Uint8Array(binary.length);
    for (let place = 0; place < binary.length; place += 1) {
        bytes[place] = binary.charCodeAt(place);
    }
    return bytes;
}

/** Whether all columns of a table have the same length. */
function isTable(table: object): boolean {
    const lengths = new Set(Object.values(table).map((column) => (Array.isArray(column) ? column.length : -1)));
    return lengths.size === 1 && !lengths.has(-1);
}

const SEQUENCES = "worker context number id pattern end lane begun held over violations step steps sent".split(" ");
const STEPS = "number sent took value answer outcome flags slot".split(" ");
const MARKS = "at kind sequence violation text".split(" ");

/** Checks the form of unpacked data; returns what is wrong with it, or `null`. */
export function flawOf(data: unknown): string | null {
    const its = data as Record<string, unknown>;
    if (typeof data !== "object" || data === null) {
        return "it is no object";
    }
    for (const [name, columns] of Object.entries({ sequences: SEQUENCES, steps: STEPS, marks: MARKS })) {
        const table = its[name];
        if (!isObject(table as never) || !columns.every((column) => Array.isArray((table as never)[column]))) {
            return `the table '${name}' lacks a column`;
        }
        if (!isTable(table as object)) {
            return `the columns of '${name}' have different lengths`;
        }
    }
    const lists = ["patterns", "ends", "outcomes", "gaps", "stretches"].every((name) => Array.isArray(its[name]));
    const numbers = ["lanes", "from_us", "until_us"].every((name) => typeof its[name] === "number");
    return lists && numbers ? null : "a field is missing";
}

/**
 * Unpacks lane data.
 *
 * @throws Error with words for people if the browser cannot unpack, or if the data are damaged.
 */
export async function inflate(base64: string): Promise<LaneData> {
    if (typeof DecompressionStream === "undefined") {
        throw new Error("This browser cannot unpack the sequences: open the report in a browser of 2023 or later.");
    }
    let data: unknown;
    try {
        const unpacked = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
        data = parse(await new Response(unpacked).text());
    } catch (problem) {
        throw new Error(`The sequences of this report are damaged: ${String(problem)}. Make the report again.`, {
            cause: problem,
        });
    }
    const flaw = flawOf(data);
    if (flaw !== null) {
        throw new Error(`The sequences of this report cannot be read: ${flaw}. Make the report again.`);
    }
    return data as LaneData;
}
