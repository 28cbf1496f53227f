/** Builds the page from the data in it. */

import { comparisons, findingOf } from "./comparison.ts";
import { type Report, type Result, readReport } from "./data.ts";
import { type Child, fill, h, unfolding } from "./dom.ts";
import { clock } from "./format.ts";
import { isObject, list, object } from "./json.ts";
import { showHunt } from "./hunt.ts";
import { limit } from "./limit.ts";
import { configuration } from "./configuration.ts";
import { overview, resultHeading, scenarioEntries } from "./overview.ts";
import { laidOut, showRun, verdictLine } from "./run.ts";
import { compared } from "./series.ts";
import { kindOf } from "./verdict.ts";
import { basis, gapSections } from "./window.ts";

/** What shows a result in an element. */
type Show = (host: HTMLElement) => Promise<void>;

function showSuite(report: Report, result: Result, prefix: string): Show {
    const scenarios = list(result.document["scenarios"]).map(object);
    return (host) => {
        const details = scenarios.flatMap((scenario, place): Child[] => {
            const document = scenario["result"];
            if (!isObject(document)) {
                return [];
            }
            const id = `${prefix}-s${place + 1}`;
            const name = typeof scenario["name"] === "string" ? scenario["name"] : `scenario ${place + 1}`;
            const own: Result = {
                name,
                document,
                lanes: [result.lanes[place] ?? null],
                lanesNote: result.lanesNotes?.[place] ?? result.lanesNote,
            };
            return [folded(id, name, own, "h3", (inner) => showRun(inner, report, own, id, true))];
        });
        fill(
            host,
            verdictLine(result.document),
            overview("Scenarios of the suite", scenarioEntries(result.document, prefix)),
            ...details,
        );
        host.dataset["state"] = "shown";
        return Promise.resolve();
    };
}

function showLimit(report: Report, result: Result, prefix: string): Show {
    const { document } = result;
    return async (host) => {
        const violation = document["violation"];
        const sections = [
            { id: `${prefix}-limit`, title: "Limit curve", content: limit(document) },
            { id: `${prefix}-configuration`, title: "Configuration and replay", content: configuration(document) },
        ];
        fill(host, verdictLine(document), ...laidOut(sections, `Sections of ${result.name}`, "h3"));
        if (isObject(violation)) {
            const inner = h("div", {});
            host.append(h("h3", {}, "The run that found a violation"), inner);
            const own: Result = {
                name: `${result.name}: violation`,
                document: violation,
                lanes: result.lanes,
                lanesNote: result.lanesNote,
            };
            await showRun(inner, report, own, `${prefix}-violation`, true);
        }
        host.dataset["state"] = "shown";
    };
}

function showWindow(result: Result, prefix: string): Show {
    const { document } = result;
    return (host) => {
        const sections = [
            ...gapSections(document, prefix),
            { id: `${prefix}-configuration`, title: "Configuration and replay", content: configuration(document) },
        ];
        const parts = laidOut(sections, `Sections of ${result.name}`, "h3");
        fill(host, verdictLine(document), basis(document), ...parts);
        host.dataset["state"] = "shown";
        return Promise.resolve();
    };
}

function showOf(report: Report, result: Result, prefix: string): Show {
    switch (kindOf(result.document)) {
        case "suite":
            return showSuite(report, result, prefix);
        case "limit":
            return showLimit(report, result, prefix);
        case "hunt":
            return (host) => {
                showHunt(host, report, result, prefix, (id, name, own) =>
                    folded(id, name, own, "h3", (inner) => showRun(inner, report, own, id, true)),
                );
                return Promise.resolve();
            };
        case "window":
            return showWindow(result, prefix);
        case "run":
            return (host) => showRun(host, report, result, prefix, true);
    }
}

/** Why something could not be shown. */
function failure(problem: unknown): HTMLElement {
    const words = problem instanceof Error ? problem.message : String(problem);
    return h("p", { class: "note strong", role: "alert" }, `This part cannot be shown: ${words}`);
}

/** A result that is made when it is unfolded. */
function folded(id: string, name: string, result: Result, level: "h2" | "h3", show: Show): HTMLDetailsElement {
    return unfolding(
        resultHeading(name, result.document, level),
        () => {
            const host = h("div", { class: "result" });
            show(host).catch((problem: unknown) => {
                fill(host, failure(problem));
            });
            return [host];
        },
        { id, class: "folded" },
    );
}

/** Unfolds the element that the address names, and all around it. */
function unfoldTarget(): void {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id === "" ? null : document.getElementById(id);
    for (let element: Element | null = target; element !== null; element = element.parentElement) {
        if (element instanceof HTMLDetailsElement) {
            element.open = true;
        }
    }
    target?.scrollIntoView();
}

/** The series of two compared runs over each other. */
function overlaid([old, now, ...others]: readonly Result[]): Child[] {
    const isPair = old !== undefined && now !== undefined && others.length === 0;
    const drawn = isPair ? compared(old.document, now.document) : [];
    return drawn.length === 0 ? [] : [h("div", { class: "charts" }, ...drawn)];
}

async function page(report: Report, main: HTMLElement): Promise<void> {
    const { results, comparison, comparisonNote } = report;
    const ids = results.map((_, place) => `r${place + 1}`);
    const comparing =
        comparison === null
            ? comparisonNote === null
                ? []
                : [h("p", { class: "note" }, `These runs are not compared: ${comparisonNote}.`)]
            : [
                  h(
                      "section",
                      { id: "comparison" },
                      h("h2", { id: "comparison-title" }, "Comparison"),
                      ...comparisons(comparison),
                      ...overlaid(results),
                  ),
              ];
    const [only] = results;
    if (only !== undefined && results.length === 1) {
        const host = h("div", { class: "result", id: "r1" });
        fill(main, h("h2", {}, only.name), host, ...comparing);
        await showOf(
            report,
            only,
            "r1",
        )(host).catch((problem: unknown) => {
            fill(host, failure(problem));
        });
        return;
    }
    const entries = results.map((result, place) => ({
        name: result.name,
        id: ids[place] ?? null,
        document: result.document,
        outcome: "",
        why: "",
    }));
    const details = results.map((result, place) => {
        const id = ids[place] ?? "r";
        return folded(id, result.name, result, "h2", showOf(report, result, id));
    });
    fill(main, h("h2", {}, "Results"), overview("Results", entries), ...comparing, ...details);
}

/** The title of the browser's tab: what the report comes to. */
function title({ results, comparison }: Report): string {
    const finding = comparison === null ? undefined : list(comparison["comparisons"])[0];
    if (finding !== undefined) {
        return `${findingOf(object(finding)).word}: ${results.map((result) => result.name).join(", ")}`;
    }
    return results.map((result) => result.name).join(", ") || "sequence-stress report";
}

async function begin(): Promise<void> {
    const main = document.getElementById("main");
    const source = document.getElementById("report-data")?.textContent ?? "{}";
    if (main === null) {
        return;
    }
    try {
        const report = readReport(source);
        document.title = title(report);
        const made = document.getElementById("made");
        if (made !== null) {
            fill(made, `Made by sequence-stress ${report.toolVersion} on ${clock(report.madeAt)}.`);
        }
        await page(report, main);
        addEventListener("hashchange", unfoldTarget);
        unfoldTarget();
        document.documentElement.dataset["state"] = "shown";
    } catch (problem) {
        fill(
            main,
            h(
                "p",
                { class: "note strong", role: "alert" },
                problem instanceof Error ? problem.message : String(problem),
            ),
        );
        document.documentElement.dataset["state"] = "failed";
    }
}

void begin();
