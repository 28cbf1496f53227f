/** The span of time that a figure shows, with its zoom. */

/** The shortest span: some pixels for each microsecond would show nothing more. */
const SHORTEST_US = 50;

export class Span {
    from: number;
    until: number;

    constructor(
        readonly first: number,
        readonly last: number,
        private readonly shortest = SHORTEST_US,
    ) {
        this.from = first;
        this.until = last;
    }

    get length(): number {
        return this.until - this.from;
    }

    get isWhole(): boolean {
        return this.from <= this.first && this.until >= this.last;
    }

    /** Shows a span, moved and shortened so that it lies within the whole. */
    show(from: number, until: number): void {
        const whole = this.last - this.first;
        const length = Math.min(whole, Math.max(Math.min(this.shortest, whole), until - from));
        const middle = (from + until) / 2;
        const start = Math.min(Math.max(middle - length / 2, this.first), this.last - length);
        this.from = start;
        this.until = start + length;
    }

    whole(): void {
        this.show(this.first, this.last);
    }

    /** Zooms by a factor, below 1 to see less; the moment `around` keeps its place. */
    zoom(factor: number, around = (this.from + this.until) / 2): void {
        const length = Math.min(this.last - this.first, Math.max(this.shortest, this.length * factor));
        const share = this.length > 0 ? (around - this.from) / this.length : 0.5;
        this.show(around - length * share, around + length * (1 - share));
    }

    /** Moves by a share of what is shown. */
    pan(share: number): void {
        const by = this.length * share;
        const bounded = Math.min(Math.max(by, this.first - this.from), this.last - this.until);
        this.show(this.from + bounded, this.until + bounded);
    }

    /** Moves and, where it has to, zooms out, so that a span is seen with a margin. */
    reveal(from: number, until: number): void {
        const margin = Math.max(this.length * 0.05, (until - from) * 0.1);
        if (until - from + 2 * margin > this.length) {
            this.show(from - margin, until + margin);
        } else if (from - margin < this.from) {
            this.show(from - margin, from - margin + this.length);
        } else if (until + margin > this.until) {
            this.show(until + margin - this.length, until + margin);
        }
    }
}

/** Round numbers of seconds above a minute. */
const LONG = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/** Round times for an axis, about `wanted` of them; `second` is a second in the unit of the times. */
export function ticks(from: number, until: number, wanted: number, second: number): number[] {
    const raw = (until - from) / Math.max(1, wanted);
    const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1e-9)));
    const short = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10);
    const step = raw < 30 * second ? short : (LONG.find((its) => its * second >= raw) ?? 86_400) * second;
    const times: number[] = [];
    for (let place = Math.ceil(from / step); place * step <= until; place += 1) {
        times.push(place * step);
    }
    return times;
}
