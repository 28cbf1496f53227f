/** Tests of the parts that need no browser. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { bound, countsOf, range, sum } from "../src/buckets.ts";
import { type Stretch, readReport } from "../src/data.ts";
import { axisMoment, bytes, change, clock, duration, moment, visible } from "../src/format.ts";
import { flawOf } from "../src/inflate.ts";
import { type JsonObject, parse } from "../src/json.ts";
import { LaneModel } from "../src/lanes/model.ts";
import { unusedSlots } from "../src/lanes/unused.ts";
import { Track, packed } from "../src/lanes/track.ts";
import { messagesAround } from "../src/messages.ts";
import { withMoments } from "../src/moments.ts";
import { perSecond, rowsOf } from "../src/intervals.ts";
import { Span, ticks } from "../src/span.ts";
import { kindOf, verdictOf } from "../src/verdict.ts";
import { simulate, simulated } from "./generator.ts";

test("times and sizes have the unit that fits", () => {
    const times = [0, 412, 3410, 341_000, 1_713_000, 125e6, 8.5 * 3600e6].map(duration);
    assert.deepEqual(times, ["0", "412 µs", "3.41 ms", "341 ms", "1.71 s", "2 min 5 s", "8 h 30 min"]);
    assert.deepEqual([bytes(0), bytes(999), bytes(79_400_000), bytes(null)], ["0", "999 bytes", "79.4 MB", "–"]);
    assert.deepEqual([change(1.23), change(0.9), change(null)], ["+23 %", "−10 %", "–"]);
    assert.equal(clock("2026-11-26T16:23:17Z"), "2026-11-26 16:23:17 UTC");
    assert.deepEqual([moment(1_233_456, 10), moment(1_233_456, 1e7)], ["1.233456 s", "1.2 s"]);
    assert.deepEqual([3_599_800_000, 125e6, 7_260e6].map(duration), ["1 h", "2 min 5 s", "2 h 1 min"]);
    assert.deepEqual([moment(3_446_512_000, 1e7), moment(599e6, 1e9)], ["57 min 26.5 s", "599.0 s"]);
    assert.deepEqual(
        [axisMoment(2400e6, 3600e6), axisMoment(0, 3600e6), axisMoment(1.25e6, 4e6)],
        ["40 min", "0 s", "1.25 s"],
    );
});

test("hidden characters are made visible, and others stay", () => {
    assert.equal(visible("a\u0000b\u202ec\nd<e>é"), "a\u2400b⟨U+202E⟩c\nd<e>é");
});

test("a whole number that a number cannot hold stays exact where the engine gives its source", () => {
    const seed = (parse('{"seed": 18446744073709551615, "small": 7}') as { seed: unknown; small: unknown }).seed;
    const version = Number(process.versions.node.split(".")[0]);
    assert.ok(version >= 21 ? seed === "18446744073709551615" : seed === 18446744073709552000);
});

test("data of another form are refused with what to do next", () => {
    assert.throws(() => readReport("{}"), /empty template.*sequence-stress report/);
    assert.throws(() => readReport('{"form": 2}'), /form 1.*form 2.*again/);
    assert.equal(readReport(JSON.stringify(simulated())).results.length, 1);
});

test("latencies fall into four buckets to each doubling", () => {
    assert.deepEqual([40, 41, 42, 43, 44].map(bound), [1024, 1218, 1448, 1722, 2048]);
    const counts = countsOf({ step_counts: { "1024": 3, "1218": 17 } });
    assert.deepEqual(
        [...(counts ?? [])],
        [
            [40, 3],
            [41, 17],
        ],
    );
    assert.equal(countsOf({}), null);
    assert.deepEqual(range(sum([counts ?? new Map(), new Map([[50, 1]])])), [40, 50]);
});

test("a span stays within the whole, and a zoom keeps its moment in place", () => {
    const span = new Span(0, 1_000_000);
    span.zoom(0.1, 300_000);
    assert.deepEqual([span.from, span.until], [270_000, 370_000]);
    span.pan(-10);
    assert.deepEqual([span.from, span.until], [0, 100_000]);
    span.zoom(1e-9, 50_000);
    assert.equal(Math.round(span.length), 50);
    span.zoom(1e12);
    assert.ok(span.isWhole);
    assert.deepEqual(ticks(0, 10, 5, 1), [0, 2, 4, 6, 8, 10]);
    assert.deepEqual(ticks(0, 3600, 7, 1), [0, 600, 1200, 1800, 2400, 3000, 3600]);
    assert.deepEqual(ticks(100e6, 500e6, 5, 1e6), [120e6, 240e6, 360e6, 480e6]);
});

test("a track visits what is in view, and one row for each pixel", () => {
    const rows = Array.from({ length: 100_000 }, (_, row) => row);
    const track = new Track(
        rows,
        (row) => row * 10,
        (row) => row * 10 + 8,
    );
    const seen: number[] = [];
    track.visit(500, 540, 0, (row) => seen.push(row));
    assert.deepEqual(seen, [50, 51, 52, 53, 54]);
    let visited = 0;
    track.visit(0, 1_000_000, 1_000_000 / 1200, () => (visited += 1));
    assert.ok(visited > 1000 && visited <= 1201, String(visited));
    assert.equal(track.indexAt(503, 0), 50);
    assert.equal(track.indexAt(509, 0), null);
    assert.equal(track.indexAt(509, 2), 51);
    assert.equal(track.indexOf(77, 770), 77);
});

test("a track finds its rows with few comparisons, not by a scan", () => {
    const rows = Array.from({ length: 100_000 }, (_, row) => row);
    const track = new Track(
        rows,
        (row) => row * 10,
        (row) => row * 10 + 8,
    );
    let reads = 0;
    const counted = new Proxy(Reflect.get(track, "reach") as Float64Array, {
        get: (target, key) => {
            reads += typeof key === "string" && /^\d+$/.test(key) ? 1 : 0;
            return Reflect.get(target, key) as unknown;
        },
    });
    Reflect.set(track, "reach", counted);
    track.visit(700_000, 700_100, 1, () => undefined);
    assert.ok(reads > 0 && reads < 200, String(reads));
});

test("waits that overlap get rows of their own, as few as can be", () => {
    const spans = [
        [0, 10],
        [5, 15],
        [10, 20],
        [11, 12],
    ] as const;
    const { tracks, left } = packed(
        [0, 1, 2, 3],
        (row) => spans[row]?.[0] ?? 0,
        (row) => spans[row]?.[1] ?? 0,
        2,
    );
    assert.deepEqual(
        tracks.map((track) => [...track.rows]),
        [[0, 2], [1]],
    );
    assert.deepEqual(left, [3]);
});

test("the model has the moments, names and neighbours of sequences", () => {
    const { lanes } = simulate();
    const model = new LaneModel(lanes);
    assert.equal(model.count, 300);
    assert.equal(
        model.lanes.reduce((all, lane) => all + lane.length, 0),
        lanes.sequences.lane.filter((lane) => lane >= 0).length,
    );
    const row = model.rowNamed("2-0-3-1") ?? -1;
    assert.equal(model.nameOf(row), "2-0-3");
    assert.equal(model.step(row, 1)?.requestId, "2-0-3-1");
    assert.ok(model.rowsOfId("201").includes(row));
    const { after } = model.neighbours(row);
    assert.ok(after !== null && model.laneOf(after) === model.laneOf(row));
    assert.ok((model.heldAt(after) ?? 0) >= model.overAt(row));
    assert.equal(model.neighbours(after).before, row);
});

test("phases, absences and committed faults are marks of the lanes", () => {
    const { lanes } = simulate();
    const before = new LaneModel(lanes).marks;
    const { marks } = new LaneModel(
        withMoments(lanes, {
            phases: [{ name: "after", began_us: 7000, ended_us: 9000 }],
            restarts: { absences: [{ at_us: 4000, lasted_us: 100 }] },
            planted_faults: [
                { fault: "off-by-one", committed: 2, committed_at_us: [5000, 6000] },
                { fault: "swap-states", committed: 1, committed_at_us: [5500] },
            ],
        }),
    );
    const added = (kind: string): number[] => [...(marks.get(kind)?.at ?? [])].slice(before.get(kind)?.at.length ?? 0);
    assert.deepEqual(added("phase"), [7000]);
    assert.deepEqual(added("restart"), [4000]);
    assert.deepEqual(added("fault"), [5000, 5500, 6000]);
    assert.deepEqual([...new LaneModel(withMoments(lanes, {})).marks.keys()], [...before.keys()]);
});

test("a slot that nobody has while STARTs wait for one is told, and no other", () => {
    const { lanes } = simulate({ sequences: 400 });
    assert.deepEqual(unusedSlots(new LaneModel(lanes)), []);
    // Fewer clients than slots: a START waits for its response alone.
    assert.deepEqual(unusedSlots(new LaneModel(simulate({ sequences: 400, slots: 8, workers: 3 }).lanes)), []);
    const lane = lanes.sequences.lane.map((its, row) => (its === 1 && row > 100 ? 0 : its));
    const changed = { ...lanes, sequences: { ...lanes.sequences, lane } };
    const model = new LaneModel(changed);
    const [unused, ...others] = unusedSlots(model);
    assert.ok(unused && others.length === 0);
    const last = lanes.sequences.lane.lastIndexOf(1, 100);
    assert.deepEqual([unused.lane, unused.last, unused.since], [1, last, model.overAt(last)]);
    assert.ok(unused.waited > 0.2 && unused.waited <= 1, String(unused.waited));
    // What was before a gap is not known.
    const gap = lanes.until_us / 2;
    const [behind] = unusedSlots(new LaneModel({ ...changed, gaps: [[gap - 1000, gap]] }));
    assert.deepEqual([behind?.lane, behind?.since], [1, gap]);
    assert.deepEqual(unusedSlots(new LaneModel({ ...changed, told: false })), []);
    assert.deepEqual(unusedSlots(new LaneModel({ ...changed, left_out: 1 })), []);
    // After the run all slots were free, so none was lost.
    assert.deepEqual(unusedSlots(model, { areAllFree: true, lost: 0 }), []);
});

test("a slot of a model that was loaded anew is lost only if the last model has it", () => {
    const { lanes } = simulate({ sequences: 400 });
    const model = new LaneModel(lanes);
    const middle = lanes.until_us / 2;
    // Lane 3 was there only before the model was loaded anew.
    const lane = lanes.sequences.lane.map((its, row) => (its === 3 && (model.heldAt(row) ?? 0) >= middle ? 0 : its));
    const changed = { ...lanes, sequences: { ...lanes.sequences, lane } };
    const stretch = (from_us: number, until_us: number, slots: number): Stretch => ({
        from_us,
        until_us,
        slots,
        told: true,
        lanes: slots,
    });
    const stretches = (slots: number): Stretch[] => [stretch(0, middle, 4), stretch(middle, lanes.until_us, slots)];
    assert.deepEqual(unusedSlots(new LaneModel({ ...changed, stretches: stretches(3) })), []);
    const [unused] = unusedSlots(new LaneModel({ ...changed, stretches: stretches(4) }));
    assert.deepEqual([unused?.lane, unused?.since, unused?.last], [3, middle, null]);
});

test("a slot that was empty for a short time is named only if the check of the slots counted it", () => {
    const { lanes } = simulate({ sequences: 400 });
    const late = new LaneModel(lanes);
    const since = lanes.until_us * 0.85;
    const lane = lanes.sequences.lane.map((its, row) =>
        (its === 1 && row > 100) || (its === 2 && late.beginOf(row) > since) ? 0 : its,
    );
    const model = new LaneModel({ ...lanes, sequences: { ...lanes.sequences, lane } });
    const found = (lost: number): [number, boolean][] =>
        unusedSlots(model, { areAllFree: false, lost }).map((its) => [its.lane, its.isSure]);
    assert.deepEqual(found(0), [[1, true]]);
    assert.deepEqual(found(1), [[1, true]]);
    assert.deepEqual(found(2), [
        [1, true],
        [2, false],
    ]);
});

test("a step has its own number where the report lacks steps before it", () => {
    const { lanes } = simulate({ sequences: 20 });
    const number = lanes.steps.number.map((its) => its + 2400);
    const model = new LaneModel({ ...lanes, steps: { ...lanes.steps, number } });
    assert.equal(model.step(0, 0)?.requestId, `${model.nameOf(0)}-2400`);
});

test("damaged lane data are told", () => {
    const { lanes } = simulate({ sequences: 5 });
    assert.equal(flawOf(lanes), null);
    assert.match(flawOf({ ...lanes, steps: { ...lanes.steps, took: [] } }) ?? "", /different lengths/);
    assert.match(flawOf({ ...lanes, marks: {} }) ?? "", /lacks a column/);
    assert.match(flawOf(7) ?? "", /no object/);
});

test("the messages around a violation are its own, and those of the sequences that shared its slot or that the cause names", () => {
    const { lanes, document } = simulate();
    const model = new LaneModel(lanes);
    const [violation] = document["violations"] as JsonObject[];
    assert.ok(violation);
    const plain = messagesAround(model, violation);
    assert.ok(plain);
    assert.deepEqual(
        plain.lines.map((line) => line.why),
        ["own", "slot", "slot"],
    );
    assert.equal(plain.messages.filter((message) => message.isAccused).length, 1);
    assert.ok(plain.messages.length <= 32);
    const clues = [{ type: "state-of", state: 1, step: 1, sequence: { worker: 1, context: 0, sequence: 2 }, id: 101 }];
    const named = messagesAround(model, { ...violation, explanations: [{ cause: "leaked-state", clues }] });
    assert.equal(named?.lines[1]?.why, "cause");
    const untold = messagesAround(new LaneModel(simulate({ told: false }).lanes), violation);
    assert.deepEqual(
        untold?.lines.map((line) => line.why),
        ["own"],
    );
    assert.equal(messagesAround(model, { kind: "server-died" }), null);
});

test("the last interval, which the end of the run cuts, has its own rate, or none", () => {
    const row = (at_s: number, responses: number): JsonObject => ({ at_s, lasts_s: 1, responses });
    const rates = (elapsed_s: number): unknown =>
        perSecond(rowsOf({ series: [row(0, 100), row(1, 50)], elapsed_s }), "responses");
    assert.deepEqual(rates(1.5), [100, 100]);
    assert.deepEqual(rates(1.1), [100, null]);
    assert.deepEqual(rates(2), [100, 50]);
});

test("verdicts of runs, suites and searches", () => {
    assert.equal(
        verdictOf({ verdict: "valid", requests: 3, seed: 1 }).sentence,
        "3 responses checked, no violations (seed 1)",
    );
    assert.equal(verdictOf({ verdict: "valid", missed_thresholds: ["step.p99"] }).tone, "bad");
    assert.equal(verdictOf({ verdict: "unknown" }).word, "UNKNOWN");
    assert.equal(kindOf({ scenarios: [] }), "suite");
    assert.equal(kindOf({ findings: [] }), "hunt");
    assert.equal(verdictOf({ trials: [], exit_code: 0, limit: "between 1 and 2" }).word, "LIMIT");
});

test("a hunt that found nothing claims no more than that", () => {
    const runs = { valid: 3, unknown: 1 };
    const hunt = (code: number, coverage: JsonObject[], more: JsonObject = {}): [string, string, string] => {
        const { word, tone, sentence } = verdictOf({ findings: [], coverage, exit_code: code, first_seed: 7, ...more });
        return [word, tone, sentence];
    };
    assert.deepEqual(hunt(0, [runs]), ["NOTHING FOUND", "good", "4 runs (3 valid, 1 unknown) (first seed 7)"]);
    const poor = { unknown: 2, ended_early: 1, not_run: 1 };
    const words = "3 runs (2 unknown, 1 ended early; 1 more could not be held) (first seed 7)";
    assert.deepEqual(hunt(0, [poor]), ["UNKNOWN", "doubt", `nothing was found, and no run was valid: ${words}`]);
    const end = "the hunt did not come to its end, and had found nothing in 4 runs (3 valid, 1 unknown) (first seed 7)";
    assert.deepEqual(hunt(3, [runs]), ["UNKNOWN", "doubt", end]);
    assert.deepEqual(hunt(4, [{ not_run: 2 }]), ["NOT TESTED", "doubt", "nothing could be run (first seed 7)"]);
    const good = { releases: [{ met: 0, replays: { failed: 0, runs: 5 } }] };
    const bad = { releases: [{ met: 0, replays: { failed: 1, runs: 5 } }] };
    const traced = (code: number, findings: JsonObject[], more: JsonObject = {}): unknown =>
        hunt(code, [], { findings, first_seed: null, ...more });
    assert.deepEqual(traced(0, [good]), ["NOTHING FOUND", "good", "5 replays"]);
    assert.deepEqual(traced(1, [good, bad]), ["INVALID", "bad", "1 finding in 10 replays"]);
    const cut = { complete: false, waiting: [{}], coverage: [runs] };
    assert.deepEqual(traced(1, [], cut), [
        "INVALID",
        "bad",
        "0 findings in 4 runs (3 valid, 1 unknown); not looked into yet: 1 run; the hunt did not come to its end",
    ]);
});
