/** In which gaps a failure fails: a chart of each gap, with the interval of each length. */

import { type Cell, NO_NUMBERS, type Child, h, svg, table } from "./dom.ts";
import { drawing, drawingWidth } from "./drawing.ts";
import { counted, duration } from "./format.ts";
import { type JsonObject, list, number, object, text } from "./json.ts";
import { badge } from "./summary.ts";
import type { Verdict } from "./verdict.ts";

const [HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [220, 70, 34, 12, 24];
/** Labels of lengths are so far from each other, or left out. */
const APART = 64;

/** A length of a gap, in microseconds, and the share of its runs that failed. */
interface Point {
    us: number;
    runs: number;
    failed: number;
    low: number;
    high: number;
}

interface Span {
    from: number;
    until: number;
}

/** Whether a document is the measurement of a failure's gaps. */
export function isWindow(document: JsonObject): boolean {
    return Array.isArray(document["gaps"]);
}

/** The verdict of a measurement, as the tool words it. */
export function windowVerdict(document: JsonObject): Verdict {
    const [word = "UNKNOWN", ...rest] = (text(document["verdict"]) ?? "").split(": ");
    const tone = word === "UNKNOWN" ? "doubt" : "bad";
    return { word: word === "" ? "UNKNOWN" : word, tone, sentence: rest.join(": ") };
}

function pointsOf(gap: JsonObject): Point[] {
    const points = list(gap["points"])
        .map(object)
        .map((point) => ({
            us: number(point["us"]) ?? -1,
            runs: number(point["runs"]) ?? 0,
            failed: number(point["failed"]) ?? 0,
            low: number(point["low"]) ?? 0,
            high: number(point["high"]) ?? 1,
        }));
    return points.filter((point) => point.us >= 0 && point.runs > 0).sort((one, other) => one.us - other.us);
}

function windowsOf(gap: JsonObject): Span[] {
    return list(gap["windows"])
        .map(object)
        .map((its) => ({ from: number(its["from_us"]) ?? 0, until: number(its["until_us"]) ?? 0 }));
}

/** Where lengths are: on a logarithmic scale that begins at none at all. */
function scaleOf(points: readonly Point[], width: number): (us: number) => number {
    const least = points.find((point) => point.us > 0)?.us ?? 1;
    const along = (us: number): number => Math.log1p((2 * us) / least);
    const most = along(Math.max(...points.map((point) => point.us), least));
    return (us) => LEFT + (along(us) / most) * (width - RIGHT - LEFT);
}

/** A length, exact enough that no two of them have the same words. */
function lengthOf(us: number, others: readonly number[] = []): string {
    const isSame = (other: number): boolean => other !== us && duration(other) === duration(us);
    return us === 0 ? "0" : others.some(isSame) ? `${us / 1000} ms` : duration(us);
}

/** The labels of lengths that have room beside each other; that of `first` is always there. */
function labels(points: readonly Point[], first: number, x: (us: number) => number): number[] {
    const kept = points.some((point) => point.us === first) ? [first] : [];
    const ordered = [points[0], points.at(-1), ...points].flatMap((point) => (point === undefined ? [] : [point.us]));
    for (const us of ordered) {
        if (kept.every((other) => Math.abs(x(other) - x(us)) >= APART)) {
            kept.push(us);
        }
    }
    return kept;
}

/** The chart of a gap. */
function chart(gap: JsonObject, title: string): Child {
    const points = pointsOf(gap);
    if (points.length < 2) {
        return null;
    }
    const recorded = number(gap["recorded_us"]) ?? -1;
    const whole = drawingWidth();
    const x = scaleOf(points, whole);
    const y = (share: number): number => HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP);
    const shapes: Child[] = [];
    for (const { from, until } of windowsOf(gap)) {
        const width = Math.max(4, x(until) - x(from));
        const words = `fails from ${duration(from)} to ${duration(until)}`;
        const shape = { class: "bracket", x: x(from), y: TOP, width, height: HEIGHT - TOP - BOTTOM };
        shapes.push(svg("rect", shape, svg("title", {}, words)));
    }
    for (const share of [0, 0.5, 1]) {
        shapes.push(
            svg("line", { class: "grid", x1: LEFT, x2: whole - RIGHT, y1: y(share), y2: y(share) }),
            svg("text", { class: "tick", x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, `${share * 100} %`),
        );
    }
    for (const us of labels(points, recorded, x)) {
        const place = { class: "tick", x: x(us), y: HEIGHT - 12, "text-anchor": "middle" };
        shapes.push(svg("text", place, lengthOf(us)));
    }
    if (points.some((point) => point.us === recorded)) {
        const line = { class: "mark", x1: x(recorded), x2: x(recorded), y1: TOP, y2: HEIGHT - BOTTOM };
        shapes.push(svg("line", line, svg("title", {}, "as recorded")));
    }
    for (const { us, runs, failed, low, high } of points) {
        const words = `${duration(us)}: ${failed} of ${counted(runs, "run")} failed`;
        shapes.push(
            svg("line", { class: "whisker", x1: x(us), x2: x(us), y1: y(low), y2: y(high) }),
            svg("circle", { class: "point series-1", cx: x(us), cy: y(failed / runs), r: 4 }, svg("title", {}, words)),
        );
    }
    const legend = [
        h("span", {}, h("i", { class: "swatch sustained" }), " share of the runs that fail, with its interval"),
        h("span", {}, h("i", { class: "swatch bracket" }), " it fails at these lengths"),
        h("span", {}, h("i", { class: "swatch line series-2 dashed" }), " as recorded"),
    ];
    const label = `${title}. The table of lengths says the same.`;
    return drawing({ title, label, size: [whole, HEIGHT], legend }, shapes);
}

function lengths(gap: JsonObject, name: string): HTMLElement {
    const figure = (cell: Child): Cell => ({ cell, class: "number" });
    const percent = (share: number): string => `${Math.round(share * 100)} %`;
    const all = pointsOf(gap).map(({ us }) => us);
    const rows = pointsOf(gap).map(({ us, runs, failed, low, high }): Cell[] => {
        const isInside = windowsOf(gap).some(({ from, until }) => us >= from && us <= until);
        const recorded = us === number(gap["recorded_us"]) ? " as recorded" : "";
        return [
            `${lengthOf(us, all)}${recorded}`,
            figure(runs),
            figure(failed),
            figure(`${percent(low)} to ${percent(high)}`),
            isInside ? badge("inside") : "",
        ];
    });
    return table(`Lengths of ${name}`, ["length", "runs", "failed", "interval", "window"], rows, NO_NUMBERS);
}

/** What is known of a gap, in as few words as the tool's text says it. */
function effect(document: JsonObject, gap: JsonObject): string {
    if (gap["matters"] === true) {
        return "matters";
    }
    if (pointsOf(gap).length < 2) {
        return "not measured";
    }
    // Too few runs, or runs that depend on each other, do not show that there is no effect.
    const isSure = document["ended"] === "done" && document["one_server"] !== true;
    return isSure ? "does not matter" : "no effect seen";
}

/** The sections of a measurement: one for each gap, those that matter first. */
export function gapSections(document: JsonObject, prefix: string): { id: string; title: string; content: Child[] }[] {
    const gaps = list(document["gaps"]).map(object);
    const hasSeveral = gaps.some((gap) => gap["worker"] !== 0 || gap["context"] !== 0);
    const ordered = [...gaps].sort((one, other) => Number(other["matters"] === true) - Number(one["matters"] === true));
    return ordered.map((gap) => {
        const its = number(gap["number"]) ?? 0;
        const context = number(gap["context"]) ?? 0;
        const worker = ` of worker ${number(gap["worker"]) ?? "?"}${context === 0 ? "" : `, context ${context}`}`;
        const title = `from ${text(gap["from"]) ?? "?"} to ${text(gap["to"]) ?? "?"}${hasSeveral ? worker : ""}`;
        return {
            id: `${prefix}-gap-${its}`,
            title: `Gap ${its}: ${effect(document, gap)}`,
            content: [
                h("p", {}, sentenceOf(text(gap["says"]) ?? "")),
                chart(gap, `Gap ${its}, ${title}`),
                lengths(gap, `gap ${its}`),
            ],
        };
    });
}

/** A text that begins with a capital and ends with a full stop. */
function sentenceOf(words: string): string {
    return words === "" ? "" : `${words.charAt(0).toUpperCase()}${words.slice(1)}${words.endsWith(".") ? "" : "."}`;
}

/** What the measurement rests on. */
export function basis(document: JsonObject): HTMLElement {
    const all = object(document["all"]);
    const execution = number(document["execution_us"]);
    const runs = counted(number(all["runs"]) ?? 0, "run");
    const [model, server] = [text(document["model"]), text(document["server"])];
    const target = [model, server === null ? null : `on ${server}`, `failure ${text(document["failure"]) ?? "?"}`];
    const words = [
        `${number(all["failed"]) ?? 0} of ${runs} failed with ${text(document["kind"]) ?? "?"}`,
        `${number(document["runs_per_length"]) ?? "?"} runs for each length`,
        execution === null ? null : `an execution takes ${duration(execution)}`,
    ];
    const note = text(document["note"]);
    return h(
        "div",
        {},
        h("p", { class: "muted" }, target.filter((its) => its !== null).join(", ")),
        h("p", {}, `${words.filter((its) => its !== null).join(", ")}.`),
        note === null ? null : h("p", { class: "window-note" }, `Note: ${note}.`),
    );
}
