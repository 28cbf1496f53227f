/** Latencies counted in buckets, four to each doubling. */

import { type JsonObject, number, object } from "./json.ts";

/** The buckets of one interval, as counts by the number of the bucket. */
export type Counts = ReadonlyMap<number, number>;

/** The lower bound of a bucket in µs. */
export function bound(bucket: number): number {
    return Math.round(2 ** (bucket / 4));
}

/** The bucket that begins at a bound. */
function bucketOf(us: number): number {
    return us <= 0 ? 0 : Math.round(4 * Math.log2(us));
}

/** The buckets of a row of the series; `null` where the row has none. */
export function countsOf(row: JsonObject): Counts | null {
    if (row["step_counts"] === undefined || row["step_counts"] === null) {
        return null;
    }
    const counts = new Map<number, number>();
    for (const [us, its] of Object.entries(object(row["step_counts"]))) {
        const bucket = bucketOf(Number(us));
        const value = number(its);
        if (value !== null && Number.isFinite(bucket)) {
            counts.set(bucket, (counts.get(bucket) ?? 0) + value);
        }
    }
    return counts;
}

export function sum(all: readonly Counts[]): Counts {
    const total = new Map<number, number>();
    for (const counts of all) {
        for (const [bucket, its] of counts) {
            total.set(bucket, (total.get(bucket) ?? 0) + its);
        }
    }
    return total;
}

/** The least and the highest bucket that has a response; `null` where none has. */
export function range(counts: Counts): [number, number] | null {
    const buckets = [...counts].filter(([, its]) => its > 0).map(([bucket]) => bucket);
    return buckets.length === 0 ? null : [Math.min(...buckets), Math.max(...buckets)];
}
