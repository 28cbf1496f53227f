/** A command line with a button that copies it. */

import { h } from "./dom.ts";

/** Copies a text without the clipboard's interface, which a page of a file may lack. */
function copyBySelection(text: string): boolean {
    const area = h("textarea", { "aria-hidden": "true", class: "offscreen" });
    area.value = text;
    document.body.appendChild(area);
    area.select();
    // The only way where there is no clipboard interface.
    // eslint-disable-next-line @typescript-eslint/no-deprecated
    const isCopied = document.execCommand("copy");
    area.remove();
    return isCopied;
}

async function copied(text: string): Promise<boolean> {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        return copyBySelection(text);
    }
}

/** A command line with a button that copies it exactly as it was given. `what` names it for screen readers. */
export function command(line: string, what: string): HTMLElement {
    const said = h("span", { class: "said", "aria-live": "polite" });
    const press = h("button", { type: "button", class: "copy", "aria-label": `Copy ${what}` }, "Copy");
    press.addEventListener("click", () => {
        void copied(line).then((isCopied) => {
            said.textContent = isCopied ? "copied" : "not copied: select the text and copy it";
        });
    });
    return h(
        "div",
        { class: "command" },
        h("code", { tabindex: "0", role: "group", "aria-label": what }, line),
        h("div", {}, press, said),
    );
}
