/** Chooses the messages around a violation: of its own sequence, of those that shared its slot, and of those that its cause names. */

import { type Json, type JsonObject, isObject, list, number, object, text, word } from "./json.ts";
import type { LaneModel, Step } from "./lanes/model.ts";

/** A sequence of the chart, and why it is there. */
export interface Lifeline {
    row: number;
    why: "own" | "cause" | "slot";
}

export interface Message {
    at: number;
    /** The place of its sequence among the lifelines. */
    line: number;
    step: Step;
    isResponse: boolean;
    /** Whether it is what the violation is about. */
    isAccused: boolean;
}

export interface Chosen {
    lines: Lifeline[];
    messages: Message[];
    /** Messages of these sequences before and after the chosen ones. */
    before: number;
    after: number;
}

const OTHERS_MAX = 3;
/** Steps of its own sequence before and after the accused one. */
const OWN_STEPS = 6;
const MESSAGES_MAX = 32;

/** Collects what a cause names: sequences, requests, and correlation IDs. */
function named(value: Json | undefined, found: { names: string[]; ids: string[] }): void {
    if (Array.isArray(value)) {
        list(value).forEach((item) => {
            named(item, found);
        });
    } else if (typeof value === "string") {
        if (/^\d+-\d+-\d+(-\d+)?$/.test(value)) {
            found.names.push(value);
        }
    } else if (isObject(value)) {
        const [worker, context, sequence] = ["worker", "context", "sequence"].map((key) => number(value[key]));
        if (typeof worker === "number" && typeof context === "number" && typeof sequence === "number") {
            found.names.push(`${worker}-${context}-${sequence}`);
        }
        for (const [key, item] of Object.entries(value)) {
            const id = word(item);
            if ((key === "id" || key === "holder" || key === "correlation_id") && id !== null) {
                found.ids.push(id);
            } else {
                named(item, found);
            }
        }
    }
}

/** The sequence of a correlation ID that was under way at a moment, or that began last before it. */
function rowAt(model: LaneModel, id: string, time: number): number | null {
    return (
        model
            .rowsOfId(id)
            .filter((row) => model.beginOf(row) <= time)
            .at(-1) ?? null
    );
}

/** The row of the sequence that a violation is about. */
export function ownRow(model: LaneModel, violation: JsonObject): number | null {
    const request = text(violation["request_id"]);
    if (request !== null) {
        return model.rowNamed(request);
    }
    const id = word(violation["correlation_id"]);
    return id === null ? null : rowAt(model, id, number(violation["at_us"]) ?? 0);
}

function linesOf(model: LaneModel, violation: JsonObject, own: number): Lifeline[] {
    const found = { names: [] as string[], ids: [] as string[] };
    named(
        list(violation["explanations"]).map((its) => object(its)["clues"] ?? null),
        found,
    );
    named(violation["evidence"], found);
    const at = number(violation["at_us"]) ?? model.overAt(own);
    const causes = [...found.names.map((name) => model.rowNamed(name)), ...found.ids.map((id) => rowAt(model, id, at))];
    const { before, after } = model.neighbours(own);
    const lines: Lifeline[] = [{ row: own, why: "own" }];
    const add = (row: number | null, why: Lifeline["why"]): void => {
        if (row !== null && lines.length <= OTHERS_MAX && lines.every((line) => line.row !== row)) {
            lines.push({ row, why });
        }
    };
    causes.forEach((row) => {
        add(row, "cause");
    });
    // A lane is a slot only where the model reports it.
    if (model.data.told) {
        add(before, "slot");
        add(after, "slot");
    }
    return lines;
}

/** The messages of a sequence. */
function messagesOf(model: LaneModel, { row }: Lifeline, line: number, accused: string | null): Message[] {
    const count = model.stepRange(row)?.count ?? 0;
    const messages: Message[] = [];
    for (let place = 0; place < count; place += 1) {
        const step = model.step(row, place);
        if (step !== null) {
            const isAccused = step.requestId === accused;
            messages.push({ at: step.sentAt, line, step, isResponse: false, isAccused: false });
            if (step.answeredAt !== null) {
                messages.push({ at: step.answeredAt, line, step, isResponse: true, isAccused });
            }
        }
    }
    return messages;
}

/** Whether a message is of the violation's own steps near the accused one. */
function isNear(message: Message, accusedPlace: number | null): boolean {
    return (
        message.line === 0 &&
        (message.step.isStart || (accusedPlace !== null && Math.abs(message.step.number - accusedPlace) <= OWN_STEPS))
    );
}

/** The messages around a violation; `null` where the report does not have the steps of its sequence. */
export function messagesAround(model: LaneModel, violation: JsonObject): Chosen | null {
    const own = ownRow(model, violation);
    if (own === null || model.stepRange(own) === null) {
        return null;
    }
    const lines = linesOf(model, violation, own);
    const accused = text(violation["request_id"]);
    const all = lines.flatMap((line, place) => messagesOf(model, line, place, accused)).sort((a, b) => a.at - b.at);
    const at = all.find((message) => message.isAccused)?.at ?? number(violation["at_us"]) ?? model.overAt(own);
    const accusedPlace = accused === null ? null : Number(accused.split("-")[3]);
    const ranked = [...all].sort(
        (a, b) =>
            Number(isNear(b, accusedPlace)) - Number(isNear(a, accusedPlace)) ||
            Math.abs(a.at - at) - Math.abs(b.at - at),
    );
    const kept = new Set(ranked.slice(0, MESSAGES_MAX));
    const messages = all.filter((message) => kept.has(message));
    const used = lines.map((_, place) => messages.some((message) => message.line === place) || place === 0);
    const places = new Map<number, number>();
    lines.forEach((_, place) => used[place] === true && places.set(place, places.size));
    const [first, last] = [messages.at(0)?.at ?? 0, messages.at(-1)?.at ?? 0];
    return {
        lines: lines.filter((_, place) => used[place]),
        messages: messages.map((message) => ({ ...message, line: places.get(message.line) ?? 0 })),
        before: all.filter((message) => message.at < first).length,
        after: all.filter((message) => message.at > last).length,
    };
}
