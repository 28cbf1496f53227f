/** Tests of the charts of a failure's gaps: their figures are compared with the JSON. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { isWindow, windowVerdict } from "../src/window.ts";
import { browser } from "./browser.ts";
import { report } from "./generator.ts";

const reports = browser();

interface Point {
    us: number;
    runs: number;
    failed: number;
}

interface Gap {
    number: number;
    matters: boolean;
    says: string;
    windows: { from_us: number; until_us: number }[];
    points: Point[];
}

/** What `sequence-stress replay --window` wrote of a failure on release 24.10. */
const DOCUMENT = JSON.parse(readFileSync(join(process.cwd(), "tests/data/window.json"), "utf8")) as {
    verdict: string;
    gaps: Gap[];
};

function shown(document: object): ReturnType<typeof reports.show> {
    const bare = { name: "window.json", document: document as Record<string, unknown>, lanes: [], lanes_note: null };
    return reports.show(report([bare]));
}

test("each gap has a chart with a point for each length, and those that matter come first", async () => {
    const { page, said } = await shown(DOCUMENT);
    const gaps = [...DOCUMENT.gaps].sort((one, other) => Number(other.matters) - Number(one.matters));
    const titles = await page.locator(".part-section h3").allInnerTexts();
    assert.deepEqual(
        titles.slice(0, gaps.length),
        gaps.map((gap) => `Gap ${gap.number}: ${gap.matters ? "matters" : "no effect seen"}`),
    );
    for (const { number, points, windows, says } of gaps) {
        const section = page.locator(`#r1-gap-${number}`);
        assert.equal(await section.locator("circle.point").count(), points.length, `gap ${number}`);
        assert.equal(await section.locator("line.whisker").count(), points.length, `gap ${number}`);
        assert.equal(await section.locator("rect.bracket").count(), windows.length, `gap ${number}`);
        assert.equal(await section.locator("line.mark").count(), 1, `gap ${number}`);
        assert.ok((await section.innerText()).includes(says.slice(1)), `gap ${number}`);
        const rows = await section
            .locator("tbody tr")
            .evaluateAll((all) =>
                all.map((row) => [...row.children].slice(1, 3).map((cell) => Number((cell as HTMLElement).innerText))),
            );
        assert.deepEqual(
            rows,
            points.map((point) => [point.runs, point.failed]),
            `gap ${number}`,
        );
    }
    assert.deepEqual(said, []);
});

test("a gap without an effect has a heading that says how sure this is", async () => {
    const points = [0, 1000].map((us) => ({ us, runs: 8, failed: 8, low: 0.6, high: 1 }));
    const gaps = [
        { number: 1, matters: false, says: "", windows: [], points },
        { number: 2, matters: false, says: "", windows: [], points: points.slice(1) },
        { number: 3, matters: false, says: "", windows: [], points: [] },
    ];
    const note = "all runs met one server";
    for (const [fields, effect] of [
        [{ ended: "done", one_server: false }, "does not matter"],
        [{ ended: "done", one_server: true, note }, "no effect seen"],
        [{ ended: "time-limit", one_server: false }, "no effect seen"],
        [{ ended: "never-failed", verdict: "UNKNOWN: a" }, "no effect seen"],
        [{}, "no effect seen"],
    ] as const) {
        const { page, said } = await shown({ gaps, ...fields });
        const titles = await page.locator(".part-section h3").allInnerTexts();
        assert.deepEqual(
            titles.slice(0, gaps.length),
            [`Gap 1: ${effect}`, "Gap 2: not measured", "Gap 3: not measured"],
            JSON.stringify(fields),
        );
        const notes = await page.locator(".window-note").allInnerTexts();
        assert.deepEqual(notes, "note" in fields ? [`Note: ${note}.`] : []);
        assert.deepEqual(said, []);
    }
});

test("a point is as high as its share, and longer gaps are further to the right", async () => {
    const { page } = await shown(DOCUMENT);
    const gap = DOCUMENT.gaps.find((its) => its.matters) ?? DOCUMENT.gaps[0];
    assert.ok(gap);
    const places = await page
        .locator(`#r1-gap-${gap.number} circle.point`)
        .evaluateAll((all) => all.map((its) => [Number(its.getAttribute("cx")), Number(its.getAttribute("cy"))]));
    const [xs, ys] = [places.map(([x]) => x ?? 0), places.map(([, y]) => y ?? 0)];
    assert.ok(
        xs.every((x, place) => place === 0 || x > (xs[place - 1] ?? 0)),
        String(xs),
    );
    const [top, bottom] = [12, 186];
    gap.points.forEach(({ runs, failed }, place) => {
        const height = bottom - (bottom - top) * (failed / runs);
        assert.ok(Math.abs((ys[place] ?? 0) - height) < 0.01, `${failed} of ${runs}: ${ys[place]}, not ${height}`);
    });
});

test("the verdict is that of the tool", async () => {
    const { page } = await shown(DOCUMENT);
    const line = (await page.locator(".verdict").first().innerText()).replace(/\s+/g, " ");
    const [word, ...rest] = DOCUMENT.verdict.split(": ");
    assert.ok(line.includes(word ?? "?") && line.includes(rest.join(": ")), line);
});

test("what is missing or of another type is left out", async () => {
    assert.ok(isWindow({ gaps: [] }) && !isWindow({ gaps: {} }) && !isWindow({}));
    assert.deepEqual(windowVerdict({ verdict: "NO WINDOW: a: b" }), {
        word: "NO WINDOW",
        tone: "bad",
        sentence: "a: b",
    });
    assert.equal(windowVerdict({ verdict: 5 }).word, "UNKNOWN");
    const { page, said } = await shown({ gaps: [{ number: 1, points: [{ us: "x" }, 3] }, null, { windows: [{}] }] });
    assert.equal(await page.locator("circle.point").count(), 0);
    assert.deepEqual(said, []);
});
