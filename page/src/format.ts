/** Numbers, times and texts for people. */

/** A number with three significant digits, or all digits before the point where these are more. */
export function short(value: number): string {
    return String(Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3)));
}

/** A time in µs with the unit that fits its size. */
export function duration(us: number | null): string {
    if (us === null) {
        return "–";
    }
    const size = Math.abs(us);
    if (size === 0) {
        return "0";
    }
    if (size < 1000) {
        return `${short(us)} µs`;
    }
    if (size < 1e6) {
        return `${short(us / 1000)} ms`;
    }
    return size < 120e6 ? `${short(us / 1e6)} s` : long(size, 0);
}

/** A time of two minutes or more, in µs, in hours, minutes and seconds; what is 0 at its end is left out. */
function long(us: number, digits: number): string {
    const seconds = Number((us / 1e6).toFixed(digits));
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
    const rest = seconds - 3600 * hours - 60 * minutes;
    const parts = [hours > 0 && `${hours} h`, minutes > 0 && `${minutes} min`, rest > 0 && `${rest.toFixed(digits)} s`];
    return parts.filter((part) => part !== false).join(" ") || "0 s";
}

/** From here on a moment is told in minutes, in µs. */
const MINUTES_FROM = 600e6;

/** A moment in µs since the run began, exact enough to tell moments apart that are `span` µs apart. */
export function moment(us: number, span = 1e6): string {
    const digits = Math.min(6, Math.max(1, Math.ceil(7 - Math.log10(Math.max(1, span)))));
    return us < MINUTES_FROM ? `${(us / 1e6).toFixed(digits)} s` : long(us, digits);
}

/** A moment in µs as an axis names it that shows `span` µs. */
export function axisMoment(us: number, span: number): string {
    return span < MINUTES_FROM && us < MINUTES_FROM
        ? `${Number((us / 1e6).toFixed(6))} s`
        : long(us, span < 10e6 ? 3 : 0);
}

export function milliseconds(us: number | null): string {
    return us === null ? "–" : (us / 1000).toFixed(1);
}

export function count(value: number | null): string {
    return value === null ? "–" : String(value);
}

/** `1 request`, `2 requests`. */
export function counted(value: number, noun: string): string {
    return `${value} ${noun}${value === 1 ? "" : "s"}`;
}

export function rate(value: number | null): string {
    return value === null ? "–" : `${short(value)}/s`;
}

export function percent(share: number): string {
    return `${short(share * 100)} %`;
}

export function bytes(value: number | null): string {
    if (value === null) {
        return "–";
    }
    if (value === 0) {
        return "0";
    }
    const [unit, name] = [
        [1e9, "GB"],
        [1e6, "MB"],
        [1e3, "kB"],
    ].find(([size]) => Math.abs(value) >= Number(size)) ?? [1, "bytes"];
    return `${short(value / Number(unit))} ${name}`;
}

/** A change as a ratio, in percent with its sign. */
export function change(ratio: number | null): string {
    if (ratio === null) {
        return "–";
    }
    const by = (ratio - 1) * 100;
    return `${by < 0 ? "−" : "+"}${short(Math.abs(by))} %`;
}

/** `2026-11-26T16:23:17Z` as `2026-11-26 16:23:17 UTC`. */
export function clock(time: string | null): string {
    const parts = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/.exec(time ?? "");
    return parts ? `${parts[1] ?? ""} ${parts[2] ?? ""} UTC` : (time ?? "");
}

/** Control characters of the first 32, DEL, the next 32, separators of lines, and those that turn the direction of writing. */
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A text in which every character can be seen: one that would be hidden, or would turn the writing, is shown by its number. */
export function visible(text: string): string {
    return text.replace(HIDDEN, (character) => {
        const code = character.charCodeAt(0);
        return code < 0x20
            ? String.fromCharCode(0x2400 + code)
            : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
    });
}

/** A text of at most `length` characters. */
export function cut(text: string, length: number): string {
    return text.length > length ? `${text.slice(0, Math.max(0, length - 1))}…` : text;
}
