/** The intervals of a run's series, and their rates. */

import { type JsonObject, list, number, object } from "./json.ts";

/** How much of an interval the run lasted, in seconds: of the last one, which the run's end cuts. */
export const COVERED = "covered_s";
/** A rate of a shorter time says nothing. */
const RATE_LEAST_S = 0.25;

/** The intervals of a run; the last one says how much of it the run lasted. */
export function rowsOf(document: JsonObject): JsonObject[] {
    const rows = list(document["series"]).map(object);
    const elapsed = number(document["elapsed_s"]);
    return rows.map((row, place) => {
        const covered = elapsed === null ? null : elapsed - (number(row["at_s"]) ?? 0);
        const isCut = place === rows.length - 1 && covered !== null && covered < (number(row["lasts_s"]) ?? 1);
        return isCut ? { ...row, [COVERED]: Math.max(0, covered) } : row;
    });
}

/** A count of each interval as a rate; `null` where the interval is too short for one. */
export function perSecond(rows: readonly JsonObject[], name: string): (number | null)[] {
    return rows.map((row) => {
        const value = number(row[name]);
        const covered = number(row[COVERED]);
        if (value === null || (covered !== null && covered < RATE_LEAST_S)) {
            return null;
        }
        return value / (covered ?? Math.max(1, number(row["lasts_s"]) ?? 1));
    });
}
