/** Opens reports in a headless Chromium. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before } from "node:test";
import { pathToFileURL } from "node:url";

import { type Browser, type BrowserContextOptions, type Page, chromium } from "playwright-core";

import { program } from "../browser.mjs";
import { filled, page as template } from "../build.mjs";

class Reports {
    private constructor(
        private readonly browser: Browser,
        private readonly folder: string,
        private readonly html: string,
    ) {}

    static async open(): Promise<Reports> {
        const html = await template();
        const browser = await chromium.launch({ ...(await program()), headless: true });
        return new Reports(browser, mkdtempSync(join(tmpdir(), "report-")), html);
    }

    /** Closes the windows that are open. */
    async closePages(): Promise<void> {
        await Promise.all(this.browser.contexts().map((context) => context.close()));
    }

    async close(): Promise<void> {
        await this.browser.close();
        rmSync(this.folder, { recursive: true, force: true });
    }

    /** Opens a report of data in a new window. Each word in the console and each request of the page is an entry of `said`. */
    async show(data: unknown, options: BrowserContextOptions = {}): Promise<Opened> {
        const file = join(this.folder, `${crypto.randomUUID()}.html`);
        writeFileSync(file, filled(this.html, data));
        const context = await this.browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
        context.setDefaultTimeout(15_000);
        const page = await context.newPage();
        const said: string[] = [];
        page.on("console", (message) => said.push(`${message.type()}: ${message.text()}`));
        page.on("pageerror", (error) => said.push(`error: ${error.message}`));
        page.on("request", (request) => {
            if (!/^(file|data|blob):/.test(request.url())) {
                said.push(`request: ${request.url()}`);
            }
        });
        const url = pathToFileURL(file).href;
        await page.goto(url);
        await page.waitForFunction(() => document.documentElement.dataset["state"] !== undefined);
        return { page, said, url };
    }
}

export interface Opened {
    page: Page;
    said: string[];
    url: string;
}

/** A browser for the tests of a file: it is there while they run, and a window is closed when its test is over. */
export function browser(): Pick<Reports, "show"> {
    let reports: Reports | undefined;
    before(async () => {
        reports = await Reports.open();
    });
    afterEach(async () => {
        await reports?.closePages();
    });
    after(async () => {
        await reports?.close();
    });
    return {
        show: (data, options) => {
            if (reports === undefined) {
                throw new Error("the browser is there in tests alone");
            }
            return reports.show(data, options);
        },
    };
}
