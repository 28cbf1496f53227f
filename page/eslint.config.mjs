import { defineConfig } from "eslint/config";
import js from "@eslint/js";
import tseslint from "typescript-eslint";

export default defineConfig(
    { ignores: ["node_modules/", "report.html", ".built/"] },
    js.configs.recommended,
    tseslint.configs.strictTypeChecked,
    tseslint.configs.stylisticTypeChecked,
    { languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } } },
    {
        rules: {
            "max-lines": ["error", { max: 300, skipBlankLines: true, skipComments: true }],
            "max-lines-per-function": ["error", { max: 100, skipBlankLines: true, skipComments: true }],
            eqeqeq: "error",
            "no-console": "error",
            // A number in a text is what a report is made of.
            "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
            // Nothing that came from a server may be parsed as HTML or be executed.
            "no-restricted-properties": [
                "error",
                { property: "innerHTML", message: "set textContent" },
                { property: "outerHTML", message: "build elements with h()" },
                { property: "insertAdjacentHTML", message: "build elements with h()" },
            ],
            "no-eval": "error",
            "no-implied-eval": "error",
            "no-new-func": "error",
        },
    },
    {
        files: ["*.mjs", "tests/**"],
        languageOptions: {
            globals: {
                process: "readonly",
                console: "readonly",
                // In what a program has a page do.
                document: "readonly",
                requestAnimationFrame: "readonly",
                HTMLElement: "readonly",
                Buffer: "readonly",
            },
        },
        rules: {
            "no-console": "off",
            "max-lines": "off",
            // The type checker does not see the type comments of JavaScript here.
            "@typescript-eslint/no-unsafe-assignment": "off",
            "max-lines-per-function": "off",
            "@typescript-eslint/no-floating-promises": "off",
        },
    },
);
