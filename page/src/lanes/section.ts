/** The section of the slots: the figure, its legend, what is certain of it, and a table of the lanes. */

import type { Result, Stretch } from "../data.ts";
import { type Child, h, link, table, unfolding } from "../dom.ts";
import { counted, duration, moment, percent } from "../format.ts";
import { type JsonObject, list, number, object, text } from "../json.ts";
import { MARKS } from "./draw_marks.ts";
import { LanesFigure } from "./figure.ts";
import type { LaneModel } from "./model.ts";
import type { ViolationLink } from "./panel.ts";
import { slotsCheckOf, unusedNotes, unusedSlots } from "./unused.ts";

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
        swatch("idle", "slot held until the idle limit"),
        swatch("other", "cut, rejected, disturbed, or not known to be over"),
        swatch("bad", "sequence with a violation"),
        ...marks,
    );
}

/** Between which moments a model was loaded; nothing where one was loaded all the time. */
function between(model: LaneModel, { from_us, until_us }: Stretch): string {
    const span = model.until - model.data.from_us;
    return model.stretches.length === 1 ? "" : `From ${moment(from_us, span)} to ${moment(until_us, span)}: `;
}

/** What lanes are, and where there are too many: of each model that was loaded. */
function slotsNotes(model: LaneModel): string[] {
    const untold = model.stretches.filter((its) => !its.told);
    const isAll = untold.length === model.stretches.length;
    const drawn = "each sequence is drawn in a free lane, for the time in which it certainly had a slot.";
    return [
        ...(isAll
            ? [`The model does not report its slots. So a lane is not a slot: ${drawn}`]
            : untold.map(
                  (its) =>
                      `${between(model, its)}the model does not report its slots. A lane is not a slot then: ${drawn}`,
              )),
        ...model.stretches.flatMap((its) =>
            its.slots !== null && its.lanes > its.slots
                ? [
                      `${between(model, its)}There are more lanes (${its.lanes}) than slots (${its.slots}): more sequences than slots certainly had one at a time.`,
                  ]
                : [],
        ),
    ];
}

/** What the violations concern that came after what is drawn. */
function lateNote(model: LaneModel, result: Result): string | null {
    const violations = list(result.document["violations"]).map(object);
    const late = [...(model.marks.get("violation")?.indexes ?? [])]
        .map((index) => model.mark(index))
        .filter(({ at }) => at > model.until)
        .map(({ violation }) => violations[violation ?? -1])
        .map((its) => text(its?.["aside"]) ?? ((text(its?.["kind"]) ?? "").startsWith("slot-") ? "slot-check" : null));
    const words = new Map<string, string>([
        ["slot-check", "from the check of the slots after the run"],
        ["idle-search", "from the search for the idle limit after the run"],
    ]);
    const parts = [...words].map(([purpose, its]) => [late.filter((aside) => aside === purpose).length, its] as const);
    const rest = late.filter((aside) => aside === null || !words.has(aside)).length;
    const said = [
        ...parts
            .filter(([many]) => many > 0)
            .map(([many, its]) => `${counted(many, "violation")} ${many === 1 ? "is" : "are"} ${its}`),
        ...(rest > 0 ? [`${counted(rest, "violation")} ${rest === 1 ? "concerns" : "concern"} the whole run`] : []),
    ];
    return said.length === 0 ? null : `After what is drawn: ${said.join("; ")}.`;
}

/** That the slots were checked after the run, and how long that took. */
function checkNote(document: JsonObject): string | null {
    const check = object(document["slots_check"]);
    const [took, requests] = [number(check["took_us"]), number(check["requests"])];
    const elapsed = number(document["elapsed_s"]);
    return took === null || elapsed === null
        ? null
        : `After the run, which ended at ${duration(elapsed * 1e6)}, the tool checked the slots in ${duration(took)}${requests === null ? "" : ` with ${counted(requests, "request")}`}. These requests are not drawn.`;
}

/** What the figure shows, and what it does not. */
function notes(model: LaneModel, result: Result): Child[] {
    const { data } = model;
    const sentences = [
        result.lanesNote,
        checkNote(result.document),
        ...slotsNotes(model),
        data.gaps.length > 0
            ? `Hatched: no events are known in ${counted(data.gaps.length, "span")}, the first from ${moment(data.gaps[0]?.[0] ?? 0)} to ${moment(data.gaps[0]?.[1] ?? 0)}.`
            : null,
        data.left_out > 0
            ? `${counted(data.left_out, "sequence")} are left out, because the report has a bound.`
            : null,
        (data.marks_left_out ?? 0) > 0
            ? `${counted(data.marks_left_out ?? 0, "mark")} are left out, because the report has a bound.`
            : null,
        lateNote(model, result),
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
    const used = counts.map((its) => its.some((many) => many > 0));
    const seen = ends.map((_, end) => counts.some((its) => (its[end] ?? 0) > 0));
    const kept = <Item>(items: readonly Item[]): Item[] => items.filter((_, end) => seen[end]);
    const rows = patterns
        .map((name, place): Child[] => [name, ...kept(counts[place] ?? [])])
        .filter((_, place) => used[place]);
    return table("How the sequences of each pattern ended", ["pattern", ...kept(ends)], rows);
}

/** The content of the section; `figure` is missing where the report has no sequences. */
export function lanesSection(
    model: LaneModel,
    result: Result,
    violation: ViolationLink,
): { content: Child[]; figure: LanesFigure } {
    const figure = new LanesFigure(model, violation);
    const check = slotsCheckOf(result.document);
    const leak = list(result.document["violations"]).findIndex((its) => object(its)["kind"] === "slot-leak");
    const its = leak < 0 ? null : violation(leak);
    const toLeak = its === null ? null : link(its.id, its.words);
    const lost = unusedNotes(model, unusedSlots(model, check), check.lost, toLeak, (row) => {
        figure.zoomTo(row);
    });
    const content = [
        h(
            "p",
            {},
            "Above: STARTs that wait for their response. Below: the sequences that held the slots. A bar shows only the time in which a sequence certainly held its slot, so a slot may be taken beside a bar, too. Click a sequence for its steps. Drag to move, drag with Shift to zoom into a span.",
        ),
        ...notes(model, result),
        ...lost,
        figure.element,
        legend(model),
        unfolding(["Slots as a table"], () => [laneTable(model), endTable(model)]),
    ];
    return { content, figure };
}
