/** Draws narrow bars of one row, and draws those of one colour that touch each other as one. */

/** Bars that are less than so many pixels apart touch each other. */
const APART = 1;

export class Bars {
    private left = 0;
    private right = -Infinity;
    private colour = "";
    private alpha = 1;

    constructor(
        private readonly context: CanvasRenderingContext2D,
        private readonly top: number,
        private readonly height: number,
    ) {}

    /** Adds a bar behind the last one. */
    add(left: number, right: number, colour: string, alpha: number): void {
        if (left - this.right < APART && colour === this.colour && alpha === this.alpha) {
            this.right = Math.max(this.right, right);
            return;
        }
        this.flush();
        this.left = left;
        this.right = right;
        this.colour = colour;
        this.alpha = alpha;
    }

    /** Draws what was added; has to be called before anything is drawn on top, and at the end. */
    flush(): void {
        if (this.right > this.left) {
            this.context.globalAlpha = this.alpha;
            this.context.fillStyle = this.colour;
            this.context.fillRect(this.left, this.top, this.right - this.left, this.height);
        }
        this.right = -Infinity;
        this.left = 0;
    }
}
