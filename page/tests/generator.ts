/** Makes the data of a report: a small simulated run with slots, a backlog, reaps, cuts and a fault. */

import { deflateSync } from "node:zlib";

import type { LaneData } from "../src/data.ts";

export interface Wishes {
    seed?: number;
    sequences?: number;
    slots?: number;
    workers?: number;
    steps?: number;
    /** Whether the model reports its slots. */
    told?: boolean;
    /** Whether a response is wrong. */
    fault?: boolean;
}

/** Numbers from 0 to 1 that a seed fixes. */
function random(seed: number): () => number {
    let state = seed >>> 0;
    return () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let mixed = Math.imul(state ^ (state >>> 15), state | 1);
        mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
        return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    };
}

const PATTERNS = ["valid", "no-end", "no-start", "cut"];
const ENDS = ["ended", "idle", "rejected", "cut", "open"];
const OUTCOMES = ["completed", "rejected", "failed", "indeterminate", "unanswered"];
const IDLE_US = 100_000;

type Document = Record<string, unknown>;

export interface Simulated {
    lanes: LaneData;
    document: Document;
    /** The latencies of all steps in µs with the time of the response. */
    latencies: { at: number; us: number }[];
}

function emptyLanes(slots: number, told: boolean): LaneData {
    return {
        slots,
        told,
        stretches: [],
        lanes: slots,
        from_us: 0,
        until_us: 0,
        gaps: [],
        left_out: 0,
        patterns: PATTERNS,
        ends: ENDS,
        outcomes: OUTCOMES,
        sequences: {
            worker: [],
            context: [],
            number: [],
            id: [],
            pattern: [],
            end: [],
            lane: [],
            begun: [],
            held: [],
            over: [],
            violations: [],
            step: [],
            steps: [],
            sent: [],
        },
        steps: { number: [], sent: [], took: [], value: [], answer: [], outcome: [], flags: [], slot: [] },
        marks: { at: [], kind: [], sequence: [], violation: [], text: [] },
    };
}

class Simulation {
    readonly lanes: LaneData;
    readonly latencies: { at: number; us: number }[] = [];
    readonly counts: Record<string, Record<string, number>> = {};
    private readonly chance: () => number;
    private readonly clocks: number[];
    private readonly numbers: number[];
    private readonly free: number[];
    private last = 0;
    readonly wrong: { row: number; step: number; at: number; expected: number; value: number; steps: number }[] = [];

    constructor(private readonly wishes: Required<Wishes>) {
        this.lanes = emptyLanes(wishes.slots, wishes.told);
        this.chance = random(wishes.seed);
        this.clocks = Array.from({ length: wishes.workers }, () => Math.floor(this.chance() * 5000));
        this.numbers = Array.from({ length: wishes.workers }, () => 0);
        this.free = Array.from({ length: wishes.slots }, () => 0);
    }

    run(): void {
        for (let row = 0; row < this.wishes.sequences; row += 1) {
            const begun = Math.min(...this.clocks);
            this.sequence(row, this.clocks.indexOf(begun), begun);
        }
        const { marks } = this.lanes;
        const order = marks.at.map((_, index) => index).sort((a, b) => (marks.at[a] ?? 0) - (marks.at[b] ?? 0));
        const sorted = <T>(column: T[]): T[] => order.map((index) => column[index] as T);
        this.lanes.marks = {
            at: sorted(marks.at),
            kind: sorted(marks.kind),
            sequence: sorted(marks.sequence),
            violation: sorted(marks.violation),
            text: sorted(marks.text),
        };
    }

    private count(pattern: string, what: string, by = 1): void {
        const counts = (this.counts[pattern] ??= {});
        counts[what] = (counts[what] ?? 0) + by;
    }

    private mark(at: number, kind: string, sequence: number, text: string, violation = -1): void {
        const { marks } = this.lanes;
        marks.at.push(at);
        marks.kind.push(kind);
        marks.sequence.push(sequence);
        marks.violation.push(violation);
        marks.text.push(text);
    }

    private patternOf(): number {
        const drawn = this.chance();
        return drawn < 0.86 ? 0 : drawn < 0.92 ? 1 : drawn < 0.96 ? 2 : 3;
    }

    private sequence(row: number, worker: number, begun: number): void {
        const { sequences, steps } = this.lanes;
        const pattern = this.patternOf();
        const name = PATTERNS[pattern] ?? "";
        const isRejected = name === "no-start";
        const slot = this.free.indexOf(Math.min(...this.free));
        const answer =
            Math.max(begun, isRejected ? 0 : (this.free[slot] ?? 0)) + 800 + Math.floor(this.chance() * 3000);
        const length = isRejected ? 1 : Math.max(1, Math.round(this.wishes.steps * (0.5 + this.chance())));
        let time = begun;
        let sum = 0;
        let response = answer;
        const first = steps.sent.length;
        for (let step = 0; step < length; step += 1) {
            response = step === 0 ? answer : time + 600 + Math.floor(this.chance() ** 3 * 12_000);
            const value = Math.floor(this.chance() * 1000);
            sum += value;
            const isWrong =
                this.wishes.fault && !isRejected && step === 2 && row === Math.floor(this.wishes.sequences / 2);
            if (isWrong) {
                this.wrong.push({ row, step, at: response, expected: sum, value, steps: length });
            }
            steps.number.push(step);
            steps.sent.push(time - begun);
            steps.took.push(response - time);
            steps.value.push(value);
            steps.answer.push(isRejected ? null : sum + (isWrong ? 1 : 0));
            steps.outcome.push(isRejected ? 1 : 0);
            steps.flags.push((step === 0 && !isRejected ? 1 : 0) | (step === length - 1 && name === "valid" ? 2 : 0));
            steps.slot.push(this.wishes.told && !isRejected ? slot : -1);
            this.latencies.push({ at: response, us: response - time });
            this.count(name, isRejected ? "rejected" : "completed");
            this.count(name, "requests");
            time = response + Math.floor(this.chance() * 500);
        }
        const over = name === "no-end" ? response + IDLE_US : response;
        if (!isRejected) {
            this.free[slot] = over;
        }
        sequences.worker.push(worker);
        sequences.context.push(0);
        sequences.number.push(this.numbers[worker] ?? 0);
        this.numbers[worker] = (this.numbers[worker] ?? 0) + 1;
        sequences.id.push(worker * 100 + 1);
        sequences.pattern.push(pattern);
        sequences.end.push(
            ["ended", "idle", "rejected", "cut"].indexOf(
                { valid: "ended", "no-end": "idle", "no-start": "rejected" }[name] ?? "cut",
            ),
        );
        sequences.lane.push(isRejected ? -1 : slot);
        sequences.begun.push(begun - this.last);
        this.last = begun;
        sequences.held.push(isRejected ? -1 : answer - begun);
        sequences.over.push(over - begun);
        sequences.violations.push(this.wrong.filter((its) => its.row === row).length);
        sequences.step.push(first);
        sequences.steps.push(length);
        sequences.sent.push(length);
        this.count(name, "sequences");
        this.count(name, "sequences_as_designed");
        this.lanes.until_us = Math.max(this.lanes.until_us, over);
        this.clocks[worker] = response + 200;
        if (name === "no-end") {
            this.mark(over, "reap", row, "the idle limit ended the sequence");
        } else if (name === "cut") {
            this.mark(response, "cut", row, "the client cut the stream");
        }
        const found = this.wrong.findIndex((its) => its.row === row);
        if (found >= 0) {
            this.mark(this.wrong[found]?.at ?? 0, "violation", row, "wrong-sum", found);
        }
    }
}

function percentiles(sorted: readonly number[]): Document {
    const at = (quantile: number): number =>
        sorted[Math.min(sorted.length - 1, Math.floor(quantile * sorted.length))] ?? 0;
    const mean = sorted.reduce((all, us) => all + us, 0) / Math.max(1, sorted.length);
    return {
        count: sorted.length,
        mean,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p99_9: at(0.999),
        max: sorted.at(-1) ?? 0,
    };
}

function seriesOf(latencies: readonly { at: number; us: number }[], until: number, withCounts: boolean): Document[] {
    return Array.from({ length: Math.ceil(until / 1e6) }, (_, second) => {
        const its = latencies
            .filter(({ at }) => Math.floor(at / 1e6) === second)
            .map(({ us }) => us)
            .sort((a, b) => a - b);
        const counts: Record<string, number> = {};
        for (const us of its) {
            const bound = String(Math.round(2 ** (Math.floor(4 * Math.log2(us)) / 4)));
            counts[bound] = (counts[bound] ?? 0) + 1;
        }
        const { mean, p50, p99, max } = percentiles(its);
        return {
            at_s: second,
            lasts_s: 1,
            requests: its.length,
            responses: its.length,
            good: its.length,
            sequences: Math.round(its.length / 8),
            violations: 0,
            step_mean_us: mean,
            step_p50_us: p50,
            step_p99_us: p99,
            step_max_us: max,
            live_sequences: 8,
            in_flight: 4,
            slots_taken: 6,
            starts_waiting: 2,
            possible_batch: 3.5,
            mean_batch: 3.1,
            server_queue_us: 1500 + second,
            server_compute_us: 900,
            client_memory_bytes: 50_000_000,
            client_cpu_percent: 12.5,
            server_memory_bytes: null,
            ...(withCounts ? { step_counts: counts } : {}),
        };
    });
}

function sumOf(counts: Record<string, Record<string, number>>): Record<string, number> {
    const total: Record<string, number> = {};
    for (const its of Object.values(counts)) {
        for (const [name, value] of Object.entries(its)) {
            total[name] = (total[name] ?? 0) + value;
        }
    }
    return total;
}

/** A violation of the run, as the tool writes it. */
function violation(simulation: Simulation, place: number, replay: string): Document {
    const { sequences } = simulation.lanes;
    const its = simulation.wrong[place];
    const row = its?.row ?? 0;
    const worker = sequences.worker[row] ?? 0;
    const request = `${worker}-0-${sequences.number[row] ?? 0}-${its?.step ?? 0}`;
    const expected = its?.expected ?? 0;
    return {
        kind: "wrong-sum",
        at_us: its?.at,
        worker,
        context: 0,
        correlation_id: sequences.id[row],
        request_id: request,
        sent: `valid step ${(its?.step ?? 0) + 1}/${its?.steps ?? 0} value ${its?.value ?? 0}`,
        expected: String(expected),
        seen: `${expected + 1} (off by 1)`,
        evidence: { type: "sum", expected: [expected], seen: expected + 1 },
        explanations: [
            {
                cause: "wrong-arithmetic",
                evidence: "the response is wrong by 1",
                clues: [{ type: "wrong-by", off_by: 1 }],
            },
        ],
        replay,
    };
}

/** Simulates a run. The same wishes make the same data. */
export function simulate(wishes: Wishes = {}): Simulated {
    const all = { seed: 1, sequences: 300, slots: 4, workers: 7, steps: 8, told: true, fault: true, ...wishes };
    const simulation = new Simulation(all);
    simulation.run();
    const { lanes, latencies, counts } = simulation;
    const replay = "sequence-stress -t 7 -r 1 --embedded --fault off-by-one:once@500 -m 'custom model'";
    const violations = simulation.wrong.map((_, place) => violation(simulation, place, replay));
    const total = sumOf(counts);
    const sorted = latencies.map(({ us }) => us).sort((a, b) => a - b);
    const elapsed = lanes.until_us / 1e6;
    const document: Document = {
        schema_version: 3,
        tool_version: "0.1.0",
        server_version: "simulated 1.0",
        started_at: "2026-11-26T16:23:17Z",
        host: { name: "host", os: "linux", arch: "x86_64", cpus: 2 },
        verdict: violations.length > 0 ? "invalid" : "valid",
        exit_code: violations.length > 0 ? 1 : 0,
        complete: true,
        doubts: [],
        missed_thresholds: [],
        seed: 1,
        replay,
        claims: [
            { name: "backlog", least: 1, reached: 40 },
            { name: "rejected-after-end", least: 1, reached: 0, hint: "a longer run" },
        ],
        thresholds: [
            {
                threshold: "step.p99 > 1s",
                measured: true,
                missed: false,
                value: 9000,
                unit: "us",
                at_s: null,
                ended_the_run: false,
            },
        ],
        requests: total["requests"],
        sequences: total["sequences"],
        outcomes: total,
        patterns: counts,
        violation_count: violations.length,
        violations_by_kind: violations.length > 0 ? { "wrong-sum": violations.length } : {},
        violations,
        latency_us: {
            step: percentiles(sorted),
            good_step: { ...percentiles(sorted), not_good: violations.length },
            sequence: percentiles(sorted),
            wait_for_slot: percentiles(sorted),
        },
        mean_step_us: {
            steps: latencies.length,
            total: 4000,
            client_late: 0,
            held_back: 0,
            server: {
                requests: latencies.length,
                queue: 2000,
                compute: 1500,
                compute_input: 0,
                compute_infer: 1500,
                compute_output: 0,
                other: 0,
            },
            outside: 500,
        },
        mean_batch: { mean: 3.1, possible: 3.5 },
        requests_per_second: latencies.length / elapsed,
        goodput_per_second: latencies.length / elapsed,
        client_cpu_us_per_request: 48,
        client_memory_bytes: { peak: 50_000_000 },
        elapsed_s: elapsed,
        notes: ["not checked: END and CORRID, because the model does not report them"],
        checks: [
            { name: "server counts", outcome: "passed", says: `agree: ${String(total["completed"])} successes` },
            { name: "pending", outcome: "not-checked", says: "the server's metrics are not known (--metrics-url)" },
        ],
        series: seriesOf(latencies, lanes.until_us, true),
        model: { name: "custom_sequence_int32", strategy: "direct", slots: all.slots, idle_limit_us: IDLE_US },
        scenario_name: "l0",
        scenario: {
            target: { endpoint: "127.0.0.1:1", model: "custom_sequence_int32" },
            load: { workers: all.workers },
        },
    };
    return { lanes, document, latencies };
}

/** Lane data as the tool packs them. */
export function pack(lanes: LaneData): string {
    return deflateSync(JSON.stringify(lanes)).toString("base64");
}

export interface ResultData {
    name: string;
    document: Document;
    lanes: (string | null)[];
    lanes_note: string | null;
}

/** The data of a report of results. */
export function report(results: ResultData[], comparison: Document | null = null): Document {
    const explained = (what: string): Document => ({
        what,
        text: `${what}\n\nWhat to do next:\n\n- replay the run\n- shrink the failure`,
    });
    return {
        form: 1,
        tool_version: "0.1.0",
        made_at: "2026-11-26T17:00:00Z",
        results,
        comparison,
        kinds: { "wrong-sum": explained("A response is not the running sum of its sequence.") },
        causes: { "wrong-arithmetic": explained("A response is wrong by a small number: the model computes wrongly.") },
    };
}

/** A report of one simulated run. */
export function simulated(wishes: Wishes = {}): Document {
    const { lanes, document } = simulate(wishes);
    return report([{ name: "run.json", document, lanes: [pack(lanes)], lanes_note: null }]);
}
