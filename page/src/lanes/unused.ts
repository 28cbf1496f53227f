/** Slots that had no sequence any more while STARTs waited: a slot that was lost looks so. */

import { button, type Child, h } from "../dom.ts";
import { moment, percent } from "../format.ts";
import type { LaneModel } from "./model.ts";
import { sentence } from "./panel.ts";
import type { Track } from "./track.ts";

/** A slot is told of if it was not used for so much of what is known of the run. */
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
}

function isIn(track: Track, time: number): boolean {
    const place = track.firstReaching(time);
    return place < track.length && (track.starts[place] ?? Infinity) <= time;
}

/**
 * The slots that were not used up to the end although a START could have had them: none where the model does not report its slots, or where
 * sequences are left out. A START that only waits for its response does not count: other slots are free then.
 */
export function unusedSlots(model: LaneModel): Unused[] {
    const { data, until } = model;
    if (!data.told || data.left_out > 0) {
        return [];
    }
    // Nobody knows what was in a slot during a gap.
    const from = data.gaps.reduce((latest, [, end]) => Math.max(latest, end), data.from_us);
    const idle = model.lanes.map((track) => track.ends.reduce((latest, end) => Math.max(latest, end), from));
    const candidates = idle.map((since) => until - since >= PART * (until - from) && until > since);
    return model.lanes.flatMap((track, lane): Unused[] => {
        if (candidates[lane] !== true) {
            return [];
        }
        const since = idle[lane] ?? from;
        let waited = 0;
        for (let look = 0; look < LOOKS; look += 1) {
            const time = since + ((until - since) * (look + 0.5)) / LOOKS;
            // Of several lost slots none is held.
            const areHeld = model.lanes.every((other, place) => candidates[place] === true || isIn(other, time));
            waited += areHeld && model.waits.some((wait) => isIn(wait, time)) ? 1 : 0;
        }
        const isAll = candidates.every((candidate) => candidate);
        return isAll || waited < WAITED * LOOKS
            ? []
            : [{ lane, since, last: track.rows.at(-1) ?? null, waited: waited / LOOKS }];
    });
}

/** Says which slots were not used, each with a button that shows its last sequence. */
export function unusedNotes(model: LaneModel, show: (row: number) => void): Child[] {
    return unusedSlots(model).map(({ lane, since, last, waited }) => {
        const span = moment(since, model.until - model.data.from_us);
        const waits = `In ${percent(waited)} of the time since then a START waited while all other slots were held.`;
        return last === null
            ? h("p", { class: "note" }, `No sequence was in slot ${lane} from ${span} on. ${waits}`)
            : h(
                  "p",
                  { class: "note" },
                  `No sequence was in slot ${lane} after ${span}. ${waits} The last one in it: ${sentence(model, last)}. `,
                  button("Show it", () => {
                      show(last);
                  }),
              );
    });
}
