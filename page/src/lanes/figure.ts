/** The figure of the lanes: it draws them, and lets people zoom, move and choose with a mouse, fingers or keys. */

import { fill, h } from "../dom.ts";
import { colours, onColours, onFrame, onWidth, sized } from "../theme.ts";
import { type Scene, Scale, draw, spanText } from "./draw.ts";
import { Layout } from "./layout.ts";
import type { LaneModel } from "./model.ts";
import { type ViolationLink, sentence, show } from "./panel.ts";
import { hit } from "./hit.ts";
import { Pointers } from "./pointers.ts";
import { neighbourOf, nearestTo } from "./keys.ts";
import { Span } from "../span.ts";
import { ZOOM, zoomButtons } from "../zoombar.ts";

/** What the event `drawn` of the figure tells: how long a drawing took, and how much was drawn. */
export interface DrawnDetail {
    milliseconds: number;
    sequences: number;
    steps: number;
    from: number;
    until: number;
}

export class LanesFigure {
    readonly element: HTMLElement;
    readonly span: Span;
    private readonly canvas = h("canvas", {
        tabindex: "0",
        role: "application",
        "aria-roledescription": "chart of slots over time",
    });
    private readonly panel = h("div", { class: "panel" });
    private readonly status = h("p", { class: "status" });
    private readonly live = h("p", { class: "hidden", "aria-live": "polite" });
    private readonly tip = h("div", { class: "tip", "aria-hidden": "true" });
    private readonly hint = h(
        "p",
        { class: "hint", "aria-hidden": "true" },
        "Click the chart, or hold Ctrl, to zoom with the wheel.",
    );
    private selected: number | null = null;
    private pattern: number | null = null;
    private firstLane = 0;
    private layout: Layout;
    private readonly redraw = onFrame(() => {
        this.drawNow();
    });

    constructor(
        private readonly model: LaneModel,
        private readonly violationLink: ViolationLink,
    ) {
        this.span = new Span(model.data.from_us, model.until);
        this.layout = new Layout(model, 600, 0);
        this.panel.hidden = true;
        this.tip.hidden = true;
        this.hint.hidden = true;
        this.canvas.setAttribute("aria-label", this.summary());
        const frame = h("div", { class: "frame" }, this.canvas, this.tip, this.hint);
        this.element = h("div", { class: "lanes" }, this.toolbar(), frame, this.status, this.live, this.panel);
        this.listen();
        onColours(this.redraw);
        onWidth(frame, this.redraw);
    }

    private summary(): string {
        const { data, count, lanes } = this.model;
        const name = data.told ? "slots" : "lanes";
        return (
            `${count} sequences in ${lanes.length} ${name}, ${spanText(this.span)}. Left and right arrow: previous and next sequence of the ` +
            "lane; up and down: another lane; Enter: its steps; plus and minus: zoom; Shift with an arrow: move; 0: the whole run; Escape: close."
        );
    }

    private toolbar(): HTMLElement {
        const search = h("input", {
            type: "search",
            placeholder: "202 or 2-1-4-9",
            "aria-label": "Find a correlation ID or a request",
            autocomplete: "off",
            spellcheck: "false",
        });
        const form = h("form", { class: "find" }, search, h("button", { type: "submit" }, "Find"));
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            this.find(search.value.trim());
        });
        const buttons = zoomButtons((what) => {
            what(this.span);
            this.redraw();
        });
        return h("div", { class: "toolbar" }, ...buttons, this.patterns(), form);
    }

    /** A choice of the pattern that stands out. */
    private patterns(): HTMLElement | null {
        const names = this.model.data.patterns;
        if (names.length < 2) {
            return null;
        }
        const select = h(
            "select",
            { "aria-label": "Pattern that stands out" },
            h("option", { value: "" }, "all patterns"),
        );
        names.forEach((name, place) => select.appendChild(h("option", { value: String(place) }, name)));
        select.addEventListener("change", () => {
            this.pattern = select.value === "" ? null : Number(select.value);
            this.redraw();
        });
        return select;
    }

    private scene(): Scene {
        const { model, layout, span, selected, pattern } = this;
        return { model, layout, span, colours: colours(), selected, pattern };
    }

    private drawNow(): void {
        const width = this.canvas.clientWidth;
        if (width === 0) {
            return;
        }
        this.layout = new Layout(this.model, width, this.firstLane);
        const context = sized(this.canvas, width, this.layout.height);
        if (context === null) {
            return;
        }
        const began = performance.now();
        const drawn = draw(context, this.scene());
        const { from, until } = this.span;
        const detail: DrawnDetail = { milliseconds: performance.now() - began, ...drawn, from, until };
        this.status.textContent = this.statusText();
        this.element.dispatchEvent(new CustomEvent("drawn", { detail }));
    }

    private statusText(): string {
        const { firstLane, layout, model } = this;
        const lanes =
            layout.seen < model.lanes.length
                ? ` Lanes ${firstLane} to ${firstLane + layout.seen - 1} of ${model.lanes.length}: up and down arrow show others.`
                : "";
        return `Shown: ${spanText(this.span)}.${lanes}`;
    }

    /** Chooses a sequence, shows it in the figure, and its steps in the panel. */
    choose(row: number, withPanel = true): void {
        this.selected = row;
        this.span.reveal(this.model.beginOf(row), this.model.overAt(row));
        this.showLane(this.model.laneOf(row));
        fill(this.live, sentence(this.model, row));
        if (withPanel) {
            show(this.panel, this.model, row, {
                choose: (other) => {
                    this.choose(other);
                    this.panel.querySelector<HTMLElement>(".panel-head button")?.focus();
                },
                close: () => {
                    this.close();
                },
                violation: this.violationLink,
            });
        }
        this.redraw();
    }

    /** Zooms so that a sequence takes a third of the figure, and chooses it. */
    zoomTo(row: number): void {
        const [from, until] = [this.model.beginOf(row), this.model.overAt(row)];
        const margin = Math.max(1000, until - from);
        this.span.show(from - margin, until + margin);
        this.choose(row);
    }

    private close(): void {
        this.panel.hidden = true;
        this.selected = null;
        this.canvas.focus();
        this.redraw();
    }

    private showLane(lane: number | null): void {
        if (lane !== null) {
            const last = this.model.lanes.length - this.layout.seen;
            const least = Math.max(0, lane - this.layout.seen + 1);
            this.firstLane = Math.max(0, Math.min(last, Math.max(least, Math.min(this.firstLane, lane))));
        }
    }

    private find(words: string): void {
        const row = this.model.rowNamed(words) ?? this.model.rowsOfId(words)[0] ?? null;
        if (row === null) {
            this.live.textContent = "";
            fill(this.status, `No sequence of this report has the correlation ID or the request '${words}'.`);
            return;
        }
        this.zoomTo(row);
    }

    private listen(): void {
        const { canvas } = this;
        canvas.addEventListener("keydown", (event) => {
            if (this.key(event)) {
                event.preventDefault();
            }
        });
        canvas.addEventListener(
            "wheel",
            (event) => {
                if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) {
                    this.hint.hidden = false;
                    return;
                }
                event.preventDefault();
                this.wheel(event);
            },
            { passive: false },
        );
        const at = (x: number): number => new Scale(this.layout, this.span).at(x);
        new Pointers(canvas, {
            pan: this.panBy.bind(this),
            zoom: (factor, x) => {
                this.span.zoom(factor, at(x));
                this.redraw();
            },
            select: (left, right) => {
                this.span.show(at(left), at(right));
                this.redraw();
            },
            click: (x, y) => {
                const found = hit(this.scene(), x, y);
                if (found.row !== null) {
                    this.choose(found.row);
                }
            },
            hover: (x, y) => {
                this.hover(x, y);
            },
            leave: () => {
                this.tip.hidden = true;
                this.hint.hidden = true;
            },
        });
    }

    private panBy(pixels: number): void {
        this.span.pan(-pixels / this.layout.plotWidth);
        this.redraw();
    }

    private wheel(event: WheelEvent): void {
        this.hint.hidden = true;
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
            this.panBy(-(event.deltaX || event.deltaY));
        } else {
            const x = event.clientX - this.canvas.getBoundingClientRect().left;
            this.span.zoom(1.0015 ** event.deltaY, new Scale(this.layout, this.span).at(x));
        }
        this.redraw();
    }

    private hover(x: number, y: number): void {
        const words = hit(this.scene(), x, y).words;
        this.tip.hidden = words === null;
        if (words !== null) {
            fill(this.tip, words);
            const left = Math.min(x + 12, this.layout.width - this.tip.offsetWidth - 4);
            this.tip.style.left = `${Math.max(0, left)}px`;
            this.tip.style.top = `${y + 16}px`;
        }
    }

    /** Does what a key stands for; false where the key stands for nothing. */
    private key(event: KeyboardEvent): boolean {
        const pan = event.shiftKey
            ? { ArrowLeft: -0.2, ArrowRight: 0.2 }[event.key]
            : { PageUp: -0.8, PageDown: 0.8 }[event.key];
        if (pan !== undefined) {
            this.span.pan(pan);
        } else if (event.key.startsWith("Arrow")) {
            this.move(event.key);
        } else if (event.key === "Enter") {
            const row = this.selected ?? nearestTo(this.model, this.span);
            if (row !== null) {
                this.choose(row);
            }
        } else if (event.key === "Escape") {
            this.close();
        } else if ("+=".includes(event.key) || "-_".includes(event.key)) {
            const factor = "+=".includes(event.key) ? 1 / ZOOM : ZOOM;
            const row = this.selected;
            this.span.zoom(factor, row === null ? undefined : this.middleOf(row));
        } else if (event.key === "0" || event.key === "Home") {
            this.span.whole();
        } else {
            return false;
        }
        this.redraw();
        return true;
    }

    /** A moment at which a sequence had its slot and that is in view, around which to zoom; the middle of the view where none is. */
    private middleOf(row: number): number | undefined {
        const from = Math.max(this.span.from, this.model.heldAt(row) ?? this.model.beginOf(row));
        const until = Math.min(this.span.until, this.model.overAt(row));
        return from <= until ? (from + until) / 2 : undefined;
    }

    private move(key: string): void {
        const row =
            this.selected === null ? nearestTo(this.model, this.span) : neighbourOf(this.model, this.selected, key);
        if (row !== null) {
            this.choose(row, !this.panel.hidden);
        }
    }
}
