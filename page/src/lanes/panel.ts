/** The panel of one sequence: what became of it, and its steps with values and latencies. */

import { type Cell, type Child, button, fill, h, link, tableOfUsed } from "../dom.ts";
import { counted, duration, moment } from "../format.ts";
import type { LaneModel, Step } from "./model.ts";

/** The most steps that the panel lists at first. */
const STEPS_SHOWN = 200;

/** How a sequence ended, in words. */
const ENDS: Readonly<Record<string, string>> = {
    ended: "ended: the server answered END",
    idle: "the idle limit ended it",
    rejected: "the server rejected it",
    cut: "the client cut its stream",
    replaced: "another START on its correlation ID replaced it",
    disturbed: "a reload or restart of the server ended it",
    open: "not known to be over",
};

export interface Links {
    /** Chooses another sequence. */
    choose: (row: number) => void;
    close: () => void;
    violation: ViolationLink;
}

/** The element of a violation, and the violation in a few words; `null` where the page has none. */
export type ViolationLink = (index: number) => { id: string; words: string } | null;

/** How a sequence ended: of one that the server rejected later, at which step. */
function endWords(model: LaneModel, row: number): string {
    const end = model.endOf(row);
    const count = end === "rejected" && model.heldAt(row) !== null ? (model.stepRange(row)?.count ?? 0) : 0;
    for (let place = 0; place < count; place += 1) {
        const step = model.step(row, place);
        if (step !== null && step.outcome !== "completed") {
            return `the server rejected step ${step.number + 1} of it`;
        }
    }
    return count > 0 ? "the server rejected a later step of it" : (ENDS[end] ?? end);
}

function fact(name: string, ...value: Child[]): HTMLElement {
    return h("div", {}, h("dt", {}, name), h("dd", {}, ...value));
}

/** A sentence that says all, for screen readers and tooltips. */
export function sentence(model: LaneModel, row: number): string {
    const held = model.heldAt(row);
    const lane = model.laneOf(row);
    const where =
        lane === null
            ? held === null
                ? "never certainly had a slot"
                : "slot not known"
            : `${model.data.told ? "slot" : "lane"} ${lane}`;
    const found = model.violationsOf(row);
    return [
        `correlation ID ${model.idOf(row)}, sequence ${model.nameOf(row)}`,
        model.patternOf(row),
        where,
        `START sent at ${moment(model.beginOf(row), 1000)}`,
        `waited ${duration(model.waitEnd(row) - model.beginOf(row))}`,
        held === null ? null : `held ${duration(model.overAt(row) - held)}`,
        endWords(model, row),
        found > 0 ? counted(found, "violation") : null,
    ]
        .filter((part) => part !== null)
        .join(", ");
}

function stepRow(model: LaneModel, step: Step, row: number): Cell[] {
    const flags = [step.isStart && "START", step.isEnd && "END"].filter((flag) => flag !== false).join(" ");
    const isError = step.outcome !== "completed" && step.answer !== null;
    const short = (words: string): Cell => ({ cell: words, class: "short" });
    const figure = (words: string): Cell => ({ cell: words, class: "number" });
    return [
        short(step.requestId),
        short(flags),
        short(step.value === null ? "–" : String(step.value)),
        short(isError ? "error" : step.answer === null ? "–" : String(step.answer)),
        short(step.outcome),
        figure(`+${duration(step.sentAt - model.beginOf(row))}`),
        figure(step.took === null ? "no response" : duration(step.took)),
        figure(step.slot === null ? "–" : String(step.slot)),
        isError ? { cell: String(step.answer), class: "words" } : "",
    ];
}

function steps(model: LaneModel, row: number, most: number): Child[] {
    const range = model.stepRange(row);
    if (range === null) {
        return [h("p", {}, "The report does not have the steps of this sequence.")];
    }
    const rows = Array.from({ length: Math.min(range.count, most) }, (_, place) => model.step(row, place))
        .filter((step) => step !== null)
        .map((step) => stepRow(model, step, row));
    const head = ["request", "flags", "value", "response", "outcome", "sent after START", "latency", "slot", "error"];
    return [tableOfUsed(`Steps of sequence ${model.nameOf(row)}`, head, rows)];
}

/** The violations that name a sequence, as links. */
function violations(model: LaneModel, row: number, links: Links): Child[] {
    const found: Child[] = [];
    for (const index of model.marks.get("violation")?.indexes ?? []) {
        const mark = model.mark(index);
        if (mark.sequence === row && mark.violation !== null) {
            const its = links.violation(mark.violation);
            const words = `violation ${mark.violation + 1}, which the result does not list`;
            found.push(h("li", {}, its === null ? words : link(its.id, its.words)));
        }
    }
    return found.length === 0 ? [] : [h("h5", {}, "Violations"), h("ul", {}, ...found)];
}

function others(model: LaneModel, row: number, links: Links): Child {
    const { before, after } = model.neighbours(row);
    const ofId = model.rowsOfId(model.idOf(row));
    const place = ofId.indexOf(row);
    const name = model.data.told ? "slot" : "lane";
    const choices: [string, number | null | undefined][] = [
        [`before in this ${name}`, before],
        [`next in this ${name}`, after],
        ["earlier of this ID", ofId[place - 1]],
        ["later of this ID", ofId[place + 1]],
    ];
    const buttons = choices.map(([words, other]) =>
        other === null || other === undefined
            ? null
            : button(`${words}: ${model.idOf(other)}`, () => {
                  links.choose(other);
              }),
    );
    return h("div", { class: "buttons" }, ...buttons);
}

/** How many steps are here. */
function stepsOf(count: number, sent: number): string {
    return count < sent ? `${count} of ${sent}: the report has a bound` : String(count);
}

/** Shows a sequence in the panel. */
export function show(panel: HTMLElement, model: LaneModel, row: number, links: Links): void {
    const held = model.heldAt(row);
    const lane = model.laneOf(row);
    const range = model.stepRange(row);
    const all = h("div", {}, ...steps(model, row, STEPS_SHOWN));
    const left = (range?.count ?? 0) - STEPS_SHOWN;
    fill(
        panel,
        h(
            "div",
            { class: "panel-head" },
            h("h4", {}, `Sequence ${model.nameOf(row)}, correlation ID ${model.idOf(row)}`),
            button("Close", links.close),
        ),
        h(
            "dl",
            { class: "facts" },
            fact("pattern", model.patternOf(row)),
            fact("end", endWords(model, row)),
            fact(
                model.data.told ? "slot" : "drawn in lane",
                lane ?? (held === null ? "it never certainly had one" : "not known"),
            ),
            fact("START sent", moment(model.beginOf(row), 1000)),
            fact("wait for the response to START", duration(model.waitEnd(row) - model.beginOf(row))),
            fact("slot certainly held", held === null ? "never" : duration(model.overAt(row) - held)),
            fact("steps", range === null ? "not in the report" : stepsOf(range.count, model.sentBy(row))),
        ),
        ...violations(model, row, links),
        others(model, row, links),
        all,
        left > 0 &&
            button(`Show ${left} more steps`, () => {
                fill(all, ...steps(model, row, Infinity));
            }),
    );
    panel.hidden = false;
}
