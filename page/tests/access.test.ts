/** Tests of the page for all people: axe finds nothing, in light and dark, wide and narrow; and the page is as wide as the screen. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

import type { BrowserContextOptions, Page } from "playwright-core";

import { browser } from "./browser.ts";
import { pack, report, simulate, simulated } from "./generator.ts";

const AXE = readFileSync(createRequire(join(process.cwd(), "package.json")).resolve("axe-core/axe.min.js"), "utf8");
const PHONE = { width: 380, height: 800 };

const reports = browser();

interface Axe {
    run: (
        context: Document,
        options: object,
    ) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }>;
}

/** What axe finds: a line for each element. */
async function findings(page: Page): Promise<string[]> {
    await page.evaluate(AXE);
    return page.evaluate(async () => {
        const axe = (globalThis as unknown as { axe: Axe }).axe;
        const { violations } = await axe.run(document, { resultTypes: ["violations"] });
        return violations.flatMap(({ id, nodes }) =>
            nodes.map((node) => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary}`),
        );
    });
}

/** Unfolds everything, and opens the panel of a sequence. */
async function unfold(page: Page): Promise<void> {
    await page.evaluate(async () => {
        for (;;) {
            const closed = [...document.querySelectorAll<HTMLDetailsElement>("details:not([open])")];
            if (closed.length === 0) {
                return;
            }
            for (const details of closed) {
                const isOpen = new Promise((resolve) => {
                    details.addEventListener("toggle", resolve, { once: true });
                });
                details.open = true;
                await isOpen;
            }
            await new Promise((resolve) => setTimeout(resolve));
        }
    });
    const canvas = page.locator(".lanes canvas").first();
    if ((await canvas.count()) > 0) {
        await canvas.focus();
        await canvas.press("Enter");
        await page.locator(".panel").first().waitFor();
    }
}

/** The results of the tool of each form, and a simulated run. */
function everything(): unknown {
    const written = (name: string): Record<string, unknown> =>
        JSON.parse(readFileSync(join(process.cwd(), "tests/data", name), "utf8")) as Record<string, unknown>;
    const { lanes, document } = simulate({ told: false });
    const bare = (
        name: string,
    ): { name: string; document: Record<string, unknown>; lanes: null[]; lanes_note: null } => ({
        name,
        document: written(name),
        lanes: [],
        lanes_note: null,
    });
    const own = { name: "simulated", document, lanes: [pack(lanes)], lanes_note: "The history was cut." };
    return report(
        [own, bare("limit.json"), bare("run.json"), bare("suite.json"), bare("hunt.json"), bare("window.json")],
        written("compare.json"),
    );
}

const looks: [string, BrowserContextOptions][] = [
    ["wide and light", { colorScheme: "light" }],
    ["narrow and dark", { colorScheme: "dark", viewport: PHONE }],
];

for (const [name, options] of looks) {
    test(`axe finds nothing in a run, ${name}`, async () => {
        const { page } = await reports.show(simulated(), options);
        await unfold(page);
        assert.deepEqual(await findings(page), []);
    });

    test(`axe finds nothing in a report of everything, ${name}`, async () => {
        const { page, said } = await reports.show(everything(), options);
        await unfold(page);
        assert.deepEqual(await findings(page), []);
        assert.deepEqual(said, []);
    });
}

test("the page is no wider than a phone, whatever is unfolded", async () => {
    const { page } = await reports.show(everything(), { viewport: PHONE });
    await unfold(page);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), PHONE.width);
});

test("the colours of the canvas follow the scheme", async () => {
    const { page } = await reports.show(simulated(), { colorScheme: "light" });
    const corner = (): Promise<number> =>
        page
            .locator(".lanes canvas")
            .evaluate(
                (canvas) => (canvas as HTMLCanvasElement).getContext("2d")?.getImageData(1, 1, 1, 1).data[0] ?? -1,
            );
    const drawn = (): Promise<unknown> =>
        page.evaluate(() =>
            new Promise((resolve) => {
                document.querySelector(".lanes")?.addEventListener("drawn", resolve, { once: true });
            }).then(() => null),
        );
    await page.waitForFunction(() => (document.querySelector<HTMLCanvasElement>(".lanes canvas")?.height ?? 0) > 150);
    assert.equal(await corner(), 255);
    const next = drawn();
    await page.emulateMedia({ colorScheme: "dark" });
    await next;
    assert.ok((await corner()) < 64);
});

test("every canvas can be reached with the tabulator, and has a name", async () => {
    const { page } = await reports.show(simulated());
    const names = await page
        .locator("canvas[tabindex='0'], .plot[tabindex='0']")
        .evaluateAll((all) => all.map((its) => its.getAttribute("aria-label") ?? ""));
    const canvases = await page.locator("canvas").count();
    assert.equal(names.length, canvases);
    assert.ok(names.every((name) => name.length > 30));
});
