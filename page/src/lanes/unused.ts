/** Slots that had no sequence any more while STARTs waited: a slot that was lost looks so. */

import { button, type Child, h } from "../dom.ts";
import { duration, moment } from "../format.ts";
import type { LaneModel } from "./model.ts";
import { sentence } from "./panel.ts";

/** A slot is told of if it was not used for so much of the run. */
const PART = 0.25;
/** And if STARTs waited in it for so much of that time, those that waited at a time added up. */
const WAITED = 0.5;

export interface Unused {
    lane: number;
    /** From when on, in µs since the run began. */
    since: number;
    /** The row of its last sequence; `null` where it had none. */
    last: number | null;
    /** The longest time that a START waited meanwhile, in µs. */
    longest: number;
}

/** The slots that were not used up to the end although STARTs waited; none where the model does not report its slots. */
export function unusedSlots(model: LaneModel): Unused[] {
    const { data, until } = model;
    if (!data.told || data.gaps.length > 0) {
        return [];
    }
    return model.lanes.flatMap((track, lane): Unused[] => {
        const last = track.rows.at(-1) ?? null;
        if (last === null && data.left_out > 0) {
            return [];
        }
        const since = track.ends.reduce((latest, end) => Math.max(latest, end), data.from_us);
        let [waited, longest] = [0, 0];
        for (const waits of model.waits) {
            for (let place = waits.firstReaching(since); place < waits.length; place += 1) {
                const its = (waits.ends[place] ?? 0) - Math.max(since, waits.starts[place] ?? 0);
                waited += Math.max(0, its);
                longest = Math.max(longest, its);
            }
        }
        const unused = until - since;
        return unused < PART * (until - data.from_us) || waited < WAITED * unused
            ? []
            : [{ lane, since, last, longest }];
    });
}

/** Says which slots were not used, each with a button that shows its last sequence. */
export function unusedNotes(model: LaneModel, show: (row: number) => void): Child[] {
    return unusedSlots(model).map(({ lane, since, last, longest }) => {
        const span = moment(since, model.until - model.data.from_us);
        const waits = `STARTs waited meanwhile, the longest for ${duration(longest)}.`;
        return last === null
            ? h("p", { class: "note" }, `No sequence was ever in slot ${lane}. ${waits}`)
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
