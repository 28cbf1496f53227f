/** Draws the lanes. What is drawn is found by binary search, at most one thing for each pixel. */

import { axisMoment, cut, duration, moment } from "../format.ts";
import { type ColourName, type Colours, FONT } from "../theme.ts";
import { Bars } from "./bars.ts";
import type { Layout } from "./layout.ts";
import type { LaneModel } from "./model.ts";
import { type Span, ticks } from "../span.ts";
import { drawMarks } from "./draw_marks.ts";
import { drawSteps } from "./draw_steps.ts";

/** What is drawn. */
export interface Scene {
    model: LaneModel;
    layout: Layout;
    span: Span;
    colours: Colours;
    /** The row of the chosen sequence. */
    selected: number | null;
    /** The pattern whose sequences stand out; `null` for all. */
    pattern: number | null;
}

/** How many things were drawn. */
export interface Drawn {
    sequences: number;
    steps: number;
}

/** From so many pixels on a sequence has its correlation ID written on it. */
const LABEL_FROM = 44;
/** From so many pixels for a step on, the steps are drawn. */
const STEPS_FROM = 5;
/** Below so many pixels a sequence is only a bar. */
const NARROW = 4;

const FILLS: Readonly<Record<string, ColourName>> = {
    ended: "held",
    replaced: "held",
    idle: "idle",
    rejected: "other",
    cut: "other",
    open: "other",
};

/** Turns moments into pixels. */
export class Scale {
    readonly usPerPixel: number;

    constructor(
        readonly layout: Layout,
        readonly span: Span,
    ) {
        this.usPerPixel = span.length / layout.plotWidth;
    }

    x(us: number): number {
        return this.layout.left + (us - this.span.from) / this.usPerPixel;
    }

    at(x: number): number {
        return this.span.from + (x - this.layout.left) * this.usPerPixel;
    }
}

function drawAxis(context: CanvasRenderingContext2D, scene: Scene, scale: Scale): void {
    const { layout, span, colours } = scene;
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const time of ticks(span.from, span.until, layout.plotWidth / 110, 1e6)) {
        const x = Math.round(scale.x(time)) + 0.5;
        context.strokeStyle = colours.line;
        context.beginPath();
        context.moveTo(x, 0);
        context.lineTo(x, layout.height);
        context.stroke();
        context.fillStyle = colours.muted;
        context.fillText(axisMoment(time, span.length), x + 4, layout.axis.height / 2);
    }
}

function drawLabels(context: CanvasRenderingContext2D, { model, layout, colours }: Scene): void {
    const isNarrow = layout.left < 40;
    const name = model.data.told ? "slot" : "lane";
    context.textAlign = "left";
    context.fillStyle = colours.surface;
    context.fillRect(0, 0, layout.left, layout.height);
    context.fillStyle = colours.muted;
    context.fillText(isNarrow ? "wait" : "waiting", 0, layout.waits.top + layout.waits.height / 2);
    for (let lane = layout.firstLane; lane < Math.min(model.lanes.length, layout.firstLane + layout.seen); lane += 1) {
        const middle = layout.laneTop(lane) + layout.laneHeight / 2;
        context.fillText(isNarrow ? String(lane) : `${name} ${lane}`, 0, middle);
    }
}

/** Hatches the spans of which the report knows nothing. */
function drawGaps(context: CanvasRenderingContext2D, { model, layout, colours, span }: Scene, scale: Scale): void {
    context.strokeStyle = colours.line;
    for (const [from, until] of model.data.gaps) {
        if (until < span.from || from > span.until) {
            continue;
        }
        const left = Math.max(layout.left, scale.x(from));
        const right = Math.min(layout.width, scale.x(until));
        context.save();
        context.beginPath();
        context.rect(left, layout.marks.top, Math.max(1, right - left), layout.height - layout.marks.top);
        context.clip();
        context.beginPath();
        for (let x = left - layout.height; x < right; x += 8) {
            context.moveTo(x, layout.height);
            context.lineTo(x + layout.height, 0);
        }
        context.stroke();
        context.restore();
    }
}

/** The lanes that there are: a model that is loaded anew may have more or fewer slots. */
function drawLanes(context: CanvasRenderingContext2D, { model, layout, span }: Scene, scale: Scale): void {
    const last = model.stretches.length - 1;
    model.stretches.forEach(({ from_us: from, until_us: until, lanes }, place) => {
        const left = place === 0 ? layout.left : Math.max(layout.left, scale.x(from));
        const right = place === last ? layout.width : Math.min(layout.width, scale.x(until));
        if (until < span.from || from > span.until || right <= left) {
            return;
        }
        for (let lane = layout.firstLane; lane < Math.min(lanes, layout.firstLane + layout.seen); lane += 1) {
            context.fillRect(left, layout.laneTop(lane), right - left, layout.laneHeight - 3);
        }
    });
}

function drawWaits(context: CanvasRenderingContext2D, scene: Scene, scale: Scale): number {
    const { model, layout, span, colours } = scene;
    let drawn = 0;
    model.waits.forEach((track, place) => {
        const top = layout.waits.top + place * layout.waitHeight;
        const height = Math.max(1, layout.waitHeight - 1);
        const bars = new Bars(context, top, height);
        drawn += track.visit(span.from, span.until, scale.usPerPixel, (row, start, end) => {
            const left = Math.max(scale.x(start), layout.left);
            const right = Math.max(left + 1, Math.min(scale.x(end), layout.width));
            const colour = model.violationsOf(row) > 0 ? colours.bad : colours.waiting;
            bars.add(left, right, colour, isDim(scene, row) ? 0.15 : 0.85);
        });
        bars.flush();
    });
    context.globalAlpha = 1;
    return drawn;
}

function isDim({ model, pattern }: Scene, row: number): boolean {
    return pattern !== null && model.data.sequences.pattern[row] !== pattern;
}

function drawLane(context: CanvasRenderingContext2D, scene: Scene, scale: Scale, lane: number, drawn: Drawn): void {
    const { model, layout, span, colours } = scene;
    const top = layout.laneTop(lane);
    const height = layout.laneHeight - 3;
    const track = model.lanes[lane];
    if (track === undefined) {
        return;
    }
    const bars = new Bars(context, top, height);
    drawn.sequences += track.visit(span.from, span.until, scale.usPerPixel, (row, start, end) => {
        const left = Math.max(scale.x(start), layout.left);
        const right = Math.min(scale.x(end), layout.width);
        const width = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
        const isBad = model.violationsOf(row) > 0;
        const colour = isBad ? colours.bad : colours[FILLS[model.endOf(row)] ?? "other"];
        const alpha = isDim(scene, row) ? 0.15 : 1;
        if (width < NARROW && row !== scene.selected) {
            bars.add(left, left + width, colour, alpha);
            return;
        }
        bars.flush();
        context.globalAlpha = alpha;
        context.fillStyle = colour;
        context.fillRect(left, top, width, height);
        const workedUntil = isBad ? null : model.idleFrom(row);
        if (workedUntil !== null && scale.x(workedUntil) > left) {
            context.fillStyle = colours.held;
            context.fillRect(left, top, Math.min(width, scale.x(workedUntil) - left), height);
        }
        const range = width > 8 ? model.stepRange(row) : null;
        const pixelsOfStep =
            range === null ? 0 : ((workedUntil ?? end) - start) / scale.usPerPixel / Math.max(1, range.count);
        if (range !== null && pixelsOfStep >= STEPS_FROM) {
            drawn.steps += drawSteps(context, scene, scale, row, { top, height, left, right });
        } else if (width >= LABEL_FROM) {
            context.fillStyle = isBad ? colours.surface : colours["held-text"];
            context.fillText(cut(model.idOf(row), Math.floor(width / 7)), left + 4, top + height / 2 + 0.5);
        }
        if (row === scene.selected) {
            context.globalAlpha = 1;
            context.strokeStyle = colours.select;
            context.lineWidth = 2;
            context.strokeRect(left + 1, top, Math.max(2, width - 2), height);
            context.lineWidth = 1;
        }
    });
    bars.flush();
    context.globalAlpha = 1;
}

/** Outlines the chosen sequence's wait, and says how long it was. */
function drawSelectedWait(context: CanvasRenderingContext2D, scene: Scene, scale: Scale): void {
    const { model, layout, selected, colours } = scene;
    if (selected === null) {
        return;
    }
    const place = model.waits.findIndex((track) => track.indexOf(selected, model.beginOf(selected)) >= 0);
    const left = scale.x(model.beginOf(selected));
    const right = scale.x(model.waitEnd(selected));
    if (place < 0 || right < layout.left || left > layout.width) {
        return;
    }
    const top = layout.waits.top + place * layout.waitHeight;
    context.strokeStyle = colours.select;
    context.lineWidth = 2;
    context.strokeRect(left, top, Math.max(2, right - left), Math.max(2, layout.waitHeight - 1));
    context.lineWidth = 1;
}

/** Draws everything; returns how much that was. */
export function draw(context: CanvasRenderingContext2D, scene: Scene): Drawn {
    const { layout, colours, model } = scene;
    const scale = new Scale(layout, scene.span);
    const drawn: Drawn = { sequences: 0, steps: 0 };
    context.font = FONT;
    context.lineWidth = 1;
    context.fillStyle = colours.surface;
    context.fillRect(0, 0, layout.width, layout.height);
    drawAxis(context, scene, scale);
    context.fillStyle = colours.raised;
    drawLanes(context, scene, scale);
    drawGaps(context, scene, scale);
    drawn.sequences += drawWaits(context, scene, scale);
    for (let lane = layout.firstLane; lane < Math.min(model.lanes.length, layout.firstLane + layout.seen); lane += 1) {
        drawLane(context, scene, scale, lane, drawn);
    }
    drawSelectedWait(context, scene, scale);
    drawMarks(context, scene, scale);
    drawLabels(context, scene);
    return drawn;
}

/** What the span shows, for the line below the figure. */
export function spanText(span: Span): string {
    return `${moment(span.from, span.length)} to ${moment(span.until, span.length)} (${duration(span.length)})`;
}
