/** What a hunt found: a table of findings and releases, what was run, and each finding with the run that found it. */

import { command } from "./copy.ts";
import type { Report, Result } from "./data.ts";
import { type Cell, NO_NUMBERS, type Child, fill, h, link, table, unfolding } from "./dom.ts";
import { clock, count, counted, duration } from "./format.ts";
import { type JsonObject, isObject, list, number, object, text, texts, word } from "./json.ts";
import { prose } from "./prose.ts";
import { verdictLine } from "./run.ts";
import { badge } from "./summary.ts";
import { OUTCOMES, coverageWords, failedOn, verdictOf } from "./verdict.ts";

/** Makes a run that is shown when it is unfolded. */
type Fold = (id: string, name: string, run: Result) => HTMLElement;

function title(finding: JsonObject): string {
    const cause = text(finding["cause"]);
    return `${text(finding["kind"]) ?? "finding"}${cause === null ? "" : `, cause ${cause}`}`;
}

/** What became of a finding on a release: in how many replays it failed, and in how many runs it was met. */
function came(release: JsonObject | undefined): string {
    const replays = object(release?.["replays"]);
    const runs = number(replays["runs"]) ?? 0;
    const why = text(replays["problem"]);
    const otherwise = texts(replays["otherwise"]);
    const met = number(release?.["met"]) ?? 0;
    return [
        runs > 0
            ? `${count(number(replays["failed"]))} of ${counted(runs, "replay")}`
            : `not replayed${why === null ? "" : `: ${why}`}`,
        otherwise.length > 0 && `other violations: ${otherwise.join(", ")}`,
        met > 0 && `met in ${counted(met, "run")}`,
    ]
        .filter((part) => part !== false)
        .join("; ");
}

/** A release's cell: a badge says whether the finding is there. */
function cell(release: JsonObject | undefined): Child {
    const replays = object(release?.["replays"]);
    const isOther = texts(replays["otherwise"]).length > 0;
    const runs = number(replays["runs"]) ?? 0;
    if (release !== undefined && (failedOn(release) || isOther)) {
        return h("span", {}, badge("failed"), ` ${came(release)}`);
    }
    // Too few replays show no more than that.
    return runs > 0
        ? h("span", {}, badge("not seen"), ` in ${counted(runs, "replay")}`)
        : h("span", {}, badge("not tried"), ` ${came(release)}`);
}

function findingsTable(findings: readonly JsonObject[], releases: readonly string[], prefix: string): Child {
    const rows = findings.map((finding, place): Cell[] => {
        const its = list(finding["releases"]).map(object);
        const size = finding["is_small"] === true ? count(number(finding["messages"])) : (text(finding["size"]) ?? "");
        return [
            link(`${prefix}-f${place + 1}`, title(finding)),
            size,
            ...releases.map((release) => cell(its.find((of) => text(of["release"]) === release))),
        ];
    });
    return table("Findings by release", ["finding", "messages", ...releases], rows, NO_NUMBERS);
}

function coverage(document: JsonObject, releases: readonly string[]): Child[] {
    const rows = list(document["coverage"]).map(object);
    const known = rows.map((row) => text(row["model"])).filter((model) => model !== null);
    const models = [...new Set([...texts(document["models"]), ...known])];
    if (rows.length === 0) {
        return [h("p", { class: "note" }, "No run was begun.")];
    }
    const of = (release: string, model: string): string =>
        coverageWords(
            rows.filter((row) => text(row["release"]) === release && text(row["model"]) === model),
            OUTCOMES,
        ) || "none";
    const single = rows.map((row): Cell[] => {
        const took = number(row["took_s"]);
        return [
            text(row["scenario"]) ?? "",
            text(row["release"]) ?? "",
            text(row["model"]) ?? "",
            coverageWords([row], OUTCOMES),
            { cell: took === null ? "–" : duration(took * 1e6), class: "number" },
        ];
    });
    return [
        table(
            "Runs by release and model",
            ["release", ...models],
            releases.map((release) => [release, ...models.map((model) => of(release, model))]),
            NO_NUMBERS,
        ),
        unfolding(["The same by scenario"], () => [
            table("Runs by scenario", ["scenario", "release", "model", "runs", "time"], single, NO_NUMBERS),
        ]),
    ];
}

/** At most so many rows say how far a hunt was in time. */
const REACHED_ROWS = 12;

/** How far a hunt that learns was in time. */
function reached(document: JsonObject): Child[] {
    const rows = list(document["reached"]).map(object);
    const step = Math.max(1, Math.ceil(rows.length / REACHED_ROWS));
    const shown = rows.filter((_, place) => (place + 1) % step === 0 || place === rows.length - 1);
    const cells = shown.map((row): Cell[] => {
        const elapsed = number(row["elapsed_s"]);
        const numbers = ["runs", "requests", "pairs"].map((name) => count(number(row[name])));
        const estimates = [
            number(row["new_in_next_run"])?.toFixed(2) ?? "–",
            number(row["unseen_at_least"])?.toFixed(0) ?? "–",
        ];
        return [elapsed === null ? "–" : duration(elapsed * 1e6), ...numbers, ...estimates];
    });
    const head = ["after", "runs", "requests", "pairs of transitions", "new in the next run", "unseen, at least"];
    return rows.length === 0
        ? []
        : [h("h3", {}, "What the runs reached"), table("What the runs reached", head, cells, 0)];
}

function notes(document: JsonObject): string[] {
    const waiting = list(document["waiting"])
        .map(object)
        .map((its) => {
            const found = object(its["found"]);
            return `not looked into yet: ${title(its)} on ${text(found["release"]) ?? ""}: ${text(found["command"]) ?? ""}`;
        });
    return [...texts(document["notes"]), ...waiting];
}

function block(name: string, content: string): Child[] {
    return [h("h4", {}, name), h("pre", { tabindex: "0", role: "group", "aria-label": name }, content)];
}

/** What a finding is, without its run. */
function details(report: Report, finding: JsonObject): Child[] {
    const found = object(finding["found"]);
    const death = text(finding["death"]);
    const shape = texts(finding["shape"]);
    const chart = text(finding["chart"]) ?? "";
    const facts: [string, string | null][] = [
        ["size", text(finding["size"])],
        ["found", [text(found["release"]), text(found["model"])].filter((part) => part !== null).join(", ") || null],
        ["scenario", text(found["scenario"])],
        ["seed", word(found["seed"])],
        ["server", text(found["setting"])],
        ["met with", [...texts(finding["models"]), ...texts(finding["scenarios"])].join(", ") || null],
        ["folder", text(finding["name"])],
        ["fingerprint (what two findings of one bug have in common)", text(finding["fingerprint"])],
    ];
    const kind = report.kinds.get(text(finding["kind"]) ?? "");
    const cause = report.causes.get(text(finding["cause"]) ?? "");
    return [
        h("p", {}, text(finding["words"])),
        death !== null && h("p", { class: "note strong" }, `The server ${death}.`),
        kind !== undefined && h("p", { class: "muted" }, kind.what),
        cause !== undefined && h("p", { class: "muted" }, cause.what),
        h(
            "dl",
            { class: "facts" },
            ...facts.map(([name, value]) => value !== null && h("div", {}, h("dt", {}, name), h("dd", {}, value))),
        ),
        ...(shape.length > 0
            ? block("What the clients do: a line is one worker, or several that do the same", shape.join("\n"))
            : []),
        ...(chart === ""
            ? []
            : [
                  ...block("What happens", chart),
                  h(
                      "p",
                      { class: "muted" },
                      "await: the client waits for this response before it goes on. (accused): the message that the violation is about.",
                  ),
              ]),
        h("h4", {}, "How to have it again, in the finding's folder"),
        ...list(finding["again"])
            .map(object)
            .flatMap((its): Child[] => {
                const what = text(its["what"]) ?? "";
                return [h("p", { class: "muted" }, what), command(text(its["command"]) ?? "", `the command: ${what}`)];
            }),
        cause !== undefined && unfolding(["What the documentation says of the cause"], () => prose(cause.text)),
    ];
}

/** Shows a hunt in an element. */
export function showHunt(host: HTMLElement, report: Report, result: Result, prefix: string, fold: Fold): void {
    const { document } = result;
    const findings = list(document["findings"]).map(object);
    const releases = texts(document["releases"]);
    const took = number(document["took_s"]);
    const folded = findings.map((finding, place) => {
        const run = finding["result"];
        const id = `${prefix}-f${place + 1}`;
        const own: Result = {
            name: `the run that found ${text(finding["name"]) ?? `finding ${place + 1}`}`,
            document: object(run),
            lanes: [result.lanes[place] ?? null],
            lanesNote: result.lanesNotes?.[place] ?? null,
        };
        return unfolding(
            [h("h3", {}, title(finding)), " ", h("span", { class: "muted" }, text(finding["name"]))],
            () => [
                ...details(report, finding),
                isObject(run)
                    ? fold(`${id}-run`, "The run that found it", own)
                    : h("p", { class: "note" }, "The run that found it left no result."),
            ],
            { id, class: "folded" },
        );
    });
    const remarks = notes(document);
    fill(
        host,
        verdictLine(document),
        verdictOf(document).word === "NOTHING FOUND" &&
            h(
                "p",
                { class: "note" },
                "The hunt ran only some scenarios and seeds, so this is no proof that the releases are correct.",
            ),
        h(
            "p",
            { class: "muted" },
            [clock(text(document["started_at"])), took === null ? "" : duration(took * 1e6)]
                .filter((part) => part !== "")
                .join(", "),
        ),
        findings.length > 0 && h("h3", {}, "Findings"),
        findings.length > 0 && findingsTable(findings, releases, prefix),
        h("h3", {}, "Runs"),
        ...coverage(document, releases),
        ...reached(document),
        remarks.length > 0 && h("h3", {}, "Notes"),
        remarks.length > 0 && h("ul", {}, ...remarks.map((note) => h("li", {}, note))),
        ...folded,
    );
    host.dataset["state"] = "shown";
}
