/** How the latencies are distributed: bars, and percentiles as a table. */

import { type Counts, bound, countsOf, range, sum } from "./buckets.ts";
import { type Cell, type Child, svg, table } from "./dom.ts";
import { drawing, drawingWidth } from "./drawing.ts";
import { counted, duration, percent } from "./format.ts";
import { type JsonObject, isObject, number, object } from "./json.ts";
import type { Series } from "./series.ts";

const [HEIGHT, LEFT, BOTTOM] = [200, 10, 24];
/** The least distance of two latencies below the bars, in pixels. */
const LABEL = 80;

/** The bars of a distribution. */
function bars(counts: Counts, [lowest, highest]: [number, number], latency: JsonObject): HTMLElement {
    const total = [...counts.values()].reduce((all, its) => all + its, 0);
    const most = Math.max(...counts.values());
    const whole = drawingWidth();
    const width = (whole - LEFT) / (highest - lowest + 1);
    const x = (bucket: number): number => LEFT + (bucket - lowest) * width;
    const shapes: Child[] = [];
    for (let bucket = lowest; bucket <= highest; bucket += 1) {
        const its = counts.get(bucket) ?? 0;
        const height = (its / most) * (HEIGHT - BOTTOM - 16);
        const words = `${duration(bound(bucket))} to ${duration(bound(bucket + 1))}: ${counted(its, "response")}, ${percent(its / total)}`;
        shapes.push(
            svg(
                "rect",
                { class: "bar", x: x(bucket), y: HEIGHT - BOTTOM - height, width: Math.max(1, width - 1), height },
                svg("title", {}, words),
            ),
        );
        if ((bucket - lowest) % Math.max(4, Math.ceil(LABEL / width)) === 0) {
            shapes.push(svg("text", { class: "tick", x: x(bucket), y: HEIGHT - 7 }, duration(bound(bucket))));
        }
    }
    for (const [name, words] of [
        ["p50", "p50"],
        ["p99", "p99"],
        ["p99_9", "p99.9"],
    ] as const) {
        const us = number(latency[name]);
        if (us !== null && us > 0) {
            const at = Math.min(whole - 2, Math.max(LEFT, LEFT + (4 * Math.log2(us) - lowest) * width));
            const isLate = at > whole - 50;
            shapes.push(
                svg("line", { class: "mark", x1: at, x2: at, y1: 14, y2: HEIGHT - BOTTOM }),
                svg(
                    "text",
                    { class: "tick", x: at, y: name === "p99" ? 24 : 10, "text-anchor": isLate ? "end" : "start" },
                    words,
                ),
            );
        }
    }
    const title = "Distribution of the latency of steps (logarithmic time)";
    const label = `Distribution of ${total} latencies of steps. The table of percentiles says the same.`;
    return drawing({ title, label, size: [whole, HEIGHT], legend: [] }, shapes);
}

/** The figure of the distribution; `null` where the series has no buckets. */
export function distribution(series: Series | null, document: JsonObject): HTMLElement | null {
    const counts = sum((series?.rows ?? []).map(countsOf).filter((its) => its !== null));
    const bounds = range(counts);
    if (bounds === null) {
        return null;
    }
    const latency = object(object(document["latency_us"])["step"]);
    return bars(counts, bounds, latency);
}

const ROWS: readonly [name: string, words: string][] = [
    ["step", "step"],
    ["good_step", "good step"],
    ["sequence", "sequence"],
    ["wait_for_slot", "wait for a slot"],
    ["first_response", "first response"],
];
const QUANTILES = ["p50", "p90", "p99", "p99_9", "max"];

function row(name: string, latency: JsonObject, isGood: boolean): Cell[] {
    const missing = isGood ? "∞" : "–";
    const cells = QUANTILES.map((quantile) => {
        const us = number(latency[quantile]);
        return us === null ? missing : duration(us);
    });
    return [name, number(latency["count"]), duration(number(latency["mean"])), ...cells];
}

/** The percentiles of all latencies as a table; `null` where the document has none. */
export function percentiles(document: JsonObject): HTMLElement | null {
    const latencies = object(document["latency_us"]);
    const isNotGood = (number(object(latencies["good_step"])["not_good"]) ?? 0) > 0;
    const rows = ROWS.filter(([name]) => isObject(latencies[name]) && (name !== "good_step" || isNotGood)).map(
        ([name, words]) => row(words, object(latencies[name]), name === "good_step"),
    );
    for (const [population, waits] of Object.entries(object(latencies["populations"]))) {
        rows.push(row(`${population}: sequence`, object(object(waits)["sequence"]), false));
        rows.push(row(`${population}: wait for a slot`, object(object(waits)["wait_for_slot"]), false));
    }
    return rows.length === 0
        ? null
        : table("Latencies", ["latency of", "count", "mean", "p50", "p90", "p99", "p99.9", "max"], rows);
}
