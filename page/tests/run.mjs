// Bundles the tests, because Node 20 reads no TypeScript, and runs them with node's own runner.

import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const HERE = import.meta.dirname;
const ROOT = join(HERE, "..");
const BUILT = join(ROOT, ".built");

rmSync(BUILT, { recursive: true, force: true });
const names = readdirSync(HERE).filter((name) => name.endsWith(".test.ts"));
await build({
    absWorkingDir: ROOT,
    entryPoints: names.map((name) => `tests/${name}`),
    bundle: true,
    format: "esm",
    platform: "node",
    packages: "external",
    external: ["../browser.mjs", "../build.mjs", "../shoot.mjs"],
    sourcemap: "inline",
    outdir: BUILT,
    outExtension: { ".js": ".mjs" },
});
const files = names.map((name) => join(BUILT, name.replace(/\.ts$/, ".mjs")));
const done = spawnSync(
    process.execPath,
    [
        "--enable-source-maps",
        "--test",
        "--test-concurrency=1",
        "--test-timeout=300000",
        ...process.argv.slice(2),
        ...files,
    ],
    { cwd: ROOT, stdio: "inherit" },
);
process.exit(done.status ?? 1);
