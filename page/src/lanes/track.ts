/** Spans in time that follow each other, such as the sequences that had one slot. */

/** The lowest index of ascending `times` at which the time is `time` or later; their number where there is none. */
export function firstFrom(times: ArrayLike<number>, time: number): number {
    let low = 0;
    let high = times.length;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if ((times[middle] ?? 0) < time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/** What `Track.visit` hands over: a row, its span, and whether later rows of the same pixel were left out. */
export type Visit = (row: number, start: number, end: number) => void;

export class Track {
    readonly rows: Int32Array;
    readonly starts: Float64Array;
    readonly ends: Float64Array;
    /** The latest end of a row and of all rows before it; ascending even where the data are not. */
    private readonly reach: Float64Array;

    /** A track of rows, with each row's span. */
    constructor(rows: readonly number[], start: (row: number) => number, end: (row: number) => number) {
        const sorted = [...rows].sort((a, b) => start(a) - start(b) || end(a) - end(b));
        this.rows = Int32Array.from(sorted);
        this.starts = Float64Array.from(sorted, start);
        this.ends = Float64Array.from(sorted, end);
        this.reach = new Float64Array(this.ends.length);
        let latest = -Infinity;
        this.ends.forEach((time, place) => {
            latest = Math.max(latest, time);
            this.reach[place] = latest;
        });
    }

    get length(): number {
        return this.rows.length;
    }

    /** The same without the rows that begin before a time. */
    from(time: number): Track {
        const place = firstFrom(this.starts, time);
        if (place === 0) {
            return this;
        }
        const rows = this.rows.slice(place);
        const of = new Map([...rows].map((row, index) => [row, place + index]));
        const at = (times: Float64Array, row: number): number => times[of.get(row) ?? 0] ?? 0;
        return new Track(
            [...rows],
            (row) => at(this.starts, row),
            (row) => at(this.ends, row),
        );
    }

    /** The index of the first row that is not over before `time`, found by binary search. */
    firstReaching(time: number): number {
        return firstFrom(this.reach, time);
    }

    /**
     * Visits the rows between two times, at most one for each span of `grain` µs, such as a pixel. Of rows that begin and end within
     * one such span only the first is visited. Returns how many were visited.
     */
    visit(from: number, until: number, grain: number, visit: Visit): number {
        let visited = 0;
        let place = this.firstReaching(from);
        while (place < this.length) {
            const start = this.starts[place] ?? 0;
            if (start > until) {
                break;
            }
            const end = this.ends[place] ?? start;
            visit(this.rows[place] ?? 0, start, end);
            visited += 1;
            const border =
                grain > 0 ? from + (Math.floor((Math.max(end, from) - from) / grain) + 1) * grain : -Infinity;
            place =
                (this.reach[place + 1] ?? Infinity) < border
                    ? Math.max(place + 1, this.firstReaching(border))
                    : place + 1;
        }
        return visited;
    }

    /** The index of the row that lasts at `time`, or that is nearest within `near` µs; `null` where there is none. */
    indexAt(time: number, near: number): number | null {
        const place = this.firstReaching(time);
        let best: number | null = null;
        let distance = near;
        for (const candidate of [place - 1, place]) {
            const start = this.starts[candidate];
            const end = this.ends[candidate];
            if (start !== undefined && end !== undefined) {
                const off = time < start ? start - time : time > end ? time - end : 0;
                if (off <= distance) {
                    best = candidate;
                    distance = off;
                }
            }
        }
        return best;
    }

    /** The index of a row, which begins at `start`; -1 where the track does not have it. */
    indexOf(row: number, start: number): number {
        for (let place = firstFrom(this.starts, start); this.starts[place] === start; place += 1) {
            if (this.rows[place] === row) {
                return place;
            }
        }
        return -1;
    }
}

/** Puts spans into as few tracks as can be, at most `most`, so that none overlap; returns the rows that had no place, too. */
export function packed(
    rows: readonly number[],
    start: (row: number) => number,
    end: (row: number) => number,
    most: number,
): { tracks: Track[]; left: number[] } {
    const sorted = [...rows].sort((a, b) => start(a) - start(b));
    const tracks: number[][] = [];
    const free: number[] = [];
    const left: number[] = [];
    for (const row of sorted) {
        let place = free.findIndex((time) => time <= start(row));
        if (place < 0 && free.length < most) {
            place = free.length;
            tracks.push([]);
        }
        if (place < 0) {
            left.push(row);
        } else {
            free[place] = end(row);
            tracks[place]?.push(row);
        }
    }
    return { tracks: tracks.map((its) => new Track(its, start, end)), left };
}
