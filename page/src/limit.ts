/** The highest load: the curve of a search, its bracket, and its trials. */

import { type Cell, NO_NUMBERS, type Child, h, svg, table } from "./dom.ts";
import { drawing, drawingWidth } from "./drawing.ts";
import { duration, rate, short } from "./format.ts";
import { type JsonObject, list, number, object, text } from "./json.ts";
import { badge } from "./summary.ts";

const [HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [260, 70, 34, 16, 16];

interface Point {
    load: number;
    value: number;
    isSustained: boolean;
}

interface Curve {
    name: string;
    tone: string;
    points: Point[];
}

/** Where numbers are on a logarithmic scale. */
function logarithmic(least: number, most: number, from: number, to: number): (value: number) => number {
    const [low, high] = [Math.log(least), Math.log(Math.max(most, least * 1.01))];
    return (value) => from + ((Math.log(value) - low) / (high - low)) * (to - from);
}

/** Round numbers between two bounds, one or three to each decade. */
function rounds(least: number, most: number): number[] {
    const found: number[] = [];
    for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); power += 1) {
        for (const factor of most / least > 200 ? [1] : [1, 2, 5]) {
            const value = factor * 10 ** power;
            if (value >= least && value <= most) {
                found.push(value);
            }
        }
    }
    return found;
}

function curvePath(points: readonly Point[], x: (load: number) => number, y: (value: number) => number): string {
    const byLoad = new Map<number, number[]>();
    for (const { load, value } of points) {
        byLoad.set(load, [...(byLoad.get(load) ?? []), value]);
    }
    const means = [...byLoad].sort(([a], [b]) => a - b);
    return means
        .map(
            ([load, values], place) =>
                `${place === 0 ? "M" : "L"}${x(load).toFixed(1)},${y(values.reduce((a, b) => a + b, 0) / values.length).toFixed(1)}`,
        )
        .join(" ");
}

/** A chart of curves over the load; both scales are logarithmic. */
function plot(
    title: string,
    curves: readonly Curve[],
    unit: (value: number) => string,
    bracket: { from: number | null; to: number | null },
): Child {
    const width = drawingWidth();
    const points = curves.flatMap((curve) => curve.points).filter((point) => point.value > 0 && point.load > 0);
    if (points.length === 0) {
        return null;
    }
    const loads = points.map((point) => point.load);
    const values = points.map((point) => point.value);
    const [leastLoad, mostLoad] = [Math.min(...loads), Math.max(...loads)];
    const [least, most] = [Math.min(...values) * 0.9, Math.max(...values) * 1.1];
    const x = logarithmic(leastLoad, mostLoad, LEFT, width - RIGHT);
    const y = logarithmic(least, most, HEIGHT - BOTTOM, TOP);
    const shapes: Child[] = [];
    if (bracket.from !== null || bracket.to !== null) {
        const [from, to] = [x(bracket.from ?? leastLoad), x(bracket.to ?? mostLoad)];
        shapes.push(
            svg(
                "rect",
                {
                    class: "bracket",
                    x: Math.min(from, to),
                    y: TOP,
                    width: Math.max(2, Math.abs(to - from)),
                    height: HEIGHT - TOP - BOTTOM,
                },
                svg("title", {}, "the limit lies between the highest sustained load and the lowest that was too much"),
            ),
        );
    }
    for (const value of rounds(least, most)) {
        shapes.push(
            svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
            svg("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, unit(value)),
        );
    }
    for (const load of rounds(leastLoad, mostLoad)) {
        shapes.push(svg("text", { class: "tick", x: x(load), y: HEIGHT - 12, "text-anchor": "middle" }, short(load)));
    }
    for (const curve of curves) {
        const its = curve.points.filter((point) => point.value > 0);
        shapes.push(svg("path", { class: `curve ${curve.tone}`, d: curvePath(its, x, y) }));
        for (const { load, value, isSustained } of its) {
            const words = `${curve.name} at ${short(load)}: ${unit(value)}, ${isSustained ? "sustained" : "too much"}`;
            const size = { class: `point ${curve.tone} ${isSustained ? "sustained" : "overloaded"}` };
            shapes.push(
                isSustained
                    ? svg("circle", { ...size, cx: x(load), cy: y(value), r: 4 }, svg("title", {}, words))
                    : svg(
                          "rect",
                          { ...size, x: x(load) - 4, y: y(value) - 4, width: 8, height: 8 },
                          svg("title", {}, words),
                      ),
            );
        }
    }
    const legend = [
        ...curves.map((curve) => h("span", {}, h("i", { class: `swatch line ${curve.tone}` }), ` ${curve.name}`)),
        h("span", {}, h("i", { class: "swatch sustained" }), " sustained"),
        h("span", {}, h("i", { class: "swatch overloaded" }), " too much"),
        h(
            "span",
            {},
            h("i", { class: "swatch bracket" }),
            " between the highest sustained load and the lowest that was too much",
        ),
    ];
    const label = `${title}. The table of trials says the same.`;
    return drawing({ title, label, size: [width, HEIGHT], legend }, shapes);
}

function trialRow(trial: JsonObject, place: number): Cell[] {
    const cell = (child: Child): Cell => ({ cell: child, class: "number" });
    const sustained = trial["sustained"] === true;
    const found = number(trial["violations"]) ?? 0;
    const optional = (name: string): string => {
        const value = number(trial[name]);
        return value === null ? "–" : short(value);
    };
    return [
        place + 1,
        cell(optional("load")),
        badge(sustained ? "sustained" : found > 0 ? "failed" : "too much"),
        cell(rate(number(trial["sequences_per_second"]))),
        cell(rate(number(trial["goodput_per_second"]))),
        cell(duration(number(trial["step_p50_us"]))),
        cell(duration(number(trial["step_p99_us"]))),
        cell(duration(number(trial["wait_for_slot_p99_us"]))),
        cell(optional("in_flight")),
        cell(optional("mean_batch")),
        { cell: text(trial["why"]) ?? "", class: "words" },
    ];
}

/** The section of the curve and the trials. */
export function limit(document: JsonObject): Child[] {
    const trials = list(document["trials"]).map(object);
    const curve = (name: string, key: string, tone: string): Curve => ({
        name,
        tone,
        points: trials.map((trial) => ({
            load: number(trial["load"]) ?? 0,
            value: number(trial[key]) ?? 0,
            isSustained: trial["sustained"] === true,
        })),
    });
    const bracket = { from: number(document["sustained"]), to: number(document["overloaded"]) };
    const load = text(document["load"]) === "workers" ? "workers" : "iterations a second";
    const isSure = document["sure"] === true;
    const end =
        bracket.from === null && bracket.to === null
            ? "Nothing was tried."
            : `Highest sustained load: ${bracket.from ?? "none"}. Lowest load that was too much: ${bracket.to ?? "none"}.`;
    return [
        h(
            "p",
            {},
            `Load: ${load}, range ${text(document["range"]) ?? "?"}. ${end} ${isSure ? "Both are certain: of the trials at each of these loads, the first three agreed, or four of five did." : "The trials do not make both certain."}`,
        ),
        plot(
            `Latency of steps by load (${load})`,
            [curve("p50", "step_p50_us", "series-1"), curve("p99", "step_p99_us", "series-2")],
            duration,
            bracket,
        ),
        plot(`Goodput by load (${load})`, [curve("good responses", "goodput_per_second", "series-1")], rate, bracket),
        table(
            "Trials",
            [
                "trial",
                "load",
                "outcome",
                "sequences",
                "goodput",
                "step p50",
                "step p99",
                "wait for a slot p99",
                "in flight",
                "batch",
                "why",
            ],
            trials.map(trialRow),
            NO_NUMBERS,
        ),
    ];
}
