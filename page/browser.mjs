// Where the headless Chromium is.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const VARIABLE = "SEQUENCE_STRESS_CHROMIUM";
const INSTALLED = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const UNPACKED = join(process.cwd(), "node_modules/.cache/chromium");
const FONTS = join(process.cwd(), "node_modules/.cache/fontconfig");

/**
 * The program of the browser with its arguments: the one that the variable names, an installed one, or the one of the npm package.
 *
 * @returns {Promise<{ executablePath: string; args: string[] }>}
 */
export async function program() {
    const named = process.env[VARIABLE];
    const found = named !== undefined && named !== "" ? named : INSTALLED.find((path) => existsSync(path));
    if (found !== undefined) {
        return { executablePath: found, args: ["--no-sandbox"] };
    }
    // The package unpacks the browser into the folder for temporary files, and the libraries that it needs only if it believes to be in a
    // cloud function. An own folder keeps other users of the package apart.
    process.env["TMPDIR"] = UNPACKED;
    process.env["AWS_EXECUTION_ENV"] ??= "AWS_Lambda_nodejs20.x";
    mkdirSync(UNPACKED, { recursive: true });
    // A browser that finds no font ends at the first text, and the package's own configuration names none of the folders that are here.
    mkdirSync(FONTS, { recursive: true });
    const folders = [join(UNPACKED, "fonts"), "/usr/share/fonts"].map((folder) => `<dir>${folder}</dir>`);
    const cache = `<cachedir>${join(FONTS, "cache")}</cachedir>`;
    writeFileSync(
        join(FONTS, "fonts.conf"),
        `<?xml version="1.0"?><fontconfig>${folders.join("")}${cache}</fontconfig>\n`,
    );
    process.env["FONTCONFIG_PATH"] = FONTS;
    const { default: packed } = await import("@sparticuz/chromium");
    return { executablePath: await packed.executablePath(), args: ["--no-sandbox", "--disable-dev-shm-usage"] };
}
