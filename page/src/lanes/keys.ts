/** Which sequence an arrow key goes to. */

import type { LaneModel } from "./model.ts";
import type { Span } from "../span.ts";

/** The first sequence that is in view, in the first lane that has one; `null` where none is. */
export function nearestTo(model: LaneModel, span: Span): number | null {
    for (const track of model.lanes) {
        const place = track.firstReaching(span.from);
        if ((track.starts[place] ?? Infinity) <= span.until) {
            return track.rows[place] ?? null;
        }
    }
    return null;
}

/** The sequence of another lane that is nearest in time to the beginning of a sequence. */
function inLane(model: LaneModel, row: number, lane: number): number | null {
    const time = model.heldAt(row) ?? model.beginOf(row);
    const track = model.lanes[lane];
    const place = track?.indexAt(time, Infinity);
    return place === undefined || place === null ? null : (track?.rows[place] ?? null);
}

/** The sequence to which an arrow key goes from another one; `null` where there is none. */
export function neighbourOf(model: LaneModel, row: number, key: string): number | null {
    const lane = model.laneOf(row);
    if (lane === null) {
        const next = key === "ArrowLeft" || key === "ArrowUp" ? row - 1 : row + 1;
        return next < 0 || next >= model.count ? null : next;
    }
    const { before, after } = model.neighbours(row);
    switch (key) {
        case "ArrowLeft":
            return before;
        case "ArrowRight":
            return after;
        default: {
            const step = key === "ArrowUp" ? -1 : 1;
            for (let other = lane + step; other >= 0 && other < model.lanes.length; other += step) {
                const found = inLane(model, row, other);
                if (found !== null) {
                    return found;
                }
            }
            return null;
        }
    }
}
