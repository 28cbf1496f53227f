/** The series of a run: what happened in each second, as charts and as a table. */

import { ChartGroup, type ChartOptions, type Line, type Moment, chart } from "./charts.ts";
import { type Child, h, table, unfolding } from "./dom.ts";
import { bytes, duration, rate, short } from "./format.ts";
import { COVERED, perSecond, rowsOf } from "./intervals.ts";
import { type JsonObject, isObject, number, object } from "./json.ts";
import { stagesOf } from "./moments.ts";
import type { ColourName } from "./theme.ts";

type Row = JsonObject;

export interface Series {
    rows: readonly Row[];
    group: ChartGroup;
    /** Whether the model gives several responses to a request, so that the first one is something of its own. */
    hasFirstResponses: boolean;
}

/** The series of a run; `null` where it has none. */
export function seriesOf(document: JsonObject): Series | null {
    const rows = rowsOf(document);
    const last = rows.at(-1);
    if (last === undefined) {
        return null;
    }
    const times = rows.map((row) => (number(row["at_s"]) ?? 0) + (number(row["lasts_s"]) ?? 1) / 2);
    const until = (number(last["at_s"]) ?? 0) + (number(last["lasts_s"]) ?? 1);
    const moments = stagesOf(document).map(({ at, kind, words }): Moment => ({
        at: at / 1e6,
        words: kind === "phase" ? `phase ${words}` : words,
    }));
    const hasFirstResponses = isObject(object(document["latency_us"])["first_response"]);
    return { rows, group: new ChartGroup(times, until, moments), hasFirstResponses };
}

function column(rows: readonly Row[], name: string): (number | null)[] {
    return rows.map((row) => number(row[name]));
}

interface Plan {
    section: string;
    title: string;
    unit: (value: number) => string;
    lines: [label: string, values: (number | null)[], colour: ColourName, dash?: number[]][];
    isLatency?: boolean;
}

const DASH = [6, 4];
const FIRST_RESPONSE = "First response to START";

function latencyPlan(rows: readonly Row[], title: string, name: string): Plan {
    return {
        section: "latency",
        title,
        unit: duration,
        isLatency: true,
        lines: [
            ["p50", column(rows, `${name}_p50_us`), "series-1"],
            ["p99", column(rows, `${name}_p99_us`), "series-2"],
            ["max", column(rows, `${name}_max_us`), "series-3", DASH],
        ],
    };
}

function plans(rows: readonly Row[]): Plan[] {
    const of = (name: string): (number | null)[] => column(rows, name);
    const each = (name: string): (number | null)[] => perSecond(rows, name);
    // A server within the client's process has no figures of its own.
    const used = (name: string): (number | null)[] => (of(name).some((value) => value !== 0) ? of(name) : []);
    return [
        latencyPlan(rows, "Latency of steps", "step"),
        latencyPlan(rows, "Latency of sequences", "sequence"),
        latencyPlan(rows, "Wait for a slot", "wait_for_slot"),
        latencyPlan(rows, FIRST_RESPONSE, "first_response"),
        {
            section: "throughput",
            title: "Throughput and goodput",
            unit: rate,
            lines: [
                ["responses", each("responses"), "series-1"],
                ["good responses", each("good"), "series-2", DASH],
                ["requests sent", each("requests"), "series-3", [2, 3]],
            ],
        },
        {
            section: "throughput",
            title: "Sequences begun",
            unit: rate,
            lines: [["sequences", each("sequences"), "series-1"]],
        },
        { section: "throughput", title: "Violations", unit: rate, lines: [["violations", each("violations"), "bad"]] },
        {
            section: "server",
            title: "Queue and compute time in the server",
            unit: duration,
            lines: [
                ["queue", of("server_queue_us"), "waiting"],
                ["compute", of("server_compute_us"), "series-1"],
            ],
        },
        {
            section: "server",
            title: "Batch size and possible batch",
            unit: short,
            lines: [
                ["mean batch", of("mean_batch"), "series-1"],
                ["possible batch", of("possible_batch"), "series-2", DASH],
            ],
        },
        {
            section: "server",
            title: "Executions of the model",
            unit: rate,
            lines: [["executions", each("executions"), "series-1"]],
        },
        {
            section: "server",
            title: "Live sequences and backlog",
            unit: short,
            lines: [
                ["live sequences", of("live_sequences"), "series-1"],
                ["slots certainly taken", of("slots_taken"), "series-2", DASH],
                ["STARTs waiting", of("starts_waiting"), "waiting"],
            ],
        },
        {
            section: "server",
            title: "Unanswered and pending requests",
            unit: short,
            lines: [
                ["unanswered (client)", of("in_flight"), "series-1"],
                ["pending (server)", of("server_pending"), "series-2", DASH],
            ],
        },
        {
            section: "resources",
            title: "Memory",
            unit: bytes,
            lines: [
                ["client", of("client_memory_bytes"), "series-1"],
                ["server", used("server_memory_bytes"), "series-2", DASH],
            ],
        },
        {
            section: "resources",
            title: "CPU, percent of one core",
            unit: (value) => `${short(value)} %`,
            lines: [
                ["client", of("client_cpu_percent"), "series-1"],
                ["server", used("server_cpu_percent"), "series-2", DASH],
            ],
        },
    ];
}

/** The range of each line, in words. */
function summary(lines: readonly Line[], unit: (value: number) => string): string {
    return lines
        .map((line) => {
            const values = line.values.filter((value) => value !== null);
            return `${line.label}: from ${unit(Math.min(...values))} to ${unit(Math.max(...values))}.`;
        })
        .join(" ");
}

/** The options of a chart; `null` where there is nothing to draw. A line without data is left out. */
function optionsOf(plan: Plan): ChartOptions | null {
    const isSeen = (values: (number | null)[]): boolean => values.some((value) => value !== null);
    const isQuiet = plan.title === "Violations" && plan.lines.every(([, values]) => values.every((value) => !value));
    const lines = plan.lines
        .filter(([, values]) => isSeen(values))
        .map(([label, values, colour, dash]): Line => ({ label, values, colour, ...(dash ? { dash } : {}) }));
    if (lines.length === 0 || isQuiet) {
        return null;
    }
    const all = lines.flatMap((line) => line.values).filter((value) => value !== null && value > 0) as number[];
    const isLogarithmic = plan.isLatency === true && all.length > 0 && Math.max(...all) > 40 * Math.min(...all);
    if (isLogarithmic) {
        for (const line of lines) {
            line.values = line.values.map((value) => (value === null || value <= 0 ? null : value));
        }
    }
    const title = isLogarithmic ? `${plan.title} (logarithmic)` : plan.title;
    return { title, summary: summary(lines, plan.unit), unit: plan.unit, lines, isLogarithmic };
}

/** The charts of a section that have data: latency, throughput, server or resources. */
export function charts({ rows, group, hasFirstResponses }: Series, section: string): HTMLElement[] {
    const options = plans(rows)
        .filter((plan) => plan.section === section && (hasFirstResponses || plan.title !== FIRST_RESPONSE))
        .map(optionsOf);
    return options.filter((its) => its !== null).map((its) => chart(its, group));
}

/** All rows as a table, which is made when it is opened. */
export function seriesTable({ rows }: Series): Child {
    return unfolding(["The series as a table"], () => {
        const names = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter(
            (name) => name !== "step_counts" && name !== COVERED && rows.some((row) => row[name] !== null),
        );
        const cell = (row: Row, name: string): string => {
            const value = number(row[name]);
            return value === null ? "" : Number.isInteger(value) ? String(value) : value.toFixed(1);
        };
        const cells = rows.map((row) => names.map((name) => cell(row, name)));
        return [
            h("p", { class: "muted" }, "One row for each interval; times in µs."),
            table("The series", names, cells),
        ];
    });
}

/** Charts of two runs over each other: what a user feels in each second. Empty where one of them has no series, or other intervals. */
export function compared(old: JsonObject, now: JsonObject): HTMLElement[] {
    const [before, after] = [seriesOf(old), seriesOf(now)];
    if (before === null || after === null || before.rows[0]?.["lasts_s"] !== after.rows[0]?.["lasts_s"]) {
        return [];
    }
    const { group, rows } = before.rows.length >= after.rows.length ? before : after;
    const padded = (values: (number | null)[]): (number | null)[] => rows.map((_, place) => values[place] ?? null);
    const both = (title: string, unit: Plan["unit"], of: (rows: readonly Row[]) => (number | null)[]): Plan => ({
        section: "comparison",
        title,
        unit,
        lines: [
            ["old", padded(of(before.rows)), "series-1"],
            ["new", padded(of(after.rows)), "series-2", DASH],
        ],
    });
    const all = [
        both("p99 of steps, old and new", duration, (its) => column(its, "step_p99_us")),
        both("Good responses, old and new", rate, (its) => perSecond(its, "good")),
    ];
    return all
        .map(optionsOf)
        .filter((its) => its !== null)
        .map((its) => chart(its, group));
}
