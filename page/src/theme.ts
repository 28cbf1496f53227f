/** The colours of the style sheet for canvases, which cannot use it themselves. */

const NAMES = [
    "text",
    "muted",
    "line",
    "surface",
    "raised",
    "good",
    "bad",
    "waiting",
    "idle",
    "held",
    "held-text",
    "other",
    "select",
    "series-1",
    "series-2",
    "series-3",
    "series-4",
] as const;

export type ColourName = (typeof NAMES)[number];
export type Colours = Readonly<Record<ColourName, string>>;

let current: Colours | null = null;

/** The colours that the page has now. */
export function colours(): Colours {
    if (current === null) {
        const style = getComputedStyle(document.documentElement);
        current = Object.fromEntries(
            NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
        ) as Colours;
    }
    return current;
}

const redraws = new Set<() => void>();

/** Calls `redraw` when the colours change. */
export function onColours(redraw: () => void): void {
    redraws.add(redraw);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    current = null;
    for (const redraw of redraws) {
        redraw();
    }
});

export const FONT = '12px system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

/** Sizes a canvas for the screen's pixels; returns its context, which counts in CSS pixels. */
export function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
    const ratio = globalThis.devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) {
        canvas.width = wide;
        canvas.height = high;
        canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    context?.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
}

/** Calls `draw` once before the screen is painted next, however often it is asked. */
export function onFrame(draw: () => void): () => void {
    let isDue = false;
    return () => {
        if (!isDue) {
            isDue = true;
            requestAnimationFrame(() => {
                isDue = false;
                draw();
            });
        }
    };
}

/** Calls `draw` when an element gets another width. */
export function onWidth(element: Element, draw: () => void): void {
    let width = -1;
    new ResizeObserver(([entry]) => {
        const now = entry?.contentRect.width ?? 0;
        if (now !== width && now > 0) {
            width = now;
            draw();
        }
    }).observe(element);
}
