// Takes pictures of reports: `node shoot.mjs PICTURES.json`. The file has a list of pictures; see `Picture`.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

import { program } from "./browser.mjs";

/**
 * A picture of a part of a report.
 *
 * @typedef {object} Picture
 * @property {string} report The report's file.
 * @property {string} out The file of the picture, a WebP.
 * @property {"light" | "dark"} scheme
 * @property {string[]} parts Playwright's selectors of what is shown below the verdict; of each the first element.
 * @property {string} [unfold] The selector of what is unfolded before, as a person does with a click.
 * @property {number} width In CSS pixels.
 * @property {[number, number]} [zoom] The part of the run that the lanes show: from 0, its beginning, to 1, its end.
 */

const SCALE = 1.5;
/** Of 100; letters and lines stay sharp. */
const QUALITY = 88;

/**
 * Shows a part of the run in the lanes, as a person does with Shift and the mouse.
 *
 * @param {import("playwright-core").Page} page @param {[number, number]} zoom
 */
async function zoomTo(page, zoom) {
    const canvas = page.locator(".lanes canvas").first();
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    if (box === null) {
        throw new Error("the report has no lanes to zoom into");
    }
    // Left of the lanes are their names.
    const names = box.width < 500 ? 30 : 56;
    const [from, until] = zoom.map((part) => box.x + names + part * (box.width - names));
    const y = box.y + box.height - 12;
    const status = await page.locator(".lanes .status").first().textContent();
    await page.keyboard.down("Shift");
    await page.mouse.move(from ?? box.x, y);
    await page.mouse.down();
    await page.mouse.move(until ?? box.x, y, { steps: 4 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    await page.mouse.move(0, 0);
    await page.waitForFunction((before) => document.querySelector(".lanes .status")?.textContent !== before, status);
}

/**
 * Hides all but some parts of the page and its verdict.
 *
 * @param {import("playwright-core").Page} page @param {string[]} parts
 */
async function showOnly(page, parts) {
    const all = [".verdict", ...parts];
    const handles = await Promise.all(
        all.map(async (part) => {
            if ((await page.locator(part).count()) === 0) {
                throw new Error(`the report has no '${part}'`);
            }
            return page.locator(part).first().elementHandle();
        }),
    );
    await page.evaluate((shown) => {
        for (const element of document.querySelectorAll("#main *")) {
            const isShown = shown.some((part) => part.contains(element) || element.contains(part));
            if (!isShown && !/^H[123]$/.test(element.tagName)) {
                element.classList.add("not-in-the-picture");
            }
        }
    }, handles);
    await page.addStyleTag({ content: "nav, footer, .not-in-the-picture { display: none !important; }" });
}

/**
 * Takes a picture.
 *
 * @param {import("playwright-core").Browser} browser @param {Picture} picture
 * @returns {Promise<Buffer>} the picture, which is written, too
 */
export async function shoot(browser, { report, out, scheme, parts, unfold, width, zoom }) {
    const context = await browser.newContext({
        viewport: { width, height: 900 },
        colorScheme: scheme,
        deviceScaleFactor: SCALE,
        locale: "en-US",
        // The page allows no other style than its own.
        bypassCSP: true,
    });
    try {
        context.setDefaultTimeout(30_000);
        const page = await context.newPage();
        await page.goto(pathToFileURL(report).href);
        await page.waitForFunction(() => document.documentElement.dataset["state"] === "shown");
        if (unfold !== undefined) {
            const folded = page.locator(unfold).first();
            if ((await folded.getAttribute("open")) === null) {
                await folded.locator("> summary").click();
            }
        }
        await showOnly(page, parts);
        if (zoom !== undefined) {
            await zoomTo(page, zoom);
        }
        await page.evaluate(() => {
            // What was clicked has a frame around it.
            if (document.activeElement instanceof HTMLElement) {
                document.activeElement.blur();
            }
        });
        await page.setViewportSize({ width, height: 100 });
        // The charts take the width that they have now in the next frame.
        await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
        const height = await page.evaluate(() => document.body.scrollHeight);
        const session = await context.newCDPSession(page);
        // Playwright itself writes no WebP, which takes a third of the room of a PNG.
        const { data } = await session.send("Page.captureScreenshot", {
            format: "webp",
            quality: QUALITY,
            captureBeyondViewport: true,
            clip: { x: 0, y: 0, width, height, scale: SCALE },
        });
        const bytes = Buffer.from(data, "base64");
        writeFileSync(out, bytes);
        return bytes;
    } finally {
        await context.close();
    }
}

const [file] = process.argv.slice(2);
if (process.argv[1] === import.meta.filename) {
    if (file === undefined) {
        console.error("shoot: give a file with a list of pictures: node shoot.mjs PICTURES.json");
        process.exit(2);
    }
    const pictures = /** @type {Picture[]} */ (JSON.parse(readFileSync(file, "utf8")));
    const browser = await chromium.launch({ ...(await program()), headless: true });
    try {
        for (const picture of pictures) {
            const { length } = await shoot(browser, picture);
            console.log(`${picture.out}: ${Math.ceil(length / 1024)} KiB`);
        }
    } finally {
        await browser.close();
    }
}
