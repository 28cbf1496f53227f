/** The configuration of a result, and how to have the result again. */

import { command } from "./copy.ts";
import { NO_NUMBERS, type Cell, type Child, h, table, unfolding } from "./dom.ts";
import { clock, duration } from "./format.ts";
import { type Json, type JsonObject, isObject, list, number, object, text, word } from "./json.ts";

/** Every value of a nested object by its path, as in `load.workers`. */
function flat(value: Json | undefined, path: string, rows: Cell[][]): void {
    if (isObject(value) && Object.keys(value).length > 0) {
        for (const [key, item] of Object.entries(value)) {
            flat(item, path === "" ? key : `${path}.${key}`, rows);
        }
    } else if (value !== undefined && path !== "") {
        rows.push([path, typeof value === "string" ? value : JSON.stringify(value)]);
    }
}

function model(document: JsonObject): Child[] {
    const its = object(document["model"]);
    const idle = number(its["idle_limit_us"]);
    const rows: Cell[][] = [];
    flat(its, "", rows);
    const host = object(document["host"]);
    const known: [string, string | null][] = [
        ["model", text(its["name"])],
        ["server", text(document["server_version"])],
        ["endpoint", text(object(object(document["scenario"])["target"])["endpoint"])],
        ["strategy", text(its["strategy"])],
        ["slots", word(its["slots"])],
        ["idle limit", idle === null ? null : duration(idle)],
        [
            "client's machine",
            [host["name"], host["os"], host["arch"]]
                .map((part) => text(part))
                .filter((part) => part !== null)
                .join(", ") || null,
        ],
        ["begun", clock(text(document["started_at"]))],
        ["tool", text(document["tool_version"])],
    ];
    return [
        h(
            "dl",
            { class: "facts" },
            ...known.map(
                ([name, value]) =>
                    value !== null && value !== "" && h("div", {}, h("dt", {}, name), h("dd", {}, value)),
            ),
        ),
        rows.length > 0 &&
            unfolding(["The model in full"], () => [table("The model", ["key", "value"], rows, NO_NUMBERS)]),
    ];
}

function scenario(document: JsonObject): Child {
    const rows: Cell[][] = [];
    flat(document["scenario"], "", rows);
    return (
        rows.length > 0 &&
        unfolding([`The scenario ${text(document["scenario_name"]) ?? ""} in full`], () => [
            table("The scenario", ["key", "value"], rows, NO_NUMBERS),
        ])
    );
}

function parts(document: JsonObject): Child {
    const all = list(document["endpoint_parts"]).map(object);
    return (
        all.length > 0 &&
        h(
            "p",
            { class: "muted" },
            `The endpoint: ${all.map((part) => `${text(part["part"]) ?? ""} ${part["has"] === true ? "yes" : "no"}`).join(", ")}.`,
        )
    );
}

/** The section of the configuration. */
export function configuration(document: JsonObject): Child[] {
    const replay = text(document["replay"]);
    return [
        replay !== null && h("h4", {}, "The same requests again"),
        replay !== null && command(replay, "the command that sends the same requests again"),
        h("h4", {}, "Server and model"),
        ...model(document),
        parts(document),
        scenario(document),
        unfolding(["The result as JSON"], () => [
            h(
                "pre",
                { tabindex: "0", role: "group", "aria-label": "The result as JSON" },
                JSON.stringify(document, null, 1),
            ),
        ]),
    ];
}
