/** Draws the steps of a sequence that is wide enough. */

import { cut, visible } from "../format.ts";
import type { Scale, Scene } from "./draw.ts";
import type { Step } from "./model.ts";

interface Box {
    top: number;
    height: number;
    left: number;
    right: number;
}

/** From so many pixels between two responses on, the values are written. */
const VALUES_FROM = 56;

/** What a step sent and what came back, in few characters. */
export function stepLabel(step: Step): string {
    const flags = `${step.isStart ? "START " : ""}${step.isEnd ? "END " : ""}`;
    const answer = step.answer === null ? step.outcome : String(step.answer);
    return `${flags}${step.value === null ? "" : String(step.value)} = ${answer}`;
}

/**
 * Draws each step as a line from sending to the response, where a tick is. Steps whose ticks fall on one pixel are drawn once. Returns how
 * many were drawn.
 */
export function drawSteps(
    context: CanvasRenderingContext2D,
    scene: Scene,
    scale: Scale,
    row: number,
    box: Box,
): number {
    const { model, colours } = scene;
    const count = model.stepRange(row)?.count ?? 0;
    // Dark letters cannot be read on the red of a sequence with a violation.
    const ink = model.violationsOf(row) > 0 ? colours.surface : colours["held-text"];
    let drawn = 0;
    let last = -Infinity;
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, Math.max(1, box.right - box.left), box.height);
    context.clip();
    context.textAlign = "left";
    for (let place = 0; place < count; place += 1) {
        const step = model.step(row, place);
        if (step === null || step.sentAt > scene.span.until) {
            break;
        }
        const sent = scale.x(step.sentAt);
        const x = Math.round(scale.x(step.answeredAt ?? step.sentAt));
        if (x < box.left - 400 || x === last) {
            continue;
        }
        const isFine = step.outcome === "completed";
        context.fillStyle = ink;
        context.globalAlpha = 0.25;
        const from = Math.max(sent, last, box.left);
        context.fillRect(from, box.top + box.height - 4, Math.max(1, x - from), 3);
        context.globalAlpha = 1;
        context.fillStyle = isFine || model.violationsOf(row) > 0 ? ink : colours.bad;
        context.globalAlpha = isFine ? 0.6 : 1;
        context.fillRect(x - 1, box.top, isFine ? 1 : 2, box.height);
        context.globalAlpha = 1;
        const room = x - Math.max(last, box.left) - 8;
        if (room >= VALUES_FROM) {
            context.fillStyle = ink;
            context.fillText(
                cut(visible(stepLabel(step)), Math.floor(room / 6.5)),
                x - room - 2,
                box.top + box.height / 2,
            );
        }
        last = x;
        drawn += 1;
    }
    context.restore();
    return drawn;
}
