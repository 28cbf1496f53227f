/** The sections of one run. */

import { configuration } from "./configuration.ts";
import type { Report, Result } from "./data.ts";
import { type Child, add, fill, h, link } from "./dom.ts";
import { distribution, percentiles } from "./distribution.ts";
import { heatMap } from "./heatmap.ts";
import { inflate } from "./inflate.ts";
import { type JsonObject, list, number, object, text } from "./json.ts";
import type { LanesFigure } from "./lanes/figure.ts";
import { LaneModel } from "./lanes/model.ts";
import { lanesSection } from "./lanes/section.ts";
import { slotsCheckOf } from "./lanes/unused.ts";
import { withMoments } from "./moments.ts";
import { patterns } from "./patterns.ts";
import { type Series, charts, seriesOf, seriesTable } from "./series.ts";
import { summary } from "./summary.ts";
import { verdictOf } from "./verdict.ts";
import { type Surroundings, violationId, violationWords, violations } from "./violations.ts";

/** A section of a result: its name in the list of sections, and its content. */
interface Section {
    id: string;
    title: string;
    content: Child[];
}

/** The line of the verdict. */
export function verdictLine(document: JsonObject): HTMLElement {
    const { word, tone, sentence } = verdictOf(document);
    return h("p", { class: `verdict ${tone}` }, h("strong", {}, word), `: ${sentence}`);
}

/** What the reader has to know before anything else: that the run goes on, or was interrupted. */
function warnings(document: JsonObject): Child[] {
    const isWhole = document["complete"] !== false;
    return [
        !isWhole &&
            h(
                "p",
                { class: "note strong" },
                "This is a checkpoint: it says what the run had shown by then. The run had not ended, or its end is not known.",
            ),
    ];
}

/** A server's name and version, with the release where the version tells it: NVIDIA's 24.10 is Triton 2.51.0. */
function serverWords(server: string | null): string | null {
    const minor = Number(/^triton 2\.(\d+)\.0$/.exec(server ?? "")?.[1] ?? NaN);
    // Releases came each month from 23.04, which is 2.33.0, to 24.10, which is 2.51.0.
    if (!(minor >= 33 && minor <= 51)) {
        return server;
    }
    const month = minor - 33 + 3;
    return `${server ?? ""} (release ${23 + Math.floor(month / 12)}.${String((month % 12) + 1).padStart(2, "0")})`;
}

/** The target of a run, in a line. */
function target(document: JsonObject): string {
    const model = document["model"] as JsonObject | undefined;
    const name = text(model?.["name"]);
    const server = serverWords(text(document["server_version"]));
    const scenario = text(document["scenario_name"]);
    return [name, server === null ? null : `on ${server}`, scenario === null ? null : `scenario ${scenario}`]
        .filter((part) => part !== null)
        .join(", ");
}

class RunView {
    readonly prefix: string;
    private readonly document: JsonObject;
    private model: LaneModel | null = null;
    private figure: LanesFigure | null = null;
    private why: string | null;

    constructor(
        private readonly report: Report,
        private readonly result: Result,
        prefix: string,
    ) {
        this.prefix = prefix;
        this.document = result.document;
        this.why = result.lanesNote;
    }

    /** Unpacks the sequences where the report has them. */
    async unpack(): Promise<void> {
        const packed = this.result.lanes[0];
        if (packed !== null && packed !== undefined) {
            try {
                this.model = new LaneModel(withMoments(await inflate(packed), this.document));
            } catch (problem) {
                this.why = problem instanceof Error ? problem.message : String(problem);
            }
        }
    }

    private surroundings(): Surroundings {
        return {
            report: this.report,
            prefix: this.prefix,
            lanes: () => this.model,
            lanesNote: () => this.why,
            slotsCheck: slotsCheckOf(this.document),
            showSequence: (row) => {
                this.figure?.zoomTo(row);
                this.figure?.element.scrollIntoView({ block: "center" });
            },
        };
    }

    private lanes(): Child[] {
        if (this.model === null) {
            return [
                h(
                    "p",
                    { class: "note" },
                    this.why ?? "This report has no sequences: it was made from a result without its history.",
                ),
            ];
        }
        const kept = list(this.document["violations"]).map(object);
        const { content, figure } = lanesSection(this.model, this.result, (index) => {
            const its = kept[index];
            return its === undefined
                ? null
                : { id: violationId(this.prefix, index), words: violationWords(its, index) };
        });
        this.figure = figure;
        return content;
    }

    private latency(series: Series | null): Child[] {
        const drawn = series === null ? [] : charts(series, "latency");
        return [
            percentiles(this.document),
            series !== null && drawn.length > 0 && series.group.toolbar(),
            h("div", { class: "charts" }, ...drawn),
            series !== null && heatMap(series),
            distribution(series, this.document),
            series === null &&
                h("p", { class: "note" }, "This result has no series, so nothing can be drawn over time."),
        ];
    }

    sections(): Section[] {
        const { document, prefix } = this;
        const series = seriesOf(document);
        const of = (section: string): Child[] => {
            const drawn = series === null ? [] : charts(series, section);
            return drawn.length > 0 ? [h("div", { class: "charts" }, ...drawn)] : [];
        };
        const found = violations(document, this.surroundings());
        const sections: [string, string, Child[]][] = [
            ["summary", "Summary", summary(document)],
            ["violations", "Violations", (number(document["violation_count"]) ?? 0) > 0 ? found : []],
            ["slots", "Slots", this.lanes()],
            ["latency", "Latency", this.latency(series)],
            ["throughput", "Throughput and goodput", of("throughput")],
            ["server", "Queue, compute, batches and backlog", of("server")],
            ["resources", "Memory and CPU", of("resources")],
            ["patterns", "Sequences by pattern and outcome", patterns(document)],
            ["configuration", "Configuration and replay", configuration(document)],
        ];
        if (series !== null) {
            sections.find(([id]) => id === "resources")?.[2].push(seriesTable(series));
        }
        return sections
            .filter(([, , content]) => content.length > 0)
            .map(([id, title, content]) => ({ id: `${prefix}-${id}`, title, content }));
    }
}

/** The list of the sections, and the sections themselves. */
export function laidOut(sections: readonly Section[], label: string, level: "h2" | "h3"): Child[] {
    return [
        h("nav", { class: "sections", "aria-label": label }, ...sections.map(({ id, title }) => link(id, title))),
        ...sections.map(({ id, title, content }) =>
            h("section", { class: "part-section", id }, h(level, { id: `${id}-title` }, title), ...content),
        ),
    ];
}

/** Shows a run in an element; it is filled once the sequences are unpacked. */
export async function showRun(
    host: HTMLElement,
    report: Report,
    result: Result,
    prefix: string,
    withVerdict: boolean,
): Promise<void> {
    const view = new RunView(report, result, prefix);
    const { document } = result;
    fill(host, h("p", { class: "muted" }, "Unpacking the sequences…"));
    await view.unpack();
    fill(host);
    add(host, [
        withVerdict && verdictLine(document),
        h("p", { class: "muted" }, target(document)),
        ...warnings(document),
        ...laidOut(view.sections(), `Sections of ${result.name}`, "h3"),
    ]);
    host.dataset["state"] = "shown";
}
