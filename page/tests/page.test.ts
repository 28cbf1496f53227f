/** Tests of the page in a browser: what it shows, and how it is used. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import type { Page } from "playwright-core";

import type { DrawnDetail } from "../src/lanes/figure.ts";
import { type Opened, browser } from "./browser.ts";
import { pack, report, simulate, simulated } from "./generator.ts";

const reports = browser();

type Document = Record<string, unknown>;

/** The result of a file in `tests/data`, as the tool wrote it. */
function written(name: string): Document {
    return JSON.parse(readFileSync(join(process.cwd(), "tests/data", name), "utf8")) as Document;
}

function bare(
    name: string,
    document: Document,
): { name: string; document: Document; lanes: null[]; lanes_note: string | null } {
    return { name, document, lanes: [], lanes_note: null };
}

/** The text of an element, with plain spaces. */
async function words(page: Page, selector: string): Promise<string> {
    return (await page.locator(selector).first().innerText()).replace(/\s+/g, " ");
}

/** The cells of a table by the name of its region. */
async function cells(page: Page, name: string): Promise<string[][]> {
    const region = page.getByRole("group", { name, exact: true }).first();
    await region.waitFor();
    return region
        .locator("tr")
        .evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => (cell as HTMLElement).innerText)));
}

/** Does something that draws the lanes; returns what the figure then tells. */
async function drawn(page: Page, act: () => Promise<unknown>): Promise<DrawnDetail> {
    await page.evaluate(() => {
        const figure = document.querySelector(".lanes");
        Object.assign(globalThis, {
            next: new Promise((resolve) => {
                figure?.addEventListener(
                    "drawn",
                    (event) => {
                        resolve((event as CustomEvent<unknown>).detail);
                    },
                    { once: true },
                );
            }),
        });
    });
    await act();
    return page.evaluate(() => (globalThis as unknown as { next: Promise<DrawnDetail> }).next);
}

const lanes = (page: Page): ReturnType<Page["locator"]> => page.locator(".lanes canvas");

/** A place on the canvas in the middle of a lane, at a moment of the simulated run while the whole run is shown. */
async function placeOf(page: Page, lane: number, at: number, until: number): Promise<{ x: number; y: number }> {
    const box = await lanes(page).boundingBox();
    assert.ok(box);
    // 56 px for the names of the lanes; a lane is 28 px high, and the lanes end 2 px above the canvas's end.
    const lanesTop = box.y + box.height - 2 - 4 * 28;
    return { x: box.x + 56 + ((box.width - 56) * at) / until, y: lanesTop + lane * 28 + 12 };
}

async function opened(wishes = {}): Promise<Opened> {
    const shown = await reports.show(simulated(wishes));
    await lanes(shown.page).scrollIntoViewIfNeeded();
    return shown;
}

test("the page opens without a word in the console and without a request", async () => {
    const { page, said } = await opened();
    await page.evaluate(() => {
        scrollTo(0, document.body.scrollHeight);
    });
    await page.locator(".found[open] .messages").waitFor();
    assert.deepEqual(said, []);
    assert.equal(await page.evaluate(() => document.documentElement.dataset["state"]), "shown");
});

test("the empty template says what to do", async () => {
    const { page } = await reports.show({});
    assert.match(await words(page, "main"), /empty template of a report.*sequence-stress report/);
});

test("data of another form are refused", async () => {
    const { page } = await reports.show({ form: 9 });
    assert.match(await words(page, "main"), /form 1.*form 9/);
});

test("the verdict and the figures are those of the JSON", async () => {
    const { document } = simulate();
    const { page } = await opened();
    const total = document["outcomes"] as Record<string, number>;
    assert.equal(
        await words(page, ".verdict"),
        `INVALID: ${total["requests"] ?? 0} responses checked, 1 violation (seed 1)`,
    );
    const rows = await cells(page, "Patterns and outcomes");
    const patterns = Object.entries(document["patterns"] as Record<string, Record<string, number>>);
    for (const [name, counts] of [...patterns, ["all", total] as const]) {
        const row = rows.find(([first]) => first === name);
        const names = ["sequences", "sequences_as_designed", "requests", "completed", "rejected"];
        assert.deepEqual(
            row?.slice(1),
            names.map((key) => String(counts[key] ?? 0)),
            name,
        );
    }
    assert.match(await words(page, ".facts"), new RegExp(`requests ${total["requests"] ?? 0} sequences 300`));
    assert.deepEqual((await cells(page, "Claims"))[2]?.slice(0, 4), ["rejected-after-end", "0", "1", "missed"]);
});

test("the heat map and the distribution count every response", async () => {
    const { document } = simulate();
    const { page } = await opened();
    const series = document["series"] as { step_counts: Record<string, number>; responses: number }[];
    const total = series.reduce((all, row) => all + row.responses, 0);
    assert.equal(await page.getByRole("img", { name: `Distribution of ${total} latencies` }).count(), 1);
    const titles = await page.locator("svg.bars .bar title").allTextContents();
    const counted = titles.reduce((all, title) => all + Number(/: (\d+) response/.exec(title)?.[1]), 0);
    assert.equal(counted, total);
    const map = page.getByLabel(/Heat map of the latency/);
    await map.focus();
    await map.press("ArrowRight");
    const counts = Object.values(series[1]?.step_counts ?? {});
    const said = await words(page, "figure:has(canvas[aria-roledescription='heat map']) .legend");
    assert.match(said, /^1 s, /);
    assert.ok(counts.includes(Number(/: (\d+) response/.exec(said)?.[1])) || said.endsWith(": 0 responses"), said);
});

test("charts that have no data are left out, and the table has every figure of the series", async () => {
    const { page } = await opened();
    const titles = await page.locator("figcaption").allTextContents();
    assert.ok(titles.includes("Throughput and goodput") && titles.includes("Batch size and possible batch"));
    assert.ok(!titles.some((title) => title.startsWith("First response")) && !titles.includes("Violations"));
    await page.getByText("The series as a table").click();
    const rows = await cells(page, "The series");
    const series = simulate().document["series"] as Record<string, number>[];
    const column = rows[0]?.indexOf("step_p99_us") ?? -1;
    assert.deepEqual(
        rows.slice(1).map((row) => Number(row[column])),
        series.map((row) => row["step_p99_us"]),
    );
});

test("keys move the cursor of a chart, and zoom all charts", async () => {
    const { page } = await opened();
    const plot = page.getByRole("application", { name: /^Throughput and goodput/ });
    await plot.focus();
    await plot.press("ArrowRight");
    const series = simulate().document["series"] as Record<string, number>[];
    const figure = page.locator("figure", { has: plot });
    assert.match(
        await figure.locator("[aria-live]").innerText(),
        new RegExp(`^0.5 s: responses ${series[0]?.["responses"] ?? 0}/s`),
    );
    const until = series.length;
    const others = page.getByRole("application", { name: /^Memory/ });
    await plot.press("+");
    assert.ok(Number(await others.getAttribute("data-from")) > 0);
    await page.locator("#r1-latency").getByRole("button", { name: "Whole run" }).click();
    assert.deepEqual(
        [await others.getAttribute("data-from"), await others.getAttribute("data-until")],
        ["0", String(until)],
    );
});

test("a drag over a chart zooms all charts, and a double click shows the whole run", async () => {
    const { page } = await opened();
    const plot = page.getByRole("application", { name: /^Throughput and goodput/ });
    const others = page.getByRole("application", { name: /^Memory/ });
    await plot.locator(".u-over").waitFor();
    await plot.scrollIntoViewIfNeeded();
    const box = await plot.locator(".u-over").boundingBox();
    assert.ok(box);
    const middle = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width / 3, middle);
    await page.mouse.down();
    await page.mouse.move(box.x + (box.width * 2) / 3, middle, { steps: 5 });
    await page.mouse.up();
    const [from, until] = [
        Number(await others.getAttribute("data-from")),
        Number(await others.getAttribute("data-until")),
    ];
    assert.ok(Math.abs(from - 1) < 0.05 && Math.abs(until - 2) < 0.05, `${from} to ${until}`);
    await page.mouse.dblclick(box.x + box.width / 2, middle);
    assert.equal(await others.getAttribute("data-from"), "0");
});

test("the wheel zooms around the pointer once the figure has the focus", async () => {
    const { page } = await opened();
    const until = simulate().lanes.until_us;
    const place = await placeOf(page, 0, until / 2, until);
    await page.mouse.move(place.x, place.y);
    const before = await page.evaluate(() => scrollY);
    await lanes(page).focus();
    const after = await drawn(page, () => page.mouse.wheel(0, -800));
    assert.ok(after.until - after.from < until / 2);
    assert.ok(Math.abs((after.from + after.until) / 2 - until / 2) < until / 20);
    assert.equal(await page.evaluate(() => scrollY), before);
});

test("buttons zoom and move, and a drag moves or selects", async () => {
    const { page } = await opened();
    const until = simulate().lanes.until_us;
    const bar = page.locator(".lanes .toolbar");
    const closer = await drawn(page, () => bar.getByRole("button", { name: "Zoom in" }).click());
    assert.ok(closer.until - closer.from < until);
    const later = await drawn(page, () => bar.getByRole("button", { name: "Later" }).click());
    assert.ok(later.from > closer.from && Math.abs(later.until - later.from - (closer.until - closer.from)) < 1);
    const whole = await drawn(page, () => bar.getByRole("button", { name: "Whole run" }).click());
    assert.deepEqual([whole.from, whole.until], [0, until]);
    const [left, right] = [await placeOf(page, 1, until / 4, until), await placeOf(page, 1, until / 2, until)];
    await page.keyboard.down("Shift");
    await page.mouse.move(left.x, left.y);
    await page.mouse.down();
    await page.mouse.move(right.x, right.y, { steps: 4 });
    const selected = await drawn(page, () => page.mouse.up());
    await page.keyboard.up("Shift");
    assert.ok(Math.abs(selected.from - until / 4) < until / 100 && Math.abs(selected.until - until / 2) < until / 100);
    await page.mouse.move(right.x, right.y);
    await page.mouse.down();
    const moved = await drawn(page, () => page.mouse.move(left.x, left.y, { steps: 1 }));
    await page.mouse.up();
    assert.ok(moved.from > selected.from);
});

test("the figure zooms from the whole run to a single step", async () => {
    const { page } = await opened();
    await page.getByLabel("Find a correlation ID or a request").fill("2-0-3-1");
    const found = await drawn(page, () => page.getByRole("button", { name: "Find" }).click());
    assert.ok(found.steps > 0);
    await lanes(page).focus();
    let last = found;
    for (let press = 0; press < 30; press += 1) {
        last = await drawn(page, () => lanes(page).press("+"));
    }
    assert.ok(last.until - last.from <= 51, String(last.until - last.from));
    const back = await drawn(page, () => lanes(page).press("0"));
    assert.equal(back.from, 0);
});

test("a click on a sequence shows its steps with values and latencies", async () => {
    const { page } = await opened();
    const { lanes: data } = simulate();
    const row = data.sequences.lane.findIndex((lane, place) => lane === 2 && place > 100);
    const begun = data.sequences.begun.slice(0, row + 1).reduce((all, by) => all + by, 0);
    const middle = begun + ((data.sequences.held[row] ?? 0) + (data.sequences.over[row] ?? 0)) / 2;
    const place = await placeOf(page, 2, middle, data.until_us);
    await page.mouse.click(place.x, place.y);
    const name = `${data.sequences.worker[row] ?? 0}-0-${data.sequences.number[row] ?? 0}`;
    assert.match(
        await words(page, ".panel"),
        new RegExp(`Sequence ${name}, correlation ID ${data.sequences.id[row] ?? ""}`),
    );
    const rows = await cells(page, `Steps of sequence ${name}`);
    const first = data.sequences.step[row] ?? 0;
    assert.equal(rows.length - 1, data.sequences.steps[row]);
    rows.slice(1).forEach((cell, step) => {
        assert.equal(cell[0], `${name}-${step}`);
        assert.equal(cell[2], String(data.steps.value[first + step]));
        assert.equal(cell[3], String(data.steps.answer[first + step]));
    });
    assert.equal(rows[1]?.[1], "START");
    await page.locator(".panel").getByRole("button", { name: "Close" }).click();
    assert.equal(await page.locator(".panel").isVisible(), false);
});

test("keys choose sequences, say them, and show their steps", async () => {
    const { page } = await opened();
    await lanes(page).focus();
    await lanes(page).press("ArrowRight");
    const live = page.locator(".lanes > [aria-live]");
    const first = await live.innerText();
    assert.match(first, /correlation ID \d+, sequence \d+-0-\d+, .*slot 0, START sent at/);
    await lanes(page).press("ArrowRight");
    const second = await live.innerText();
    assert.notEqual(second, first);
    await lanes(page).press("ArrowDown");
    assert.match(await live.innerText(), /slot 1/);
    await lanes(page).press("ArrowUp");
    await lanes(page).press("ArrowLeft");
    assert.equal(await page.locator(".panel").isVisible(), false);
    await lanes(page).press("Enter");
    assert.match(await words(page, ".panel"), /Sequence \d+-0-\d+/);
    await page
        .locator(".panel")
        .getByRole("button", { name: /next in this slot/ })
        .click();
    await lanes(page).press("Escape");
    assert.equal(await page.locator(".panel").isVisible(), false);
});

test("the page says that lanes are no slots where the model does not report slots", async () => {
    const { page } = await opened({ told: false });
    assert.match(await words(page, "#r1-slots"), /The model does not report its slots\. So a lane is not a slot/);
    assert.equal(await opened().then((its) => its.page.getByText("does not report its slots").count()), 0);
});

test("gaps, left out sequences and more lanes than slots are told", async () => {
    const { lanes: data, document } = simulate();
    const odd = {
        ...data,
        gaps: [[100_000, 200_000]] as [number, number][],
        left_out: 12,
        marks_left_out: 5,
        slots: 3,
    };
    const { page } = await reports.show(
        report([{ name: "r", document, lanes: [pack(odd)], lanes_note: "The history was cut." }]),
    );
    const text = await words(page, "#r1-slots");
    assert.match(
        text,
        /The history was cut\..*more lanes \(4\) than slots \(3\).*Hatched: no events are known in 1 span.*12 sequences are left out.*5 marks are left out/,
    );
});

test("lanes are judged by the slots of the model that was loaded then", async () => {
    const { lanes: data, document } = simulate();
    const middle = data.until_us / 2;
    const shown = async (slots: number): Promise<string> => {
        const of = { told: true, lanes: 4 };
        const stretches = [
            { ...of, from_us: 0, until_us: middle, slots: 4 },
            { ...of, told: false, from_us: middle + 1000, until_us: data.until_us, slots },
        ];
        const its = { name: "r", document, lanes: [pack({ ...data, slots: 2, stretches })], lanes_note: null };
        return words((await reports.show(report([its]))).page, "#r1-slots");
    };
    const switched = await shown(4);
    assert.doesNotMatch(switched, /more lanes/);
    assert.match(switched, /From \d.* s to \d.* s: the model does not report its slots\. A lane is not a slot then/);
    assert.match(await shown(3), /From \d.* s to \d.* s: There are more lanes \(4\) than slots \(3\)/);
});

test("violations after what is drawn are told apart: of the check of the slots, and of the whole run", async () => {
    const { lanes: data, document } = simulate({ fault: false });
    const at = data.until_us + 1000;
    const marks = { at: [at, at, at], kind: ["violation", "violation", "violation"], sequence: [-1, -1, -1] };
    const late = { ...data, marks: { ...marks, violation: [0, 1, 2], text: ["", "", ""] } };
    const violations = [
        { kind: "wrong-sum", at_us: at, aside: "slot-check" },
        { kind: "statistics", at_us: at },
        { kind: "slot-leak", at_us: at },
    ];
    const check = { result: "leaked", leaked: 1, slots: 4, requests: 30, took_us: 2_500_000 };
    const its = { ...document, violations, violation_count: 3, verdict: "invalid", slots_check: check };
    const { page } = await reports.show(report([{ name: "r", document: its, lanes: [pack(late)], lanes_note: null }]));
    const text = await words(page, "#r1-slots");
    assert.match(
        text,
        /After what is drawn: 2 violations are from the check of the slots after the run; 1 violation concerns the whole run\./,
    );
    assert.match(text, /the tool checked the slots in 2\.5 s with 30 requests/);
    assert.match(text, /counted 1 lost slot: violation 3, slot-leak, at /);
    await page
        .locator("#r1-slots")
        .getByRole("link", { name: /violation 3, slot-leak/ })
        .click();
    await page.locator("#r1-violation-3[open]").waitFor();
    const before = await opened();
    assert.doesNotMatch(await words(before.page, "#r1-slots"), /After what is drawn|checked the slots/);
});

test("a violation has its messages, cause, evidence, explanation and replay command", async () => {
    const { page } = await opened();
    const text = await words(page, ".found[open]");
    assert.match(
        text,
        /expected \d+ seen \d+ \(off by 1\) cause wrong-arithmetic: A response is wrong by a small number/,
    );
    assert.equal(await page.locator(".messages .message.bad").count(), 1);
    await page.getByText("Messages as a table").click();
    const rows = await cells(page, "Messages around the violation");
    assert.equal(rows.filter((row) => row[4]?.endsWith("(the violation)")).length, 1);
    await page.getByText("What wrong-sum means").click();
    assert.equal(await page.locator(".explained li").first().innerText(), "replay the run");
    await page.getByText("Evidence as values").click();
    assert.match(await words(page, ".found pre"), /"type": "sum"/);
    const closer = await drawn(page, () =>
        page.getByRole("button", { name: "Show the sequence in the slots" }).click(),
    );
    assert.ok(closer.until - closer.from < simulate().lanes.until_us / 4);
});

test("the replay command is copied exactly", async () => {
    const { page } = await opened();
    await page.locator(".found[open] .copy").click();
    await page.locator(".found[open] .said", { hasText: "copied" }).waitFor();
    const field = page.getByLabel("Find a correlation ID or a request");
    await field.focus();
    await page.keyboard.press("Control+V");
    const copied = await field.inputValue();
    assert.equal(copied, simulate().document["replay"]);
});

test("many violations: the rest is shown on demand", async () => {
    const { lanes: data, document } = simulate();
    const [one] = document["violations"] as Document[];
    const violations = Array.from({ length: 45 }, () => one ?? {});
    const many = { ...document, violations, violation_count: 5000, violations_by_kind: { "wrong-sum": 5000 } };
    const { page } = await reports.show(report([{ name: "r", document: many, lanes: [pack(data)], lanes_note: null }]));
    assert.match(await words(page, "#r1-violations"), /kept the first 45 of 5000 violations/);
    assert.equal(await page.locator(".found").count(), 20);
    await page.getByRole("button", { name: "Show 25 more violations" }).click();
    assert.equal(await page.locator(".found").count(), 45);
    await page.locator("#r1-violation-44 summary").first().click();
    await page.locator("#r1-violation-44 .messages").waitFor();
});

test("doubts are shown where they decide the verdict, and not beside violations", async () => {
    const { document } = simulate();
    const doubts = ["nearly nothing was judged"];
    for (const [verdict, isShown] of [
        ["unknown", true],
        ["invalid", false],
    ] as const) {
        const { page } = await reports.show(report([bare("r", { ...document, doubts, verdict })]));
        const text = await words(page, "main");
        assert.equal(text.includes("nearly nothing was judged"), isShown, verdict);
    }
});

test("a result without lanes, without series, and a checkpoint", async () => {
    const { document } = simulate();
    const { page, said } = await reports.show(report([bare("r", { ...document, series: [], complete: false })]));
    const text = await words(page, "main");
    assert.match(text, /This is a checkpoint/);
    assert.match(text, /This report has no sequences/);
    assert.match(text, /This result has no series/);
    assert.match(text, /No chart of messages/);
    assert.deepEqual(said, []);
});

test("damaged lanes are told, and the rest of the report is there", async () => {
    const { document } = simulate();
    const { page } = await reports.show(report([{ name: "r", document, lanes: ["AAAA"], lanes_note: null }]));
    assert.match(await words(page, "#r1-slots"), /are damaged.*Make the report again/);
    assert.match(await words(page, ".verdict"), /INVALID/);
});

test("an empty document and documents with odd fields break nothing", async () => {
    const odd = {
        verdict: 7,
        series: [1, null, { at_s: "x" }],
        patterns: [],
        violations: [null],
        violation_count: 1,
        latency_us: "?",
        model: null,
        claims: {},
        thresholds: [{}],
    };
    const findings = [3, {}, { kind: 7, releases: [null, { release: 1, replays: 5 }], again: ["x"], result: "none" }];
    const hunt = { findings, coverage: [null, { valid: "many" }], releases: [1, "24.03"], waiting: [null], notes: [2] };
    const { page, said } = await reports.show(report([bare("empty", {}), bare("odd", odd), bare("hunt", hunt)]));
    for (const name of ["empty", "odd", "hunt"]) {
        await page.getByRole("heading", { name, exact: true }).click();
    }
    await page.waitForFunction(() => document.querySelectorAll("[data-state=shown].result").length === 3);
    for (const place of [1, 2, 3]) {
        await page.locator(`#r3-f${place} > summary`).click();
    }
    // What a click unfolds is there a moment later.
    await page.getByText("left no result.").nth(2).waitFor();
    assert.equal(await page.getByText("left no result.").count(), 3);
    assert.deepEqual(said, []);
});

test("several results: an overview first, and each is unfolded by its link", async () => {
    const { document } = simulate({ fault: false });
    const { lanes: data, document: faulty } = simulate();
    const { page } = await reports.show(
        report([
            bare("good.json", document),
            { name: "bad.json", document: faulty, lanes: [pack(data)], lanes_note: null },
        ]),
    );
    const rows = await cells(page, "Results");
    assert.deepEqual(
        rows.slice(1).map((row) => row.slice(0, 2)),
        [
            ["good.json", "VALID"],
            ["bad.json", "INVALID"],
        ],
    );
    assert.equal(await page.locator(".lanes").count(), 0);
    await page.getByRole("link", { name: "bad.json" }).click();
    await page.locator("#r2 .lanes").waitFor();
    assert.equal(await page.locator("#r1").getAttribute("open"), null);
    await page.locator("#r2 .found[open] .messages").waitFor();
});

test("a run that the tool wrote", async () => {
    const document = written("run.json");
    const { page, said } = await reports.show(report([bare("run.json", document)]));
    const total = document["outcomes"] as Record<string, number>;
    const row = (await cells(page, "Patterns and outcomes")).at(-1);
    assert.deepEqual(row?.slice(0, 4), [
        "all",
        ...["sequences", "sequences_as_designed", "requests"].map((name) => String(total[name])),
    ]);
    assert.match(await words(page, ".verdict"), new RegExp(`${total["requests"] ?? 0} responses checked`));
    assert.deepEqual(said, []);
});

test("a suite has a table of scenarios, and each is unfolded", async () => {
    const document = written("suite.json");
    const { page, said } = await reports.show(report([{ ...bare("suite.json", document), lanes: [null, null] }]));
    const scenarios = document["scenarios"] as Document[];
    const rows = await cells(page, "Scenarios of the suite");
    assert.deepEqual(
        rows.slice(1).map((row) => row[0]),
        scenarios.map((its) => its["name"]),
    );
    const place = scenarios.findIndex((its) => its["outcome"] === "run");
    await page.getByRole("link", { name: String(scenarios[place]?.["name"]), exact: true }).click();
    await page
        .locator(`#r1-s${place + 1} .part-section`)
        .first()
        .waitFor();
    assert.deepEqual(said, []);
});

test("a search for the limit has its curve, bracket and trials", async () => {
    const document = written("limit.json");
    const { page, said } = await reports.show(report([bare("limit.json", document)]));
    const trials = document["trials"] as Document[];
    const rows = await cells(page, "Trials");
    assert.equal(rows.length - 1, trials.length);
    assert.deepEqual(
        rows.slice(1).map((row) => row[2]),
        trials.map((trial) => (trial["sustained"] === true ? "sustained" : "too much")),
    );
    assert.equal(
        await page.locator("svg .point.series-2").count(),
        trials.filter((trial) => trial["step_p99_us"] !== null).length,
    );
    assert.ok((await page.locator("svg .bracket").count()) >= 1);
    assert.deepEqual(said, []);
});

test("a hunt has its findings by release, and each with the run that found it", async () => {
    const document = written("hunt.json");
    const [finding] = document["findings"] as Document[];
    const [release] = (finding?.["releases"] ?? []) as Document[];
    const replays = { failed: 0, runs: 3, otherwise: ["lost"], problem: null };
    const others = [
        { release: "24.05", met: 0, replays: { ...replays, otherwise: [] } },
        { release: "24.08", met: 0, replays },
        { release: "24.10", met: 0, replays: { ...replays, runs: 0, otherwise: [], problem: "the time was up" } },
    ];
    const { lanes, document: run } = simulate();
    const found = {
        ...finding,
        releases: [...((finding?.["releases"] ?? []) as Document[]), ...others],
        result: run,
        death: "was ended by SIGSEGV",
    };
    const names = [...(document["releases"] as string[]), ...others.map((its) => its.release)];
    const notes = ["24.10: no server"];
    const row = (runs: number): Document => ({
        elapsed_s: 60 * runs,
        runs,
        requests: 90 * runs,
        pairs: 200 + runs,
        new_in_next_run: 3,
        unseen_at_least: 41.6,
    });
    const reached = Array.from({ length: 25 }, (_, place) => row(place + 1));
    const shown = { ...document, findings: [found, { ...finding, result: null }], releases: names, notes, reached };
    const { page, said } = await reports.show(report([{ ...bare("hunt.json", shown), lanes: [pack(lanes), null] }]));
    assert.match(
        await words(page, ".verdict"),
        /^INVALID: 2 findings in \d+ runs \(.*\) and \d+ replays \(first seed 7\)$/,
    );
    const rows = await cells(page, "Findings by release");
    assert.deepEqual(rows[0], ["finding", "messages", ...names]);
    const title = `${String(finding?.["kind"])}, cause ${String(finding?.["cause"])}`;
    const its = release?.["replays"] as Record<string, number>;
    const failed = `failed ${its["failed"] ?? -1} of ${its["runs"] ?? -1} replays; met in ${String(release?.["met"])} run`;
    const came = rows[1]?.map((cell) => cell.replace(/\s+/g, " ")) ?? [];
    assert.deepEqual(
        [came[0], came[1], came[2]?.startsWith(failed)],
        [title, String(finding?.["messages"]), true],
        came[2],
    );
    assert.deepEqual(came.slice(3), [
        "not seen in 3 replays",
        "failed 0 of 3 replays; other violations: lost",
        "not tried not replayed: the time was up",
    ]);
    const far = await cells(page, "What the runs reached");
    assert.deepEqual(far.at(-1)?.slice(1), ["25", "2250", "225", "3.00", "42"]);
    assert.ok(far.length >= 8 && far.length <= 14, String(far.length));
    const runs = await cells(page, "Runs by release and model");
    assert.deepEqual(runs[0], ["release", ...(document["models"] as string[])]);
    assert.deepEqual(
        runs.at(-1)?.slice(1),
        (document["models"] as string[]).map(() => "none"),
    );
    assert.match(await words(page, "main"), /24\.10: no server/);
    await page.getByRole("link", { name: title, exact: true }).first().click();
    const opened = page.locator("#r1-f1");
    await opened.getByText("The run that found it", { exact: true }).waitFor();
    assert.match((await opened.innerText()).replace(/\s+/g, " "), /The server was ended by SIGSEGV\./);
    assert.equal(
        await opened.getByRole("group", { name: "What happens", exact: true }).innerText(),
        String(finding?.["chart"]),
    );
    await opened.getByText("The run that found it", { exact: true }).click();
    await opened.locator(".lanes canvas").waitFor();
    await page.getByRole("link", { name: title, exact: true }).nth(1).click();
    await page
        .locator("#r1-f2")
        .getByText(/left no result/)
        .waitFor();
    assert.deepEqual(said, []);
});

test("runs that cannot be compared have the reason", async () => {
    const results = [bare("a.json", simulate().document), bare("b.json", simulate({ seed: 2 }).document)];
    const note = "the scenarios differ: l0 and burst";
    const { page } = await reports.show({ ...report(results), comparison_note: note });
    assert.match(await words(page, "main"), /These runs are not compared: the scenarios differ: l0 and burst\./);
    const { page: other } = await reports.show(report(results));
    assert.doesNotMatch(await words(other, "main"), /not compared/);
});

test("violations whose causes nobody looked for are told from those without a known cause", async () => {
    const { document } = simulate();
    const [one] = document["violations"] as Document[];
    const bareOne = { ...one, explanations: [] };
    const shown = async (many: number): Promise<string> => {
        const violations = [one ?? {}, ...Array.from({ length: many - 1 }, () => bareOne)];
        const its = { ...document, violations, violation_count: many };
        return words((await reports.show(report([bare("r", its)]))).page, "#r1-violations");
    };
    const few = await shown(5);
    assert.match(few, /wrong-sum not known 4/);
    assert.doesNotMatch(few, /not looked into/);
    assert.match(await shown(230), /not looked into \(the first 200 are\) 30/);
});

test("the verdict says how many responses could be judged where many could not", async () => {
    const { document } = simulate();
    const said = async (unjudged: number): Promise<string> => {
        const outcomes = { completed: 90, rejected: 10, requests: 100, unjudged };
        return words((await reports.show(report([bare("r", { ...document, outcomes })]))).page, ".verdict");
    };
    assert.match(await said(60), /^INVALID: 100 responses, 40 of them judged, 1 violation/);
    assert.match(await said(5), /^INVALID: \d+ responses checked, 1 violation/);
});

test("the parts of a step that are more than the whole, or not known, have a word", async () => {
    const { document } = simulate();
    const said = async (server: Document | null): Promise<string> => {
        const mean = { ...(document["mean_step_us"] as Document), server, outside: null };
        return words(
            (await reports.show(report([bare("r", { ...document, mean_step_us: mean })]))).page,
            "#r1-summary",
        );
    };
    assert.match(
        await said({ queue: 3000, compute: 1100, other: 0 }),
        /the server counts 4\.1 ms for a request, and the client waited 4 ms/,
    );
    assert.doesNotMatch(await said({ queue: 2000, compute: 1500, other: 0 }), /the server counts/);
    assert.match(await said(null), /The parts are not known/);
});

test("a comparison has its finding, notes and measures", async () => {
    const document = written("compare.json");
    const { page, said } = await reports.show(
        report([bare("old.json", simulate().document), bare("new.json", simulate({ seed: 2 }).document)], document),
    );
    const [comparison] = document["comparisons"] as { measures: { name: string }[] }[];
    const rows = await cells(page, "Measures of both sides");
    assert.deepEqual(
        rows.slice(1).map((row) => row[0]),
        comparison?.measures.map((measure) => measure.name),
    );
    assert.match(await words(page, "#comparison"), /REGRESSION|UNKNOWN/);
    assert.deepEqual(said, []);
});
