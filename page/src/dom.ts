/**
 * Makes elements. Texts go through `textContent`, with hidden characters made visible, so nothing of a server is ever parsed as HTML.
 */

import { visible } from "./format.ts";

export type Child = Node | string | number | null | undefined | false;

/** The attributes that elements of this page have. None of them takes a script or an address. */
export type Attributes = Partial<
    Record<
        | "class"
        | "id"
        | "role"
        | "tabindex"
        | "title"
        | "type"
        | "scope"
        | "for"
        | "value"
        | "colspan"
        | "lang"
        | "placeholder"
        | "autocomplete"
        | "spellcheck"
        | "open"
        | "aria-label"
        | "aria-labelledby"
        | "aria-describedby"
        | "aria-live"
        | "aria-hidden"
        | "aria-pressed"
        | "aria-current"
        | "aria-roledescription"
        | `data-${string}`,
        string
    >
>;

/** An element with attributes and children; a text among the children becomes a text node. */
export function h<Tag extends keyof HTMLElementTagNameMap>(
    tag: Tag,
    attributes: Attributes = {},
    ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes) as [string, string][]) {
        element.setAttribute(name, visible(value));
    }
    add(element, children);
    return element;
}

/** Adds children to an element; what is `null`, `undefined` or `false` is left out. */
export function add(parent: Node, children: readonly Child[]): void {
    for (const child of children) {
        if (child !== null && child !== undefined && child !== false) {
            parent.appendChild(child instanceof Node ? child : document.createTextNode(visible(String(child))));
        }
    }
}

/** Replaces the children of an element. */
export function fill(parent: Element, ...children: readonly Child[]): void {
    parent.replaceChildren();
    add(parent, children);
}

/** A link to an element of this page. */
export function link(id: string, ...children: readonly Child[]): HTMLAnchorElement {
    const anchor = h("a", {}, ...children);
    anchor.href = `#${encodeURIComponent(id)}`;
    return anchor;
}

export function button(label: string, onClick: () => void, attributes: Attributes = {}): HTMLButtonElement {
    const made = h("button", { type: "button", ...attributes }, label);
    made.addEventListener("click", onClick);
    return made;
}

/** Elements whose content is made when they are first opened. */
export function unfolding(
    summary: readonly Child[],
    make: () => readonly Child[],
    attributes: Attributes = {},
): HTMLDetailsElement {
    const details = h("details", attributes, h("summary", {}, ...summary));
    let isMade = false;
    const open = (): void => {
        if (details.open && !isMade) {
            isMade = true;
            add(details, make());
        }
    };
    details.addEventListener("toggle", open);
    if (details.open) {
        open();
    }
    return details;
}

/** A cell of a table: its words, and whether it is a number. */
export type Cell = Child | { readonly cell: Child; readonly class?: string };

/** For tables whose cells say themselves which of them are numbers. */
export const NO_NUMBERS = Infinity;

/**
 * A table that scrolls on its own where it is wider than the page. The first cell of each row is its heading. Cells from the column
 * `numbersFrom` on are numbers.
 */
export function table(
    caption: string,
    head: readonly string[],
    rows: readonly (readonly Cell[])[],
    numbersFrom = 1,
): HTMLElement {
    const classOf = (value: Cell | undefined, place: number): string => {
        const isRich = typeof value === "object" && value !== null && "cell" in value;
        return isRich ? (value.class ?? "") : place >= numbersFrom ? "number" : "";
    };
    const cell = (value: Cell, place: number): HTMLTableCellElement => {
        const child = typeof value === "object" && value !== null && "cell" in value ? value.cell : value;
        const own = { class: classOf(value, place) };
        return place === 0 ? h("th", { scope: "row", ...own }, child) : h("td", own, child);
    };
    const heading = (name: string, place: number): HTMLElement =>
        h("th", { scope: "col", class: classOf(rows[0]?.[place], place) }, name);
    return h(
        "div",
        { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
        h(
            "table",
            {},
            h("caption", { class: "hidden" }, caption),
            h("thead", {}, h("tr", {}, ...head.map(heading))),
            h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map(cell)))),
        ),
    );
}

/** A table without the columns in which every cell is an empty text. */
export function tableOfUsed(caption: string, head: readonly string[], rows: readonly (readonly Cell[])[]): HTMLElement {
    const isUsed = head.map((_, place) => rows.some((row) => row[place] !== ""));
    const kept = <Item>(items: readonly Item[]): Item[] => items.filter((_, place) => isUsed[place]);
    return table(caption, kept(head), rows.map(kept), NO_NUMBERS);
}

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element. Its attributes are numbers, classes and shapes of this page. */
export function svg<Tag extends keyof SVGElementTagNameMap>(
    tag: Tag,
    attributes: Readonly<Record<string, string | number>> = {},
    ...children: readonly Child[]
): SVGElementTagNameMap[Tag] {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) {
        element.setAttribute(name, String(value));
    }
    add(element, children);
    return element;
}

let ids = 0;

/** An ID that no other element of the page has. */
export function freshId(prefix: string): string {
    ids += 1;
    return `${prefix}-${ids}`;
}
