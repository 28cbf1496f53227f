/** Moments of a run that concern all of it, as its result tells them. */

import type { LaneData } from "./data.ts";
import { type JsonObject, list, number, object, text } from "./json.ts";

export interface RunMoment {
    /** In µs since the run began. */
    at: number;
    kind: "phase" | "restart" | "fault";
    words: string;
}

/** Where phases began, and where the server was away. */
export function stagesOf(document: JsonObject): RunMoment[] {
    const phases = list(document["phases"])
        .map(object)
        .map((phase): RunMoment => {
            return { at: number(phase["began_us"]) ?? 0, kind: "phase", words: text(phase["name"]) ?? "" };
        });
    const absences = list(object(document["restarts"])["absences"])
        .map(object)
        .map((absence): RunMoment => {
            return { at: number(absence["at_us"]) ?? 0, kind: "restart", words: "the server was away" };
        });
    return [...phases, ...absences];
}

/** Where faults were committed that were planted in the server: of each the first times. */
function faultsOf(document: JsonObject): RunMoment[] {
    return list(document["planted_faults"])
        .map(object)
        .flatMap((fault) =>
            list(fault["committed_at_us"]).map((at): RunMoment => {
                return { at: number(at) ?? 0, kind: "fault", words: text(fault["fault"]) ?? "" };
            }),
        );
}

/** The lanes with marks for what the run's result tells of it. */
export function withMoments(lanes: LaneData, document: JsonObject): LaneData {
    // The history tells of restarts itself.
    const stages = stagesOf(document).filter(({ kind }) => kind !== "restart" || !lanes.marks.kind.includes("restart"));
    const moments = [...stages, ...faultsOf(document)];
    const none = moments.map(() => -1);
    const { marks } = lanes;
    return {
        ...lanes,
        marks: {
            at: [...marks.at, ...moments.map(({ at }) => at)],
            kind: [...marks.kind, ...moments.map(({ kind }) => kind)],
            sequence: [...marks.sequence, ...none],
            violation: [...marks.violation, ...none],
            text: [...marks.text, ...moments.map(({ words }) => words)],
        },
    };
}
