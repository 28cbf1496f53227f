/** Charts over time that share their span and their cursor. */

import uPlot from "uplot";

import { type Child, fill, h } from "./dom.ts";
import { axisMoment } from "./format.ts";
import { Span, ticks } from "./span.ts";
import { type ColourName, FONT, colours, onColours, onWidth } from "./theme.ts";
import { ZOOM, zoomButtons } from "./zoombar.ts";

/** A line of a chart. */
export interface Line {
    label: string;
    values: (number | null)[];
    colour: ColourName;
    dash?: number[];
}

/** A moment that all charts mark. */
export interface Moment {
    at: number;
    words: string;
}

export interface ChartOptions {
    title: string;
    /** What the chart says, in a sentence, for those who do not see it. */
    summary: string;
    unit: (value: number) => string;
    lines: Line[];
    isLogarithmic?: boolean;
}

const HEIGHT = 190;
/** The least distance of two times on an axis, in pixels. */
const TICK = 90;
let groups = 0;

/** The span of time that several charts show. Times are in seconds. */
export class ChartGroup {
    readonly span: Span;
    readonly key: string;
    private readonly listeners = new Set<() => void>();

    constructor(
        /** The middle of each interval. */
        readonly times: number[],
        until: number,
        readonly moments: readonly Moment[],
    ) {
        this.span = new Span(0, Math.max(until, 1e-3), 1);
        groups += 1;
        this.key = `group-${groups}`;
    }

    onChange(listener: () => void): void {
        this.listeners.add(listener);
    }

    change(what: (span: Span) => void): void {
        what(this.span);
        for (const listener of this.listeners) {
            listener();
        }
    }

    /** Does what a key stands for; false where the key stands for nothing. */
    press(event: KeyboardEvent): boolean {
        const pan = { PageUp: -0.8, PageDown: 0.8 }[event.key];
        if (pan !== undefined) {
            this.change((span) => {
                span.pan(pan);
            });
        } else if ("+=".includes(event.key)) {
            this.change((span) => {
                span.zoom(1 / ZOOM);
            });
        } else if ("-_".includes(event.key)) {
            this.change((span) => {
                span.zoom(ZOOM);
            });
        } else if (event.key === "0" || event.key === "Home") {
            this.change((span) => {
                span.whole();
            });
        } else {
            return false;
        }
        return true;
    }

    /** Buttons that zoom all charts of the group. */
    toolbar(): HTMLElement {
        const buttons = zoomButtons(this.change.bind(this));
        return h(
            "div",
            { class: "toolbar" },
            ...buttons,
            h(
                "span",
                { class: "muted" },
                "Drag over a chart to zoom all charts. The keys +, - and the arrows do the same.",
            ),
        );
    }

    /** Zooms with the wheel while the figure has the focus, or with Ctrl. */
    zoomWithWheel(figure: HTMLElement, share: (event: WheelEvent) => number): void {
        figure.addEventListener(
            "wheel",
            (event) => {
                if (document.activeElement === figure || event.ctrlKey || event.metaKey) {
                    event.preventDefault();
                    const around = this.span.from + this.span.length * share(event);
                    this.change((span) => {
                        span.zoom(1.0015 ** event.deltaY, around);
                    });
                }
            },
            { passive: false },
        );
    }
}

/** Draws a line at each marked moment. */
function drawMoments(chart: uPlot, group: ChartGroup): void {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = colours().muted;
    ctx.setLineDash([3, 3]);
    for (const { at } of group.moments) {
        if (at >= group.span.from && at <= group.span.until) {
            const x = Math.round(chart.valToPos(at, "x", true));
            ctx.beginPath();
            ctx.moveTo(x, bbox.top);
            ctx.lineTo(x, bbox.top + bbox.height);
            ctx.stroke();
        }
    }
    ctx.restore();
}

function axis(unit: (value: number) => string, size: number): uPlot.Axis {
    return {
        stroke: () => colours().muted,
        grid: { stroke: () => colours().line, width: 1 },
        ticks: { show: false },
        font: FONT,
        size,
        values: (_chart, splits) => splits.map((value: number | null) => (value === null ? "" : unit(value))),
    };
}

function settings(
    options: ChartOptions,
    group: ChartGroup,
    width: number,
    onCursor: (index: number | null) => void,
): uPlot.Options {
    return {
        width,
        height: HEIGHT,
        legend: { show: false },
        scales: {
            x: { time: false, range: () => [group.span.from, group.span.until] },
            // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment
            y: options.isLogarithmic
                ? // The logarithmic one: the constant exists for the type checker only.
                  { distr: 3 }
                : { range: (_chart, _least, most) => [0, Math.max(most, 1e-9) * 1.08] },
        },
        axes: [
            {
                ...axis((seconds) => axisMoment(seconds * 1e6, group.span.length * 1e6), 28),
                splits: (chart, _axis, least, most) => ticks(least, most, chart.width / TICK, 1),
            },
            axis(options.unit, 66),
        ],
        series: [
            {},
            ...options.lines.map((line): uPlot.Series => ({
                label: line.label,
                stroke: () => colours()[line.colour],
                width: 1.5,
                spanGaps: false,
                ...(line.dash ? { dash: line.dash } : {}),
                points: { size: 5 },
            })),
        ],
        cursor: {
            sync: { key: group.key },
            drag: { x: true, y: false, setScale: false },
            bind: {
                dblclick: () => () => {
                    group.change((span) => {
                        span.whole();
                    });
                    return null;
                },
            },
        },
        hooks: {
            draw: [
                (chart) => {
                    drawMoments(chart, group);
                },
            ],
            setSelect: [
                (chart) => {
                    if (chart.select.width > 3) {
                        const from = chart.posToVal(chart.select.left, "x");
                        const until = chart.posToVal(chart.select.left + chart.select.width, "x");
                        chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
                        group.change((span) => {
                            span.show(from, until);
                        });
                    }
                },
            ],
            setCursor: [
                (chart) => {
                    onCursor(chart.cursor.idx ?? null);
                },
            ],
        },
    };
}

/** The names of the lines; with the values at the cursor, where it is somewhere. */
function legend(options: ChartOptions, group: ChartGroup, index: number | null): Child[] {
    const time = index === null ? undefined : group.times[index];
    return [
        time !== undefined && h("span", { class: "muted" }, `${Number(time.toFixed(2))} s`),
        ...options.lines.map((line) => {
            const value = index === null ? null : (line.values[index] ?? null);
            const words = index === null ? "" : `: ${value === null ? "–" : options.unit(value)}`;
            return h(
                "span",
                {},
                h("i", { class: `swatch line ${line.colour}${line.dash ? " dashed" : ""}` }),
                ` ${line.label}${words}`,
            );
        }),
    ];
}

/** A chart over time, as a figure that can be operated with keys. */
export function chart(options: ChartOptions, group: ChartGroup): HTMLElement {
    const names = h("p", { class: "legend" }, ...legend(options, group, null));
    const live = h("p", { class: "hidden", "aria-live": "polite" });
    const plot = h("div", {
        class: "plot",
        tabindex: "0",
        role: "application",
        "aria-roledescription": "chart over time",
        "aria-label": `${options.title}. ${options.summary} Left and right arrow: values; plus and minus: zoom; 0: the whole run.`,
    });
    let made: uPlot | null = null;
    let place = -1;
    onWidth(plot, () => {
        const width = plot.clientWidth;
        if (made === null) {
            const data: uPlot.AlignedData = [group.times, ...options.lines.map((line) => line.values)];
            made = new uPlot(
                settings(options, group, width, (index) => {
                    fill(names, ...legend(options, group, index));
                }),
                data,
                plot,
            );
        } else {
            made.setSize({ width, height: HEIGHT });
        }
    });
    group.onChange(() => {
        plot.dataset["from"] = String(group.span.from);
        plot.dataset["until"] = String(group.span.until);
        made?.setScale("x", { min: group.span.from, max: group.span.until });
    });
    onColours(() => made?.redraw(false, true));
    group.zoomWithWheel(plot, (event) => {
        const box = made?.over.getBoundingClientRect();
        return box === undefined ? 0.5 : Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    });
    plot.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (step !== undefined && made !== null) {
            place = Math.min(group.times.length - 1, Math.max(0, place + step));
            const time = group.times[place] ?? 0;
            made.setCursor({ left: made.valToPos(time, "x"), top: 10 });
            const values = options.lines.map((line) => {
                const value = line.values[place] ?? null;
                return `${line.label} ${value === null ? "not measured" : options.unit(value)}`;
            });
            live.textContent = `${Number(time.toFixed(2))} s: ${values.join(", ")}`;
            event.preventDefault();
        } else if (group.press(event)) {
            event.preventDefault();
        }
    });
    return h("figure", { class: "chart" }, h("figcaption", {}, options.title), names, plot, live);
}
