/** Plain text with paragraphs and lists as elements. */

import { type Child, h } from "./dom.ts";

/** The lines of a paragraph as one text. */
function joined(lines: readonly string[]): string {
    return lines.map((line) => line.trim()).join(" ");
}

/** A block between two blank lines: a list where its lines begin with `- `, else a paragraph; both where words stand before a list. */
function block(text: string): Child[] {
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    const items: string[][] = [];
    const before: string[] = [];
    for (const line of lines) {
        if (/^\s*- /.test(line)) {
            items.push([line.replace(/^\s*- /, "")]);
        } else {
            (items.at(-1) ?? before).push(line);
        }
    }
    return [
        before.length > 0 && h("p", {}, joined(before)),
        items.length > 0 && h("ul", {}, ...items.map((item) => h("li", {}, joined(item)))),
    ];
}

/** The paragraphs and lists of a plain text. */
export function prose(text: string): Child[] {
    return text.split(/\n\s*\n/).flatMap(block);
}
