/** The buttons that zoom and move a figure. */

import { button } from "./dom.ts";
import type { Span } from "./span.ts";

/** By which factor a button or a key zooms. */
export const ZOOM = 1.6;

/** Buttons that change a span; `change` applies what a button does, and draws. */
export function zoomButtons(change: (what: (span: Span) => void) => void): HTMLButtonElement[] {
    const does = (label: string, what: (span: Span) => void): HTMLButtonElement =>
        button(label, () => {
            change(what);
        });
    return [
        does("Zoom in", (span) => {
            span.zoom(1 / ZOOM);
        }),
        does("Zoom out", (span) => {
            span.zoom(ZOOM);
        }),
        does("Earlier", (span) => {
            span.pan(-0.4);
        }),
        does("Later", (span) => {
            span.pan(0.4);
        }),
        does("Whole run", (span) => {
            span.whole();
        }),
    ];
}
