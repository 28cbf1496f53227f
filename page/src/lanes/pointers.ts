/** Turns what mouse and fingers do on a canvas into what it means. */

export interface Meanings {
    /** The content follows the pointer by so many pixels. */
    pan: (pixels: number) => void;
    /** Zooms by a factor, below 1 to see less, around a place. */
    zoom: (factor: number, x: number) => void;
    /** Shows what lies between two places. */
    select: (left: number, right: number) => void;
    click: (x: number, y: number) => void;
    hover: (x: number, y: number) => void;
    leave: () => void;
}

/** A pointer that moved by less was a click. */
const CLICK = 4;

export class Pointers {
    private readonly down = new Map<number, { x: number; y: number }>();
    private began: { x: number; y: number; isSelecting: boolean } | null = null;
    private hasMoved = false;
    private readonly band = document.createElement("div");

    constructor(
        private readonly canvas: HTMLCanvasElement,
        private readonly meanings: Meanings,
    ) {
        this.band.className = "band";
        this.band.hidden = true;
        canvas.after(this.band);
        canvas.addEventListener("pointerdown", this.onDown.bind(this));
        canvas.addEventListener("pointermove", this.onMove.bind(this));
        canvas.addEventListener("pointerup", this.onUp.bind(this));
        canvas.addEventListener("pointercancel", this.onUp.bind(this));
        canvas.addEventListener("pointerleave", meanings.leave);
        canvas.addEventListener("dblclick", (event) => {
            meanings.zoom(1 / 3, this.place(event).x);
        });
    }

    private place(event: MouseEvent): { x: number; y: number } {
        const box = this.canvas.getBoundingClientRect();
        return { x: event.clientX - box.left, y: event.clientY - box.top };
    }

    private onDown(event: PointerEvent): void {
        if (event.button !== 0) {
            return;
        }
        const place = this.place(event);
        this.canvas.setPointerCapture(event.pointerId);
        this.canvas.focus({ preventScroll: true });
        this.down.set(event.pointerId, place);
        this.began = { ...place, isSelecting: event.shiftKey };
        this.hasMoved = this.down.size > 1;
    }

    private onMove(event: PointerEvent): void {
        const place = this.place(event);
        const before = this.down.get(event.pointerId);
        if (before === undefined || this.began === null) {
            this.meanings.hover(place.x, place.y);
            return;
        }
        if (Math.hypot(place.x - this.began.x, place.y - this.began.y) >= CLICK) {
            this.hasMoved = true;
        }
        if (!this.hasMoved) {
            return;
        }
        this.meanings.leave();
        const other = [...this.down].find(([id]) => id !== event.pointerId)?.[1];
        if (other !== undefined) {
            const [was, is] = [Math.abs(before.x - other.x), Math.abs(place.x - other.x)];
            this.meanings.zoom(Math.max(was, 10) / Math.max(is, 10), (place.x + other.x) / 2);
        } else if (this.began.isSelecting) {
            this.band.hidden = false;
            this.band.style.left = `${Math.min(place.x, this.began.x)}px`;
            this.band.style.width = `${Math.abs(place.x - this.began.x)}px`;
        } else {
            this.meanings.pan(place.x - before.x);
        }
        this.down.set(event.pointerId, place);
    }

    private onUp(event: PointerEvent): void {
        const { began } = this;
        if (!this.down.delete(event.pointerId) || began === null || this.down.size > 0) {
            return;
        }
        const place = this.place(event);
        this.began = null;
        this.band.hidden = true;
        if (event.type === "pointercancel") {
            return;
        }
        if (!this.hasMoved) {
            this.meanings.click(place.x, place.y);
        } else if (began.isSelecting && Math.abs(place.x - began.x) >= CLICK) {
            this.meanings.select(Math.min(place.x, began.x), Math.max(place.x, began.x));
        }
    }
}
