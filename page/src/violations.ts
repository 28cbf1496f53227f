/** Every violation of a run: its messages, cause, evidence, replay command, and what its kind and cause mean. */

import { command } from "./copy.ts";
import type { Explained, Report } from "./data.ts";
import { type Child, button, h, link, table, unfolding } from "./dom.ts";
import { counted, moment } from "./format.ts";
import { type JsonObject, list, number, object, text, word } from "./json.ts";
import type { LaneModel } from "./lanes/model.ts";
import { type SlotsCheck, unusedSlots, unusedWords } from "./lanes/unused.ts";
import { messageChart } from "./messagechart.ts";
import { messagesAround, ownRow } from "./messages.ts";
import { prose } from "./prose.ts";

/** The violations of a group that the page lists at first. */
const SHOWN = 20;

/** What the violations need of the page. */
export interface Surroundings {
    report: Report;
    /** The prefix of the IDs of elements of this result. */
    prefix: string;
    /** The sequences, once they are unpacked; `null` where the report has none. */
    lanes: () => LaneModel | null;
    /** Why there are none. */
    lanesNote: () => string | null;
    /** What the check of the slots after the run found. */
    slotsCheck: SlotsCheck;
    /** Shows a sequence in the figure of the slots. */
    showSequence: (row: number) => void;
}

/** The ID of the element of a violation. */
export function violationId(prefix: string, index: number): string {
    return `${prefix}-violation-${index + 1}`;
}

/** The tool looks for the causes of so many violations, the first ones. */
const EXPLAINED = 200;

/** A violation in a few words, as links have it. */
export function violationWords(violation: JsonObject, index: number): string {
    const request = text(violation["request_id"]);
    const parts = [
        `violation ${index + 1}`,
        text(violation["kind"]),
        `at ${moment(number(violation["at_us"]) ?? 0, 1e4)}`,
        request === null ? null : `step ${request}`,
    ];
    return parts.filter((its) => its !== null).join(", ");
}

interface Group {
    kind: string;
    cause: string | null;
    /** Whether causes were looked for. */
    isExplained: boolean;
    members: { index: number; violation: JsonObject }[];
}

function groupsOf(violations: readonly JsonObject[]): Group[] {
    const groups = new Map<string, Group>();
    violations.forEach((violation, index) => {
        const kind = text(violation["kind"]) ?? "violation";
        const cause = text(object(list(violation["explanations"])[0])["cause"]);
        const isExplained = cause !== null || index < EXPLAINED;
        const key = `${kind}\n${cause ?? ""}\n${String(isExplained)}`;
        const group = groups.get(key) ?? { kind, cause, isExplained, members: [] };
        group.members.push({ index, violation });
        groups.set(key, group);
    });
    return [...groups.values()];
}

function place(violation: JsonObject): string {
    const at = number(violation["at_us"]);
    const part = (name: string, key: string): string | null => {
        const value = word(violation[key]);
        return value === null ? null : `${name} ${value}`;
    };
    const parts = [
        at === null ? null : `at ${moment(at, 1e4)}`,
        part("worker", "worker"),
        part("context", "context"),
        part("correlation ID", "correlation_id"),
        part("request", "request_id"),
    ];
    return parts.filter((its) => its !== null).join(", ");
}

function causes(violation: JsonObject, report: Report): Child[] {
    return list(violation["explanations"])
        .map(object)
        .map((explanation, position) => {
            const cause = text(explanation["cause"]) ?? "";
            const chance = number(explanation["by_chance"]);
            return h(
                "div",
                {},
                h("dt", {}, position === 0 ? "cause" : "or"),
                h(
                    "dd",
                    {},
                    h("strong", {}, cause),
                    `: ${report.causes.get(cause)?.what ?? ""} Evidence: ${text(explanation["evidence"]) ?? "none"}`,
                    chance !== null && `. The quantities match by chance in one of ${chance} cases.`,
                ),
            );
        });
}

function explanation(title: string, explained: Explained | undefined): Child {
    return (
        explained !== undefined &&
        explained.text !== "" &&
        unfolding([title], () => prose(explained.text), { class: "explained" })
    );
}

/** The chart of the messages, or why there is none. */
function messages(violation: JsonObject, around: Surroundings): Child[] {
    const model = around.lanes();
    const values = { seen: text(violation["seen"]) ?? "", expected: text(violation["expected"]) ?? "" };
    if (model === null) {
        return [
            h("p", { class: "note" }, `No chart of messages: ${around.lanesNote() ?? "the report has no sequences."}`),
        ];
    }
    const chosen = messagesAround(model, violation);
    if (chosen === null) {
        const why =
            violation["correlation_id"] === undefined
                ? "the violation concerns no single request."
                : "the report does not have the steps of this sequence.";
        return [h("p", { class: "note" }, `No chart of messages: ${why}`)];
    }
    return messageChart(model, chosen, values);
}

/** Which slots look lost in the figure of the slots, where the violation is that some are. */
function lostSlots(violation: JsonObject, around: Surroundings): Child[] {
    const model = around.lanes();
    if (violation["kind"] !== "slot-leak" || model === null) {
        return [];
    }
    const lost = around.slotsCheck.lost;
    const unused = unusedSlots(model, { areAllFree: false, lost });
    return unused.length === 0
        ? []
        : [
              h(
                  "p",
                  {},
                  link(`${around.prefix}-slots`, "In the slots"),
                  `, no sequence was in: ${unusedWords(model, unused)}.`,
              ),
          ];
}

function details(violation: JsonObject, group: Group, around: Surroundings): Child[] {
    const { report } = around;
    const fact = (name: string, key: string): Child => {
        const value = text(violation[key]);
        return value !== null && h("div", {}, h("dt", {}, name), h("dd", {}, value));
    };
    const replay = text(violation["replay"]);
    const model = around.lanes();
    const row = model === null ? null : ownRow(model, violation);
    const evidence = JSON.stringify(violation["evidence"] ?? null, null, 2);
    return [
        h(
            "dl",
            { class: "facts rows" },
            h("div", {}, h("dt", {}, "where"), h("dd", {}, place(violation))),
            fact("sent", "sent"),
            fact("expected", "expected"),
            fact("seen", "seen"),
            ...causes(violation, report),
        ),
        h("h5", {}, "Messages"),
        ...messages(violation, around),
        ...lostSlots(violation, around),
        row !== null &&
            h(
                "div",
                { class: "buttons" },
                button("Show the sequence in the slots", () => {
                    around.showSequence(row);
                }),
            ),
        replay !== null && h("h5", {}, "Replay"),
        replay !== null && command(replay, "the command that sends the same again"),
        explanation(`What ${group.kind} means`, report.kinds.get(group.kind)),
        group.cause !== null && explanation(`What the cause ${group.cause} means`, report.causes.get(group.cause)),
        unfolding(["Evidence as values"], () => [
            h("pre", { tabindex: "0", role: "group", "aria-label": "Evidence as values" }, evidence),
        ]),
    ];
}

function one(
    { index, violation }: Group["members"][number],
    group: Group,
    around: Surroundings,
    isOpen: boolean,
): HTMLElement {
    const title = `${index + 1}. ${place(violation)}`;
    const seen = `seen ${text(violation["seen"]) ?? "?"}, expected ${text(violation["expected"]) ?? "?"}`;
    return unfolding(
        [h("span", {}, title), " ", h("span", { class: "muted" }, seen)],
        () => details(violation, group, around),
        {
            class: "found",
            id: violationId(around.prefix, index),
            ...(isOpen ? { open: "" } : {}),
        },
    );
}

/** The cause of a group behind its kind. */
function causeOf({ cause, isExplained }: Group): string {
    return cause !== null ? `, cause ${cause}` : isExplained ? "" : ", causes not looked into";
}

function groupSection(group: Group, around: Surroundings, isFirst: boolean): HTMLElement {
    const title = `${group.kind}${causeOf(group)}`;
    const what = around.report.kinds.get(group.kind)?.what;
    const section = h(
        "section",
        { class: "group" },
        h("h4", {}, `${title}: ${counted(group.members.length, "violation")}`),
        what !== undefined && h("p", {}, what),
    );
    const add = (members: Group["members"], opensFirst: boolean): void => {
        members.forEach((member, place) => section.appendChild(one(member, group, around, opensFirst && place === 0)));
    };
    add(group.members.slice(0, SHOWN), isFirst);
    const rest = group.members.slice(SHOWN);
    if (rest.length > 0) {
        const more = button(
            `Show ${counted(rest.length, "more violation")}`,
            () => {
                more.remove();
                add(rest, false);
            },
            { class: "more" },
        );
        section.appendChild(more);
    }
    return section;
}

/** The section of violations; nothing where there are none. */
export function violations(document: JsonObject, around: Surroundings): Child[] {
    const all = list(document["violations"]).map(object);
    const total = number(document["violation_count"]) ?? all.length;
    const groups = groupsOf(all);
    const kinds = Object.entries(object(document["violations_by_kind"]));
    const overview = groups.map((group): Child[] => [
        link(violationId(around.prefix, group.members[0]?.index ?? 0), group.kind),
        group.cause ?? (group.isExplained ? "not known" : `not looked into (the first ${EXPLAINED} are)`),
        group.members.length,
        moment(number(group.members[0]?.violation["at_us"]) ?? 0, 1e4),
    ]);
    return [
        total > all.length &&
            h(
                "p",
                { class: "note" },
                `The run kept the first ${all.length} of ${counted(total, "violation")}. Of all: ${kinds.map(([kind, its]) => `${kind} ${number(its) ?? 0}`).join(", ")}.`,
            ),
        groups.length > 1 &&
            table("Violations by kind and cause", ["kind", "cause", "listed", "first at"], overview, 2),
        groups.length > 1 &&
            h("p", { class: "muted" }, "Listed: how many of them are below. A result keeps the first 1000 violations."),
        ...groups.map((group, position) => groupSection(group, around, position < 3)),
    ];
}
