/** Tests that a large run can be moved through: by how much is drawn, and in the long form by the time of a drawing. */

import assert from "node:assert/strict";
import { test } from "node:test";

import type { DrawnDetail } from "../src/lanes/figure.ts";
import { browser } from "./browser.ts";
import { simulated } from "./generator.ts";

const SEQUENCES = 100_000;
/** Thirty frames a second. Only the long form of the tests asks for it: a busy machine would fail it. */
const FRAME_MS = process.env["SEQUENCE_STRESS_LONG"] === undefined ? Infinity : 33;
const FRAMES = 60;

const reports = browser();

test("100,000 sequences pan, whole and close", async () => {
    const { page, said } = await reports.show(
        simulated({ sequences: SEQUENCES, slots: 16, workers: 40, steps: 3, fault: false }),
    );
    const canvas = page.locator(".lanes canvas");
    await canvas.waitFor();
    assert.match((await canvas.getAttribute("aria-label")) ?? "", new RegExp(`^${SEQUENCES} sequences in 16 slots`));
    for (const zooms of [1, 8, 24]) {
        const details = await page.evaluate(
            async ({ frames, presses }) => {
                const figure = document.querySelector<HTMLElement>(".lanes");
                const target = figure?.querySelector("canvas");
                const drawn = (key: string, shiftKey: boolean): Promise<DrawnDetail> =>
                    new Promise((resolve) => {
                        figure?.addEventListener(
                            "drawn",
                            (event) => {
                                resolve((event as CustomEvent<DrawnDetail>).detail);
                            },
                            { once: true },
                        );
                        target?.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey }));
                    });
                await drawn("0", false);
                for (let press = 0; press < presses; press += 1) {
                    await drawn("+", false);
                }
                const all: DrawnDetail[] = [];
                for (let frame = 0; frame < frames; frame += 1) {
                    all.push(await drawn(frame < frames / 2 ? "ArrowRight" : "ArrowLeft", true));
                }
                return all;
            },
            { frames: FRAMES, presses: zooms },
        );
        const times = details.map((its) => its.milliseconds).sort((a, b) => a - b);
        const median = times[FRAMES / 2] ?? Infinity;
        const most = Math.max(...details.map((its) => its.sequences));
        console.log(`zoom ${zooms}: median ${median.toFixed(1)} ms, at most ${most} sequences drawn`);
        assert.ok(median <= FRAME_MS, `median ${median} ms`);
        // 16 lanes and at most 64 rows of waits, a thing for each of 1400 pixels.
        assert.ok(most <= (16 + 64) * 1400, String(most));
        assert.ok(new Set(details.map((its) => its.from)).size > 2, "it moved");
    }
    assert.deepEqual(said, []);
});
