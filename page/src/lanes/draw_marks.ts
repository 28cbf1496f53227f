/** Draws what happened at one moment: reaps, cancels, cuts, violations, restarts, phases and faults. */

import { cut, visible } from "../format.ts";
import type { ColourName } from "../theme.ts";
import { type MarkRow, markRowOf } from "./layout.ts";
import type { Scale, Scene } from "./draw.ts";
import { firstFrom } from "./track.ts";

/** A letter and a colour for each kind, in the order in which they are drawn: the last one lies on top. */
export const MARKS: readonly { kind: string; letter: string; colour: ColourName; name: string; isOfServer: boolean }[] =
    [
        { kind: "phase", letter: "P", colour: "muted", name: "phase", isOfServer: true },
        { kind: "cut", letter: "x", colour: "other", name: "stream cut", isOfServer: false },
        { kind: "cancel", letter: "c", colour: "other", name: "cancel", isOfServer: false },
        { kind: "reap", letter: "r", colour: "waiting", name: "idle limit frees the slot", isOfServer: false },
        { kind: "reload", letter: "L", colour: "text", name: "reload of the model", isOfServer: true },
        { kind: "restart", letter: "R", colour: "text", name: "restart of the server", isOfServer: true },
        { kind: "fault", letter: "F", colour: "bad", name: "planted fault", isOfServer: true },
        { kind: "violation", letter: "!", colour: "bad", name: "violation", isOfServer: false },
    ];

/** The least distance of two marks of a kind in pixels. */
const APART = 9;
/** Marks within the lanes are drawn if no more than so many of a kind are in view. */
const IN_LANES_MAX = 400;

function badge(
    context: CanvasRenderingContext2D,
    x: number,
    y: number,
    letter: string,
    colour: string,
    ink: string,
): void {
    context.fillStyle = colour;
    context.beginPath();
    context.arc(x, y, 6.5, 0, 2 * Math.PI);
    context.fill();
    context.fillStyle = ink;
    context.textAlign = "center";
    context.fillText(letter, x, y + 0.5);
    context.textAlign = "left";
}

/** Draws a mark where its sequence is, or through all lanes where the server is concerned. */
function drawInLanes(
    context: CanvasRenderingContext2D,
    scene: Scene,
    x: number,
    index: number,
    kind: (typeof MARKS)[number],
): void {
    const { model, layout, colours } = scene;
    const mark = model.mark(index);
    context.strokeStyle = colours[kind.colour];
    context.lineWidth = kind.kind === "violation" ? 2 : 1;
    context.beginPath();
    const lane = mark.sequence === null ? null : model.laneOf(mark.sequence);
    if (lane !== null && lane >= layout.firstLane && lane < layout.firstLane + layout.seen) {
        context.moveTo(x, layout.laneTop(lane) - 1);
        context.lineTo(x, layout.laneTop(lane) + layout.laneHeight - 2);
    } else if (mark.sequence === null && kind.isOfServer) {
        context.setLineDash([4, 3]);
        context.moveTo(x, layout.marks.top);
        context.lineTo(x, layout.height);
    }
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 1;
}

/** The names of the phases, each as far as there is room before the next one. */
function drawPhases(context: CanvasRenderingContext2D, scene: Scene, scale: Scale): void {
    const { model, layout, span, colours } = scene;
    const band = layout.markRows.get("phase");
    const its = model.marks.get("phase");
    if (band === undefined || its === undefined) {
        return;
    }
    its.at.forEach((from, place) => {
        const until = its.at[place + 1] ?? span.until;
        if (until < span.from || from > span.until) {
            return;
        }
        const left = Math.max(layout.left, scale.x(from)) + (from < span.from ? 2 : 9);
        const right = Math.min(layout.width, scale.x(until)) - 9;
        context.fillStyle = colours.text;
        const words = visible(model.mark(its.indexes[place] ?? 0).text);
        context.fillText(cut(words, Math.floor((right - left) / 6.5)), left, band.top + band.height / 2);
    });
}

export function drawMarks(context: CanvasRenderingContext2D, scene: Scene, scale: Scale): void {
    const { model, layout, span, colours } = scene;
    drawPhases(context, scene, scale);
    for (const kind of MARKS) {
        const its = model.marks.get(kind.kind);
        const band = layout.markRows.get(markRowOf(kind.kind));
        if (its === undefined || band === undefined) {
            continue;
        }
        const middle = band.top + band.height / 2;
        const first = firstFrom(its.at, span.from);
        const last = firstFrom(its.at, span.until);
        if (last - first <= IN_LANES_MAX) {
            for (let place = first; place < last; place += 1) {
                drawInLanes(context, scene, scale.x(its.at[place] ?? 0), its.indexes[place] ?? 0, kind);
            }
        }
        for (let place = first; place < last;) {
            const time = its.at[place] ?? 0;
            badge(context, scale.x(time), middle, kind.letter, colours[kind.colour], colours.surface);
            place = Math.max(place + 1, firstFrom(its.at, time + APART * scale.usPerPixel));
        }
    }
}

/** The index of the mark of a row that is nearest to a moment, within `near` µs; those drawn last come first. */
export function markAt(scene: Scene, row: MarkRow, time: number, near: number): number | null {
    for (const { kind } of MARKS.filter((its) => markRowOf(its.kind) === row).reverse()) {
        const its = scene.model.marks.get(kind);
        const place = its === undefined ? 0 : firstFrom(its.at, time - near);
        if (its !== undefined && (its.at[place] ?? Infinity) <= time + near) {
            return its.indexes[place] ?? null;
        }
    }
    return null;
}
