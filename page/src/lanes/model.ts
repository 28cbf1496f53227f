/** The sequences of a run with their slots, indexed for drawing and for finding. */

import type { LaneData, Stretch } from "../data.ts";
import { Track, packed } from "./track.ts";

/** The most rows of the backlog that are drawn. */
const WAITS_MAX = 64;

export const START = 1;
export const END = 2;

/** A step of a sequence. Times are in µs since the run began. */
export interface Step {
    index: number;
    /** Its place in the sequence, from 0. */
    number: number;
    requestId: string;
    sentAt: number;
    answeredAt: number | null;
    took: number | null;
    value: number | string | null;
    answer: number | string | null;
    outcome: string;
    isStart: boolean;
    isEnd: boolean;
    slot: number | null;
}

export interface Mark {
    at: number;
    kind: string;
    /** The row of its sequence. */
    sequence: number | null;
    violation: number | null;
    text: string;
}

/** A column's number at a place; 0 where there is none. */
function at(column: ArrayLike<number>, place: number): number {
    return column[place] ?? 0;
}

export class LaneModel {
    readonly count: number;
    readonly begun: Float64Array;
    readonly lanes: Track[];
    /** STARTs without a response, in rows that do not overlap. */
    readonly waits: Track[];
    /** Sequences whose wait is not drawn, because too many waited at a time. */
    readonly waitsLeftOut: number;
    /** The marks of each kind, sorted by time. */
    readonly marks: ReadonlyMap<string, { at: Float64Array; indexes: Int32Array }>;
    /** The last moment of the data. */
    readonly until: number;
    /** The spans in which the server had one model loaded all the time, at least one. */
    readonly stretches: readonly Stretch[];

    private byName: Map<string, number> | null = null;
    private byId: Map<string, number[]> | null = null;

    constructor(readonly data: LaneData) {
        const { sequences } = data;
        this.count = sequences.begun.length;
        this.begun = new Float64Array(this.count);
        let time = 0;
        for (let row = 0; row < this.count; row += 1) {
            time += at(sequences.begun, row);
            this.begun[row] = time;
        }
        const lanes: number[][] = Array.from({ length: data.lanes }, () => []);
        const waiting: number[] = [];
        for (let row = 0; row < this.count; row += 1) {
            lanes[at(sequences.lane, row)]?.push(row);
            if (this.waitEnd(row) > this.beginOf(row)) {
                waiting.push(row);
            }
        }
        const held = (row: number): number => this.heldAt(row) ?? this.beginOf(row);
        this.lanes = lanes.map((rows) => new Track(rows, held, (row) => this.overAt(row)));
        const waits = packed(
            waiting,
            (row) => this.beginOf(row),
            (row) => this.waitEnd(row),
            WAITS_MAX,
        );
        this.waits = waits.tracks;
        this.waitsLeftOut = waits.left.length;
        this.marks = this.marksByKind();
        this.until = Math.max(data.until_us, data.from_us + 1);
        const { slots, told, from_us } = data;
        const whole: Stretch = { from_us, until_us: this.until, slots, told, lanes: data.lanes };
        this.stretches = data.stretches.length > 0 ? data.stretches : [whole];
    }

    private marksByKind(): Map<string, { at: Float64Array; indexes: Int32Array }> {
        const kinds = new Map<string, number[]>();
        this.data.marks.kind.forEach((kind, index) => {
            const indexes = kinds.get(kind) ?? [];
            indexes.push(index);
            kinds.set(kind, indexes);
        });
        const times = this.data.marks.at;
        const sorted = [...kinds].map(([kind, indexes]): [string, { at: Float64Array; indexes: Int32Array }] => {
            indexes.sort((a, b) => at(times, a) - at(times, b));
            return [
                kind,
                { at: Float64Array.from(indexes, (index) => at(times, index)), indexes: Int32Array.from(indexes) },
            ];
        });
        return new Map(sorted);
    }

    beginOf(row: number): number {
        return at(this.begun, row);
    }

    /** From when a sequence certainly had its slot; `null` where it never did. */
    heldAt(row: number): number | null {
        const held = this.data.sequences.held[row] ?? -1;
        return held < 0 ? null : this.beginOf(row) + held;
    }

    overAt(row: number): number {
        return this.beginOf(row) + Math.max(0, at(this.data.sequences.over, row));
    }

    /** Until when a sequence waited for the response to its START. */
    waitEnd(row: number): number {
        return this.heldAt(row) ?? this.overAt(row);
    }

    laneOf(row: number): number | null {
        const lane = this.data.sequences.lane[row] ?? -1;
        return lane < 0 || lane >= this.lanes.length ? null : lane;
    }

    idOf(row: number): string {
        return String(this.data.sequences.id[row] ?? "");
    }

    /** `worker-context-number`, as its requests are named. */
    nameOf(row: number): string {
        const { worker, context, number } = this.data.sequences;
        return `${at(worker, row)}-${at(context, row)}-${at(number, row)}`;
    }

    patternOf(row: number): string {
        return this.data.patterns[at(this.data.sequences.pattern, row)] ?? "";
    }

    endOf(row: number): string {
        return this.data.ends[at(this.data.sequences.end, row)] ?? "open";
    }

    violationsOf(row: number): number {
        return at(this.data.sequences.violations, row);
    }

    /** The indexes of a sequence's steps: the first, and how many there are; `null` where the report does not have them. */
    stepRange(row: number): { first: number; count: number } | null {
        const first = this.data.sequences.step[row] ?? -1;
        return first < 0 ? null : { first, count: at(this.data.sequences.steps, row) };
    }

    /** When a sequence that the idle limit ended got its last response; `null` for others, and where that is not known. */
    idleFrom(row: number): number | null {
        const range = this.endOf(row) === "idle" ? this.stepRange(row) : null;
        if (range === null || range.count === 0) {
            return null;
        }
        const last = range.first + range.count - 1;
        return this.beginOf(row) + at(this.data.steps.sent, last) + Math.max(0, at(this.data.steps.took, last));
    }

    /** How many steps a sequence sent; the report may have fewer of them. */
    sentBy(row: number): number {
        return at(this.data.sequences.sent, row);
    }

    /** The step at a place among those that the report has of a sequence. */
    step(row: number, place: number): Step | null {
        const range = this.stepRange(row);
        if (range === null || place < 0 || place >= range.count) {
            return null;
        }
        const { steps } = this.data;
        const index = range.first + place;
        const sentAt = this.beginOf(row) + at(steps.sent, index);
        const took = steps.took[index] ?? -1;
        const flags = at(steps.flags, index);
        const slot = steps.slot[index] ?? -1;
        return {
            index,
            number: at(steps.number, index),
            requestId: `${this.nameOf(row)}-${at(steps.number, index)}`,
            sentAt,
            answeredAt: took < 0 ? null : sentAt + took,
            took: took < 0 ? null : took,
            value: steps.value[index] ?? null,
            answer: steps.answer[index] ?? null,
            outcome: this.data.outcomes[at(steps.outcome, index)] ?? "",
            isStart: (flags & START) !== 0,
            isEnd: (flags & END) !== 0,
            slot: slot < 0 ? null : slot,
        };
    }

    mark(index: number): Mark {
        const { marks } = this.data;
        const sequence = marks.sequence[index] ?? -1;
        const violation = marks.violation[index] ?? -1;
        return {
            at: at(marks.at, index),
            kind: marks.kind[index] ?? "",
            sequence: sequence < 0 ? null : sequence,
            violation: violation < 0 ? null : violation,
            text: marks.text[index] ?? "",
        };
    }

    /** The row of the sequence that is named `worker-context-number`, perhaps with a step behind it. */
    rowNamed(name: string): number | null {
        if (this.byName === null) {
            this.byName = new Map();
            for (let row = 0; row < this.count; row += 1) {
                this.byName.set(this.nameOf(row), row);
            }
        }
        const parts = /^(\d+-\d+-\d+)(?:-\d+)?$/.exec(name);
        return this.byName.get(parts?.[1] ?? "") ?? null;
    }

    /** The rows of the sequences of a correlation ID, sorted by time. */
    rowsOfId(id: string): readonly number[] {
        if (this.byId === null) {
            this.byId = new Map();
            for (let row = 0; row < this.count; row += 1) {
                const rows = this.byId.get(this.idOf(row)) ?? [];
                rows.push(row);
                this.byId.set(this.idOf(row), rows);
            }
        }
        return this.byId.get(id) ?? [];
    }

    /** The rows that had the same lane right before and right after a sequence. */
    neighbours(row: number): { before: number | null; after: number | null } {
        const lane = this.laneOf(row);
        const track = lane === null ? undefined : this.lanes[lane];
        const place = track?.indexOf(row, this.heldAt(row) ?? this.beginOf(row)) ?? -1;
        if (track === undefined || place < 0) {
            return { before: null, after: null };
        }
        return { before: track.rows[place - 1] ?? null, after: track.rows[place + 1] ?? null };
    }
}
