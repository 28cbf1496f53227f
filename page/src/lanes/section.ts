/** The section of the slots: the figure, its legend, what is certain of it, and a table of the lanes. */

import type { Result } from "../data.ts";
import { type Child, h, table, unfolding } from "../dom.ts";
import { counted, duration, moment, percent } from "../format.ts";
import { MARKS } from "./draw_marks.ts";
import { LanesFigure } from "./figure.ts";
import type { LaneModel } from "./model.ts";
import { unusedNotes } from "./unused.ts";

function swatch(name: string, words: string): HTMLElement {
    return h("span", {}, h("i", { class: `swatch ${name}` }), ` ${words}`);
}

function legend(model: LaneModel): HTMLElement {
    const marks = MARKS.filter(({ kind }) => model.marks.has(kind)).map(({ kind, letter, name }) =>
        h(
            "span",
            {},
            h("i", { class: `badge ${kind}` }, letter),
            ` ${name} (${model.marks.get(kind)?.indexes.length ?? 0})`,
        ),
    );
    return h(
        "p",
        { class: "legend" },
        swatch("wait", "START without a response"),
        swatch("held", "slot held, ended by END or replaced by another START"),
        swatch("wait", "slot held until the idle limit"),
        swatch("other", "cut, rejected, disturbed, or not known to be over"),
        swatch("bad", "sequence with a violation"),
        ...marks,
    );
}

/** What the figure shows, and what it does not. */
function notes(model: LaneModel, note: string | null): Child[] {
    const { data } = model;
    const late = model.marks.get("violation")?.at.filter((time) => time > model.until).length ?? 0;
    const sentences = [
        note,
        data.told
            ? null
            : "The model does not report its slots. So a lane is not a slot: each sequence is drawn in a free lane, for the time in which it certainly had a slot.",
        data.slots !== null && data.lanes > data.slots
            ? `There are more lanes (${data.lanes}) than slots (${data.slots}): more sequences than slots certainly had one at a time.`
            : null,
        data.gaps.length > 0
            ? `Hatched: no events are known in ${counted(data.gaps.length, "span")}, the first from ${moment(data.gaps[0]?.[0] ?? 0)} to ${moment(data.gaps[0]?.[1] ?? 0)}.`
            : null,
        data.left_out > 0
            ? `${counted(data.left_out, "sequence")} are left out, because the report has a bound.`
            : null,
        (data.marks_left_out ?? 0) > 0
            ? `${counted(data.marks_left_out ?? 0, "mark")} are left out, because the report has a bound.`
            : null,
        late > 0
            ? `${counted(late, "violation")} came after what is drawn: ${late === 1 ? "it concerns" : "they concern"} the whole run.`
            : null,
        model.waitsLeftOut > 0
            ? `${counted(model.waitsLeftOut, "wait")} are not drawn, because more sequences waited at a time than there are rows.`
            : null,
    ];
    return sentences.filter((words) => words !== null).map((words) => h("p", { class: "note" }, words));
}

/** What became of each lane, as a text alternative of the figure. */
function laneTable(model: LaneModel): HTMLElement {
    const whole = model.until - model.data.from_us;
    const rows = model.lanes.map((track, lane): Child[] => {
        let held = 0;
        let longest = 0;
        let idle = 0;
        let violations = 0;
        track.rows.forEach((row, place) => {
            const lasts = (track.ends[place] ?? 0) - (track.starts[place] ?? 0);
            held += lasts;
            longest = Math.max(longest, lasts);
            idle += model.endOf(row) === "idle" ? 1 : 0;
            violations += model.violationsOf(row);
        });
        return [lane, track.length, percent(held / whole), duration(longest), idle, violations];
    });
    const head = [
        model.data.told ? "slot" : "lane",
        "sequences",
        "held",
        "longest",
        "ended by the idle limit",
        "violations",
    ];
    return table("What became of each lane", head, rows);
}

/** How the sequences of each pattern ended. */
function endTable(model: LaneModel): HTMLElement {
    const { patterns, ends, sequences } = model.data;
    const counts = patterns.map(() => ends.map(() => 0));
    for (let row = 0; row < model.count; row += 1) {
        const of = counts[sequences.pattern[row] ?? -1];
        const end = sequences.end[row] ?? -1;
        if (of?.[end] !== undefined) {
            of[end] += 1;
        }
    }
    const rows = patterns.map((name, place): Child[] => [name, ...(counts[place] ?? [])]);
    return table("How the sequences of each pattern ended", ["pattern", ...ends], rows);
}

/** The content of the section; `figure` is missing where the report has no sequences. */
export function lanesSection(
    model: LaneModel,
    result: Result,
    violation: (index: number) => string | null,
): { content: Child[]; figure: LanesFigure } {
    const figure = new LanesFigure(model, violation);
    const content = [
        h(
            "p",
            {},
            "Above: STARTs that wait for their response. Below: the sequences that held the slots. Click a sequence for its steps. Drag to move, drag with Shift to zoom into a span.",
        ),
        ...notes(model, result.lanesNote),
        ...unusedNotes(model, (row) => {
            figure.zoomTo(row);
        }),
        figure.element,
        legend(model),
        unfolding(["Slots as a table"], () => [laneTable(model), endTable(model)]),
    ];
    return { content, figure };
}
