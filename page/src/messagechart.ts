/** A chart of messages: a lifeline for each sequence of the client, one for the server, and time running downward. */

import { NO_NUMBERS, type Child, h, svg, table, unfolding } from "./dom.ts";
import { cut, duration, moment, visible } from "./format.ts";
import type { LaneModel } from "./lanes/model.ts";
import type { Chosen, Lifeline, Message } from "./messages.ts";

const TIMES = 92;
const COLUMN = 210;
const ROW = 24;
const HEAD = 52;
/** A longer time without a message is written between two messages. */
const GAP_US = 20_000;
/** The longest note in letters, and about how wide a bold letter is. */
const NOTE_MAX = 80;
const LETTER = 7;

/** What a violation saw, and what was expected. */
export interface Values {
    seen: string;
    expected: string;
}

/** What the words of a message need besides: what the violation saw, and whether responses have sums. */
interface Words {
    seen: string;
    hasSums: boolean;
}

const WHY: Readonly<Record<Lifeline["why"], string>> = {
    own: "the violation's sequence",
    cause: "named by the cause",
    slot: "had the same slot",
};

function words({ step, isResponse, isAccused }: Message, { seen, hasSums }: Words): string {
    if (!isResponse) {
        const flags = [step.isStart && "START", step.isEnd && "END"].filter((flag) => flag !== false);
        return [`#${step.number + 1}`, ...flags, step.value === null ? "" : String(step.value)].join(" ").trim();
    }
    if (isAccused && step.answer === null && seen !== "") {
        return `#${step.number + 1}: ${seen}`;
    }
    if (hasSums && step.answer === null && step.outcome === "completed") {
        return `#${step.number + 1}: no sum`;
    }
    const answer = step.answer === null ? step.outcome : String(step.answer);
    return `#${step.number + 1} = ${step.outcome === "completed" || step.answer === null ? answer : `${step.outcome}: ${answer}`}`;
}

interface Row {
    message: Message | null;
    note: string | null;
}

/** The rows of the chart: messages, notes of long pauses, and what was expected below the accused response. */
function rowsOf(chosen: Chosen, expected: string): Row[] {
    const rows: Row[] = [];
    if (chosen.before > 0) {
        rows.push({ message: null, note: `${chosen.before} earlier` });
    }
    let last: number | null = null;
    for (const message of chosen.messages) {
        if (last !== null && message.at - last >= GAP_US) {
            rows.push({ message: null, note: `${duration(message.at - last)} pass` });
        }
        rows.push({ message, note: null });
        if (message.isAccused) {
            rows.push({ message: null, note: `× expected ${expected}` });
        }
        last = message.at;
    }
    if (chosen.after > 0) {
        rows.push({ message: null, note: `${chosen.after} later` });
    }
    return rows;
}

/** An arrow with its words. */
function arrow(message: Message, its: Words, y: number, [client, server]: [number, number]): SVGElement {
    const [from, to] = message.isResponse ? [server, client] : [client, server];
    const back = to > from ? -7 : 7;
    const tone = message.isAccused ? "bad" : message.isResponse ? "response" : "request";
    // Words stand beside the client's line, which is where the sequences are told apart.
    return svg(
        "g",
        { class: `message ${tone}` },
        svg("line", { x1: from, x2: to, y1: y, y2: y }),
        svg("path", { d: `M${to},${y} l${back},-4 l0,8 z` }),
        svg("text", { x: client + 8, y: y - 4 }, cut(visible(words(message, its)), 26)),
    );
}

function drawing(model: LaneModel, chosen: Chosen, expected: string, its: Words): SVGElement {
    const rows = rowsOf(chosen, expected);
    const server = TIMES + chosen.lines.length * COLUMN;
    const first = chosen.messages[0]?.at ?? 0;
    const x = (line: number): number => TIMES + line * COLUMN;
    // What was expected may take more room than the messages.
    const own = chosen.messages.find((message) => message.isAccused)?.line ?? 0;
    const widest = x(own) + 16 + LETTER * Math.min(expected.length + 11, NOTE_MAX);
    const [width, height] = [Math.max(server + 60, widest), HEAD + rows.length * ROW + 10];
    const heads = chosen.lines.map(({ row, why }, place) =>
        svg(
            "g",
            {},
            svg("line", { class: "lifeline", x1: x(place), x2: x(place), y1: HEAD - 10, y2: height }),
            svg(
                "text",
                { class: "head", x: x(place) + 2, y: 14 },
                cut(`ID ${model.idOf(row)}, ${model.nameOf(row)}`, 30),
            ),
            svg("text", { class: "why", x: x(place) + 2, y: 30 }, WHY[why]),
        ),
    );
    const shapes = rows.map(({ message, note }, place): Child => {
        const y = HEAD + place * ROW + 14;
        if (message === null) {
            const isBad = note?.startsWith("×") === true;
            const line = rows[place - 1]?.message?.line ?? 0;
            return svg(
                "text",
                { class: isBad ? "note bad" : "note", x: isBad ? x(line) + 8 : 4, y: y - 2 },
                cut(visible(note ?? ""), NOTE_MAX),
            );
        }
        return svg(
            "g",
            {},
            svg(
                "text",
                { class: "time", x: TIMES - 10, y: y + 3, "text-anchor": "end" },
                `+${duration(message.at - first)}`,
            ),
            arrow(message, its, y, [x(message.line), server]),
        );
    });
    const label = `Chart of ${chosen.messages.length} messages between the client and the server, from ${moment(first, 1000)} on. The table of messages says the same.`;
    return svg(
        "svg",
        { class: "messages", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
        svg("line", { class: "lifeline server", x1: server, x2: server, y1: HEAD - 10, y2: height }),
        svg("text", { class: "head", x: server, y: 14, "text-anchor": "middle" }, "server"),
        ...heads,
        ...shapes,
    );
}

function messageTable(model: LaneModel, chosen: Chosen, its: Words): HTMLElement {
    const rows = chosen.messages.map((message): Child[] => [
        moment(message.at, 1000),
        `ID ${model.idOf(chosen.lines[message.line]?.row ?? 0)}`,
        message.step.requestId,
        message.isResponse ? "response" : "request",
        words(message, its) + (message.isAccused ? " (the violation)" : ""),
    ]);
    return table("Messages around the violation", ["at", "sequence", "request", "kind", "words"], rows, NO_NUMBERS);
}

/** The chart of the messages around a violation, with a table of the same. */
export function messageChart(model: LaneModel, chosen: Chosen, { seen, expected }: Values): Child[] {
    const hasSums = chosen.messages.some(({ step }) => step.answer !== null && step.outcome === "completed");
    const its = { seen, hasSums };
    return [
        h(
            "div",
            {
                class: "scroll",
                tabindex: "0",
                role: "group",
                "aria-label": "Chart of the messages around the violation",
            },
            drawing(model, chosen, expected, its),
        ),
        unfolding(["Messages as a table"], () => [messageTable(model, chosen, its)]),
    ];
}
