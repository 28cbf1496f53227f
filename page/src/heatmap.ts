/** Latency over time as a heat map: how many responses each interval has in each bucket. */

import { type Counts, bound, countsOf, range, sum } from "./buckets.ts";
import { h } from "./dom.ts";
import { axisMoment, counted, duration } from "./format.ts";
import { number } from "./json.ts";
import type { Series } from "./series.ts";
import { FONT, colours, onColours, onFrame, onWidth, sized } from "./theme.ts";
import { ticks } from "./span.ts";

const HEIGHT = 230;
const LEFT = 66;
const BOTTOM = 24;

interface Cells {
    series: Series;
    counts: (Counts | null)[];
    lowest: number;
    highest: number;
    most: number;
}

/** The cells of a run; `null` where its series has no buckets. */
function cellsOf(series: Series): Cells | null {
    const counts = series.rows.map(countsOf);
    const known = counts.filter((its) => its !== null);
    const bounds = range(sum(known));
    const most = Math.max(0, ...known.map((its) => Math.max(0, ...its.values())));
    return bounds === null ? null : { series, counts, lowest: bounds[0], highest: bounds[1], most };
}

/** Where the cells are drawn. */
class Grid {
    readonly rowHeight: number;

    constructor(
        readonly cells: Cells,
        readonly width: number,
    ) {
        this.rowHeight = (HEIGHT - BOTTOM) / (cells.highest - cells.lowest + 1);
    }

    x(seconds: number): number {
        const { span } = this.cells.series.group;
        return LEFT + ((seconds - span.from) / span.length) * (this.width - LEFT);
    }

    y(bucket: number): number {
        return (this.cells.highest - bucket) * this.rowHeight;
    }

    at(x: number, y: number): { row: number; bucket: number } {
        const { span } = this.cells.series.group;
        const seconds = span.from + ((x - LEFT) / (this.width - LEFT)) * span.length;
        const row = this.cells.series.rows.findIndex(
            (its) => (number(its["at_s"]) ?? 0) + (number(its["lasts_s"]) ?? 1) > seconds,
        );
        return { row, bucket: this.cells.highest - Math.floor(y / this.rowHeight) };
    }
}

function drawCells(context: CanvasRenderingContext2D, grid: Grid): void {
    const { cells } = grid;
    cells.series.rows.forEach((row, place) => {
        const from = number(row["at_s"]) ?? 0;
        const left = Math.max(LEFT, grid.x(from));
        const right = Math.min(grid.width, grid.x(from + (number(row["lasts_s"]) ?? 1)));
        if (right <= left) {
            return;
        }
        for (const [bucket, count] of cells.counts[place] ?? []) {
            if (count > 0) {
                context.globalAlpha = 0.12 + 0.88 * (Math.log1p(count) / Math.log1p(cells.most));
                context.fillRect(
                    left,
                    grid.y(bucket),
                    Math.max(1, right - left - 0.5),
                    Math.max(1, grid.rowHeight - 0.5),
                );
            }
        }
    });
    context.globalAlpha = 1;
}

function drawAxes(context: CanvasRenderingContext2D, grid: Grid): void {
    const { cells } = grid;
    const { span } = cells.series.group;
    context.fillStyle = colours().muted;
    context.strokeStyle = colours().line;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const every = Math.max(1, Math.ceil((18 * (cells.highest - cells.lowest + 1)) / (HEIGHT - BOTTOM)));
    for (let bucket = cells.lowest; bucket <= cells.highest; bucket += every) {
        context.fillText(duration(bound(bucket)), LEFT - 6, grid.y(bucket) + grid.rowHeight - 6);
    }
    context.textAlign = "left";
    for (const time of ticks(span.from, span.until, (grid.width - LEFT) / 110, 1)) {
        context.fillText(axisMoment(time * 1e6, span.length * 1e6), grid.x(time) + 2, HEIGHT - BOTTOM / 2);
    }
}

/** What a cell says. */
function words(cells: Cells, row: number, bucket: number): string {
    const at = number(cells.series.rows[row]?.["at_s"]) ?? 0;
    const count = cells.counts[row]?.get(bucket) ?? 0;
    return `${at} s, ${duration(bound(bucket))} to ${duration(bound(bucket + 1))}: ${counted(count, "response")}`;
}

/** The bucket of a row that has the most responses. */
function fullest(counts: Counts | null | undefined): number | null {
    const [first, ...others] = [...(counts ?? [])];
    return first === undefined ? null : others.reduce((best, its) => (its[1] > best[1] ? its : best), first)[0];
}

/** The heat map as a figure that can be operated with keys; `null` where the series has no buckets. */
export function heatMap(series: Series): HTMLElement | null {
    const cells = cellsOf(series);
    if (cells === null) {
        return null;
    }
    const { group } = series;
    const says = h(
        "p",
        { class: "legend", "aria-live": "polite" },
        "Darker: more responses. Move over the chart for counts.",
    );
    const label =
        `Heat map of the latency of steps, from ${duration(bound(cells.lowest))} to ${duration(bound(cells.highest + 1))}; ` +
        `at most ${counted(cells.most, "response")} in a cell. Arrows: cells; plus and minus: zoom; 0: the whole run.`;
    const canvas = h("canvas", {
        tabindex: "0",
        role: "application",
        "aria-roledescription": "heat map",
        "aria-label": label,
    });
    let chosen: { row: number; bucket: number } | null = null;
    const redraw = onFrame(() => {
        const width = canvas.clientWidth;
        const context = width > 0 ? sized(canvas, width, HEIGHT) : null;
        if (context === null) {
            return;
        }
        const grid = new Grid(cells, width);
        context.font = FONT;
        context.clearRect(0, 0, width, HEIGHT);
        context.fillStyle = colours()["series-1"];
        drawCells(context, grid);
        drawAxes(context, grid);
        if (chosen !== null) {
            const row = series.rows[chosen.row] ?? {};
            const left = grid.x(number(row["at_s"]) ?? 0);
            const right = grid.x((number(row["at_s"]) ?? 0) + (number(row["lasts_s"]) ?? 1));
            context.strokeStyle = colours().select;
            context.lineWidth = 2;
            context.strokeRect(left, grid.y(chosen.bucket), right - left, grid.rowHeight);
            context.lineWidth = 1;
        }
    });
    const choose = (row: number, bucket: number): void => {
        chosen = { row, bucket };
        says.textContent = words(cells, row, bucket);
        redraw();
    };
    canvas.addEventListener("pointermove", (event) => {
        const { row, bucket } = new Grid(cells, canvas.clientWidth).at(event.offsetX, event.offsetY);
        if (row >= 0 && event.offsetX >= LEFT && bucket >= cells.lowest) {
            choose(row, bucket);
        }
    });
    canvas.addEventListener("keydown", (event) => {
        const from = chosen ?? { row: 0, bucket: fullest(cells.counts[0]) ?? cells.lowest };
        const [right, up] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[
            event.key
        ] ?? [0, 0];
        if (right !== 0 || up !== 0) {
            const row = Math.min(series.rows.length - 1, Math.max(0, from.row + (right ?? 0)));
            choose(row, Math.min(cells.highest, Math.max(cells.lowest, from.bucket + (up ?? 0))));
            event.preventDefault();
        } else if (group.press(event)) {
            event.preventDefault();
        }
    });
    group.zoomWithWheel(canvas, (event) =>
        Math.min(1, Math.max(0, (event.offsetX - LEFT) / Math.max(1, canvas.clientWidth - LEFT))),
    );
    group.onChange(redraw);
    onColours(redraw);
    const figure = h(
        "figure",
        { class: "chart wide" },
        h("figcaption", {}, "Latency of steps as a heat map"),
        says,
        canvas,
    );
    onWidth(figure, redraw);
    return figure;
}
