/** Plain text with paragraphs and lists as elements. */

import { type Child, h } from "./dom.ts";

/** The lines of a paragraph as one text. */
function joined(lines: readonly string[]): string {
    return lines.map((line) => line.trim()).join(" ");
}

/** A text in which words between backticks are code, and issues have the names of their repositories. */
function spans(text: string): Child[] {
    return text.split(/`([^`]+)`/).map((part, place) => {
        const whole = part.replace(/(?<![\w/-])(core|server|common|backend)#(\d+)/g, "triton-inference-server/$1#$2");
        return place % 2 === 1 ? h("code", { class: "inline" }, part) : whole;
    });
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
        before.length > 0 && h("p", {}, ...spans(joined(before))),
        items.length > 0 && h("ul", {}, ...items.map((item) => h("li", {}, ...spans(joined(item))))),
    ];
}

/** The paragraphs and lists of a plain text. */
export function prose(text: string): Child[] {
    return text.split(/\n\s*\n/).flatMap(block);
}
