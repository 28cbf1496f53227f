/** Tests that nothing of a server is executed or parsed as HTML, in whatever field it comes. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { browser } from "./browser.ts";
import { pack, report, simulate } from "./generator.ts";
import { filled, page as template } from "../build.mjs";

const reports = browser();

const EVIL = [
    "</script><script>globalThis.pwned = 1</script>",
    "<img src=x onerror='globalThis.pwned = 1'>",
    "\"'><svg onload=globalThis.pwned=1>",
    "<!--<script>",
    "javascript:globalThis.pwned=1",
    "\u0000\u0007\u001b[31m\u202ecba\u2028\u2029 & &lt;b&gt; ${globalThis.pwned = 1}",
].join(" ");

/** Puts the text into every field that holds a text, besides those that tell what the document is. */
function poisoned(value: unknown, key = ""): unknown {
    if (typeof value === "string") {
        return ["verdict", "request_id", "outcome"].includes(key) ? value : `${value} ${EVIL}`;
    }
    if (Array.isArray(value)) {
        return value.map((item) => poisoned(item, key));
    }
    if (typeof value === "object" && value !== null) {
        return Object.fromEntries(
            Object.entries(value).map(([name, item]) => [
                key === "patterns" || key === "step_counts" ? `${name} ${EVIL}` : name,
                poisoned(item, name),
            ]),
        );
    }
    return value;
}

function written(name: string): Record<string, unknown> {
    return JSON.parse(readFileSync(join(process.cwd(), "tests/data", name), "utf8")) as Record<string, unknown>;
}

test("texts of a server are shown, and never run", async () => {
    const { lanes, document: run } = simulate();
    const odd = {
        ...lanes,
        patterns: lanes.patterns.map((name) => `${name} ${EVIL}`),
        marks: { ...lanes.marks, text: lanes.marks.text.map(() => EVIL) },
        steps: { ...lanes.steps, value: lanes.steps.value.map(() => EVIL), answer: lanes.steps.answer.map(() => EVIL) },
    };
    const results = [
        { name: EVIL, document: poisoned(run) as Record<string, unknown>, lanes: [pack(odd)], lanes_note: EVIL },
        ...["run.json", "suite.json", "limit.json", "hunt.json", "window.json"].map((name) => ({
            name: `${name} ${EVIL}`,
            document: poisoned(written(name)) as Record<string, unknown>,
            lanes: [],
            lanes_note: EVIL,
        })),
    ];
    const data = report(results, poisoned(written("compare.json")) as Record<string, unknown>);
    const all = (name: string): object => ({ [name]: { what: EVIL, text: `${EVIL}\n\n- ${EVIL}` } });
    const explained = { kinds: all(`wrong-sum ${EVIL}`), causes: all(`wrong-arithmetic ${EVIL}`) };
    const { page, said } = await reports.show({ ...data, tool_version: EVIL, made_at: EVIL, ...explained });
    await page.evaluate(async () => {
        for (
            let closed = document.querySelectorAll<HTMLDetailsElement>("details:not([open])");
            closed.length > 0;
            closed = document.querySelectorAll("details:not([open])")
        ) {
            for (const details of closed) {
                details.open = true;
            }
            await new Promise((resolve) => setTimeout(resolve));
        }
    });
    await page.waitForFunction(() => document.querySelectorAll(".result:not([data-state=shown])").length === 0);
    assert.deepEqual(await page.getByRole("alert").allInnerTexts(), []);
    await page.locator(".lanes canvas").first().focus();
    await page.locator(".lanes canvas").first().press("Enter");
    await page.locator(".panel").first().waitFor();
    assert.equal(await page.evaluate(() => (globalThis as { pwned?: unknown }).pwned), undefined);
    assert.equal(await page.locator("img, iframe, object, embed, main script, [onerror], [onload]").count(), 0);
    assert.equal(await page.locator("body script").count(), 2);
    const links = await page.locator("a").evaluateAll((all) => all.map((its) => its.getAttribute("href") ?? ""));
    assert.ok(links.length > 0 && links.every((href) => href.startsWith("#")));
    const text = await page.locator("main").innerText();
    assert.ok(text.includes("<img src=x onerror='globalThis.pwned = 1'>"));
    assert.ok(text.includes("⟨U+202E⟩cba") && !text.includes("\u202e") && !text.includes("\u001b"));
    assert.deepEqual(said, []);
});

test("the policy of the page forbids scripts that are not its own", async () => {
    const html = await template();
    const policy = /Content-Security-Policy" content="([^"]+)"/.exec(html)?.[1] ?? "";
    assert.match(
        policy,
        /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; img-src data:; base-uri 'none'; form-action 'none'$/,
    );
    const { page, said } = await reports.show(report([]));
    await page.evaluate(() => {
        const script = document.createElement("script");
        script.textContent = "globalThis.pwned = 1";
        document.body.appendChild(script);
    });
    assert.equal(await page.evaluate(() => (globalThis as { pwned?: unknown }).pwned), undefined);
    assert.ok(
        said.some((words) => words.includes("Content Security Policy")),
        said.join(),
    );
});

test("data cannot end their element", async () => {
    const html = filled(
        await template(),
        report([{ name: "</script><!--&\u2028", document: {}, lanes: [], lanes_note: null }]),
    );
    const data = /id="report-data">(.*?)<\/script>/s.exec(html)?.[1] ?? "";
    assert.doesNotMatch(data, /[<>&\u2028\u2029]/);
    assert.equal((JSON.parse(data) as { results: { name: string }[] }).results[0]?.name, "</script><!--&\u2028");
});

test("the page keeps the licence of what is in it", async () => {
    assert.match(await template(), /\/\*! uPlot\nThe MIT License/);
});
