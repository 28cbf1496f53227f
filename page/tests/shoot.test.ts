/** Tests of the pictures of reports. */

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { type Browser, chromium } from "playwright-core";

import { program } from "../browser.mjs";
import { filled, page } from "../build.mjs";
import { shoot } from "../shoot.mjs";
import { simulated } from "./generator.ts";

const SLOTS = 'section[id$="-slots"]';
const WIDTH = 700;

let browser: Browser;
let folder: string;
let report: string;

before(async () => {
    folder = mkdtempSync(join(tmpdir(), "pictures-"));
    report = join(folder, "report.html");
    writeFileSync(report, filled(await page(), simulated()));
    browser = await chromium.launch({ ...(await program()), headless: true });
});
after(async () => {
    await browser.close();
    rmSync(folder, { recursive: true, force: true });
});

interface Seen {
    width: number;
    colours: number;
    background: number;
}

/** What a browser sees of a picture. */
async function seen(picture: Buffer): Promise<Seen> {
    const context = await browser.newContext();
    const view = await context.newPage();
    const its = await view.evaluate(
        async (source): Promise<Seen> => {
            const image = new Image();
            image.src = source;
            await image.decode();
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [image.width, image.height];
            const drawing = canvas.getContext("2d");
            drawing?.drawImage(image, 0, 0);
            const pixels = drawing?.getImageData(0, 0, image.width, image.height).data ?? [];
            const colours = new Set<number>();
            for (let place = 0; place < pixels.length; place += 4 * 97) {
                colours.add(((pixels[place] ?? 0) << 16) | ((pixels[place + 1] ?? 0) << 8) | (pixels[place + 2] ?? 0));
            }
            return { width: image.width, colours: colours.size, background: pixels[4 * 97] ?? 0 };
        },
        `data:image/webp;base64,${picture.toString("base64")}`,
    );
    await context.close();
    return its;
}

test("a picture shows a part of a report, in both schemes", async () => {
    const out = join(folder, "slots.webp");
    const light = await shoot(browser, { report, out, scheme: "light", parts: [SLOTS], width: WIDTH });
    assert.deepEqual(readFileSync(out), light);
    const dark = await shoot(browser, { report, out, scheme: "dark", parts: [SLOTS], width: WIDTH });
    const [day, night] = [await seen(light), await seen(dark)];
    assert.equal(day.width, WIDTH * 1.5);
    assert.ok(day.colours > 50 && night.colours > 50, JSON.stringify([day, night]));
    assert.ok(day.background > 200 && night.background < 60, JSON.stringify([day, night]));
});

test("a picture shows a span of the lanes, and what was folded", async () => {
    const out = join(folder, "part.webp");
    const whole = await shoot(browser, { report, out, scheme: "light", parts: [SLOTS], width: WIDTH });
    const part = await shoot(browser, { report, out, scheme: "light", parts: [SLOTS], width: WIDTH, zoom: [0.4, 0.5] });
    assert.notDeepEqual(part, whole);
    const found = ".group details.found";
    const parts = [`${found} .facts`, `${found} .scroll`];
    const messages = await shoot(browser, { report, out, scheme: "light", parts, unfold: found, width: WIDTH });
    assert.ok((await seen(messages)).colours > 50);
});

test("a picture of what a report does not have is an error that names it", async () => {
    const asked = { report, out: join(folder, "none.webp"), scheme: "light" as const, width: WIDTH };
    await assert.rejects(
        shoot(browser, { ...asked, parts: ["section.no-such"] }),
        /the report has no 'section.no-such'/,
    );
});
