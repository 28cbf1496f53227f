/**
 * Reads JSON whose form is not certain. No function here throws: what is missing, or of another type, is `null` or empty.
 */

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

export interface JsonObject {
    readonly [key: string]: Json | undefined;
}

/** The object that `value` is; an empty one where it is none. */
export function object(value: Json | undefined): JsonObject {
    return isObject(value) ? value : {};
}

/** Whether `value` is an object, and no list. */
export function isObject(value: Json | undefined): value is JsonObject {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The elements of a list; none where `value` is no list. */
export function list(value: Json | undefined): readonly Json[] {
    return Array.isArray(value) ? (value as readonly Json[]) : [];
}

/** The number that `value` is. */
export function number(value: Json | undefined): number | null {
    return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** The text that `value` is. */
export function text(value: Json | undefined): string | null {
    return typeof value === "string" ? value : null;
}

/** A text or a number, as a text. */
export function word(value: Json | undefined): string | null {
    return typeof value === "number" ? String(value) : text(value);
}

/** The texts of a list; other elements are left out. */
export function texts(value: Json | undefined): string[] {
    return list(value).filter((item) => typeof item === "string");
}

interface Source {
    source?: string;
}

/**
 * Parses JSON. A whole number that a `number` cannot hold exactly, such as a seed of 64 bits, becomes the text of its digits where the
 * browser gives the source text to a reviver.
 *
 * @throws SyntaxError if `source` is no JSON.
 */
export function parse(source: string): Json {
    const exact = (_key: string, value: Json, context?: Source): Json => {
        const digits = context?.source;
        return typeof value === "number" && digits && /^-?\d+$/.test(digits) && !Number.isSafeInteger(value)
            ? digits
            : value;
    };
    return JSON.parse(source, exact as (key: string, value: unknown) => unknown) as Json;
}
