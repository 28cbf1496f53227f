/** Drawings that are made once, as wide as the page is then. */

import { type Child, h, svg } from "./dom.ts";

const [WIDEST, NARROWEST, MARGINS] = [900, 320, 32];

/** How wide a drawing is that fits the page as it is now, so that its letters keep their size on a phone. */
export function drawingWidth(): number {
    return Math.min(WIDEST, Math.max(NARROWEST, document.documentElement.clientWidth - MARGINS));
}

/** What surrounds a drawing. */
export interface Frame {
    title: string;
    /** A sentence for screen readers. */
    label: string;
    size: [width: number, height: number];
    /** Swatches with words; none for a drawing that needs none. */
    legend: readonly Child[];
}

/** A figure with a drawing, which scrolls on its own where it is wider than the page. */
export function drawing({ title, label, size: [width, height], legend }: Frame, shapes: readonly Child[]): HTMLElement {
    return h(
        "figure",
        { class: "chart wide" },
        h("figcaption", {}, title),
        legend.length > 0 && h("p", { class: "legend" }, ...legend),
        h(
            "div",
            { class: "scroll", tabindex: "0", role: "group", "aria-label": title },
            svg(
                "svg",
                { class: "bars fits", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
                ...shapes,
            ),
        ),
    );
}
