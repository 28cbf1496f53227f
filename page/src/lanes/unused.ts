/** Slots that had no sequence any more while STARTs waited: a slot that was lost looks so. */

import { button, type Child, h } from "../dom.ts";
import { counted, moment, percent } from "../format.ts";
import { type JsonObject, number, object, text } from "../json.ts";
import type { LaneModel } from "./model.ts";
import { sentence } from "./panel.ts";
import type { Track } from "./track.ts";

/** A slot looks lost if it was not used for so much of what is known of the model that was loaded last. */
const PART = 0.25;
/** And if in so much of that time a START waited while all other slots were held. */
const WAITED = 0.1;
/** At so many moments of that time it is looked. */
const LOOKS = 500;

export interface Unused {
    lane: number;
    /** From when on, in µs since the run began. */
    since: number;
    /** The row of its last sequence; `null` where it had none. */
    last: number | null;
    /** In which part of the time since then a START waited while all other slots were held. */
    waited: number;
    /** Whether that alone shows it; else only the check of the slots after the run says that one more slot is lost. */
    isSure: boolean;
}

/** What the check of the slots after the run found. */
export interface SlotsCheck {
    /** Whether it found every slot free. */
    areAllFree: boolean;
    /** How many it found lost. */
    lost: number;
}

const NOT_CHECKED: SlotsCheck = { areAllFree: false, lost: 0 };

export function slotsCheckOf(document: JsonObject): SlotsCheck {
    const its = object(document["slots_check"]);
    const result = text(its["result"]);
    return {
        areAllFree: result === "all-there",
        lost: result === "leaked" ? (number(its["leaked"]) ?? 0) : 0,
    };
}

function isIn(track: Track, time: number): boolean {
    const place = track.firstReaching(time);
    return place < track.length && (track.starts[place] ?? Infinity) <= time;
}

/** The part of the time since a slot had its last sequence in which a START waited while all slots were held but those that may be lost. */
function waitedFor(model: LaneModel, tracks: readonly Track[], since: number, mayBeLost: readonly boolean[]): number {
    let waited = 0;
    for (let look = 0; look < LOOKS; look += 1) {
        const time = since + ((model.until - since) * (look + 0.5)) / LOOKS;
        const areHeld = tracks.every((track, lane) => mayBeLost[lane] === true || isIn(track, time));
        waited += areHeld && model.waits.some((wait) => isIn(wait, time)) ? 1 : 0;
    }
    return waited / LOOKS;
}

/**
 * The slots of the model that was loaded last that were not used up to the end although a START could have had them: none where the model
 * does not report its slots, where sequences are left out, or where all slots were free after the run. A START that only waits for its
 * response does not count: other slots are free then. If the check of the slots found more lost slots, those that were not used for a
 * shorter time are among them.
 */
export function unusedSlots(model: LaneModel, check: SlotsCheck = NOT_CHECKED): Unused[] {
    const { data, stretches } = model;
    const stretch = stretches.at(-1);
    if (stretch?.told !== true || data.left_out > 0 || check.areAllFree) {
        return [];
    }
    // Nobody knows what was in a slot during a gap.
    const from = data.gaps.reduce((latest, [, end]) => Math.max(latest, end), stretch.from_us);
    const tracks = model.lanes.slice(0, stretch.slots ?? stretch.lanes).map((track) => track.from(stretch.from_us));
    const idle = tracks.map((track) => track.ends.reduce((latest, end) => Math.max(latest, end), from));
    const isLong = idle.map((since) => model.until > since && model.until - since >= PART * (model.until - from));
    const unused = (lane: number, mayBeLost: readonly boolean[], isSure: boolean): Unused[] => {
        const since = idle[lane] ?? from;
        // That no slot is used is no loss of one.
        const waited = mayBeLost.every((may) => may) ? 0 : waitedFor(model, tracks, since, mayBeLost);
        const last = tracks[lane]?.rows.at(-1) ?? null;
        return waited < WAITED ? [] : [{ lane, since, last, waited, isSure }];
    };
    const sure = tracks.flatMap((_, lane) => (isLong[lane] === true ? unused(lane, isLong, true) : []));
    const shorter = tracks
        .map((_, lane) => lane)
        .filter((lane) => isLong[lane] !== true && (idle[lane] ?? from) < model.until)
        .sort((a, b) => (idle[a] ?? from) - (idle[b] ?? from))
        .flatMap((lane) =>
            unused(
                lane,
                idle.map((since) => since <= (idle[lane] ?? from)),
                false,
            ),
        );
    return [...sure, ...shorter.slice(0, Math.max(0, check.lost - sure.length))];
}

/** A slot that looks lost, in a sentence. */
function words(model: LaneModel, { lane, since, last, waited, isSure }: Unused): string {
    const span = moment(since, model.until - model.data.from_us);
    if (!isSure) {
        return `Slot ${lane}: no sequence since ${span}, too short to be sure.`;
    }
    const waits = `In ${percent(waited)} of the time since then a START waited while all other slots were held.`;
    return last === null
        ? `No sequence was in slot ${lane} from ${span} on. ${waits}`
        : `No sequence was in slot ${lane} after ${span}. ${waits}`;
}

/** The slots that look lost, in a few words. */
export function unusedWords(model: LaneModel, unused: readonly Unused[]): string {
    const since = (us: number): string => moment(us, model.until - model.data.from_us);
    return unused
        .map((its) => `slot ${its.lane} since ${since(its.since)}${its.isSure ? "" : " (too short to be sure)"}`)
        .join(", ");
}

/** Says which slots were not used, each with a button that shows its last sequence, and what the check after the run found. */
export function unusedNotes(
    model: LaneModel,
    unused: readonly Unused[],
    lost: number,
    violation: Child,
    show: (row: number) => void,
): Child[] {
    const found =
        lost === 0
            ? null
            : h(
                  "p",
                  { class: "note" },
                  `The check of the slots after the run counted ${counted(lost, "lost slot")}`,
                  violation !== null && ": ",
                  violation,
                  ".",
              );
    return [
        found,
        ...unused.map((its) =>
            h(
                "p",
                { class: "note" },
                words(model, its),
                its.last !== null && ` The last one in it: ${sentence(model, its.last)}. `,
                its.last !== null &&
                    button("Show it", () => {
                        show(its.last ?? 0);
                    }),
            ),
        ),
    ];
}
