/** Where the parts of the lanes' figure are. */

import type { LaneModel } from "./model.ts";

const AXIS = 22;
const MARKS = 18;
/** The rows of marks, from above. */
export const MARK_ROWS = ["phase", "server", "sequence"] as const;
export type MarkRow = (typeof MARK_ROWS)[number];
/** In which row the marks of a kind are, where that is not the one of the sequences. */
const ROW_OF: Readonly<Record<string, MarkRow>> = {
    phase: "phase",
    reload: "server",
    restart: "server",
    fault: "server",
};

export function markRowOf(kind: string): MarkRow {
    return ROW_OF[kind] ?? "sequence";
}
const BETWEEN = 8;
/** The most height of all lanes together; beyond that the lanes are moved through. */
const LANES_HIGHEST = 560;

export interface Band {
    top: number;
    height: number;
}

export class Layout {
    readonly left: number;
    readonly axis: Band = { top: 0, height: AXIS };
    /** All rows of marks. */
    readonly marks: Band;
    /** Each row of marks; phases, and what happens to the server, have one only where there are any. */
    readonly markRows: ReadonlyMap<MarkRow, Band>;
    readonly waits: Band;
    readonly waitHeight: number;
    readonly lanes: Band;
    readonly laneHeight: number;
    /** How many lanes are seen at a time. */
    readonly seen: number;
    readonly height: number;

    constructor(
        model: LaneModel,
        readonly width: number,
        /** The first lane that is seen. */
        readonly firstLane: number,
    ) {
        this.left = width < 500 ? 30 : 56;
        const used = new Set<MarkRow>(["sequence", ...[...model.marks.keys()].map(markRowOf)]);
        const kinds = MARK_ROWS.filter((row) => used.has(row));
        this.markRows = new Map(kinds.map((row, place) => [row, { top: AXIS + place * MARKS, height: MARKS }]));
        this.marks = { top: AXIS, height: kinds.length * MARKS };
        const rows = model.waits.length;
        this.waitHeight = rows === 0 ? 0 : Math.min(9, Math.max(2, Math.floor(110 / rows)));
        this.waits = { top: AXIS + this.marks.height + 2, height: Math.max(rows * this.waitHeight, 14) };
        const lanes = Math.max(1, model.lanes.length);
        this.laneHeight = Math.min(28, Math.max(14, Math.floor(300 / lanes)));
        this.seen = Math.min(lanes, Math.floor(LANES_HIGHEST / this.laneHeight));
        this.lanes = { top: this.waits.top + this.waits.height + BETWEEN, height: this.seen * this.laneHeight };
        this.height = this.lanes.top + this.lanes.height + 2;
    }

    get plotWidth(): number {
        return Math.max(10, this.width - this.left);
    }

    laneTop(lane: number): number {
        return this.lanes.top + (lane - this.firstLane) * this.laneHeight;
    }

    /** The lane at a height of the figure. */
    laneAt(y: number): number | null {
        const lane = Math.floor((y - this.lanes.top) / this.laneHeight);
        return lane < 0 || lane >= this.seen ? null : lane + this.firstLane;
    }

    /** The row of the backlog at a height of the figure. */
    waitAt(y: number): number | null {
        const row = Math.floor((y - this.waits.top) / Math.max(1, this.waitHeight));
        return y < this.waits.top || y >= this.waits.top + this.waits.height ? null : row;
    }

    /** The row of marks at a height of the figure. */
    markRowAt(y: number): MarkRow | null {
        return [...this.markRows].find(([, { top, height }]) => y >= top && y < top + height)?.[0] ?? null;
    }
}
