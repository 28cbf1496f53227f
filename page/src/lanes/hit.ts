/** What is at a place of the figure. */

import { duration, moment } from "../format.ts";
import { Scale, type Scene } from "./draw.ts";
import { markAt } from "./draw_marks.ts";
import { stepLabel } from "./draw_steps.ts";
import { sentence } from "./panel.ts";

export interface Hit {
    /** The row of the sequence. */
    row: number | null;
    words: string | null;
}

/** A thing may be missed by so many pixels. */
const NEAR = 5;
/** The most steps of a sequence among which the one at the pointer is looked for. */
const STEPS_MAX = 2000;

function stepWords({ model }: Scene, row: number, time: number, near: number): string {
    const count = Math.min(model.stepRange(row)?.count ?? 0, STEPS_MAX);
    let best = "";
    let distance = near;
    for (let place = 0; place < count; place += 1) {
        const step = model.step(row, place);
        const off = Math.abs((step?.answeredAt ?? step?.sentAt ?? Infinity) - time);
        if (step !== null && off <= distance) {
            distance = off;
            best = `; step ${step.requestId}: ${stepLabel(step)}, ${step.took === null ? "no response" : duration(step.took)}`;
        }
    }
    return best;
}

export function hit(scene: Scene, x: number, y: number): Hit {
    const { model, layout, span } = scene;
    const scale = new Scale(layout, span);
    if (x < layout.left) {
        return { row: null, words: null };
    }
    const time = scale.at(x);
    const near = NEAR * scale.usPerPixel;
    const markRow = layout.markRowAt(y);
    if (markRow !== null) {
        const index = markAt(scene, markRow, time, 8 * scale.usPerPixel);
        const mark = index === null ? null : model.mark(index);
        return {
            row: mark?.sequence ?? null,
            words:
                mark === null
                    ? null
                    : `${mark.kind} at ${moment(mark.at, 1000)}${mark.text === "" ? "" : `: ${mark.text}`}`,
        };
    }
    const wait = layout.waitAt(y);
    const lane = layout.laneAt(y);
    const track = wait !== null ? model.waits[wait] : lane !== null ? model.lanes[lane] : undefined;
    const place = track?.indexAt(time, near) ?? null;
    const row = place === null ? null : (track?.rows[place] ?? null);
    if (row === null) {
        return { row, words: null };
    }
    return { row, words: sentence(model, row) + (lane === null ? "" : stepWords(scene, row, time, near)) };
}
