// build.js - bundles src/ and the pinned libraries into one HTML file with a place for the data:
//     node build.js OUT.html
// The binary carries that file, and writes a result's data into it. Nothing here runs later.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const LIMIT = 1_000_000; // bytes, without data: a page is mailed

// What the browsers of five years ago understand: the releases of autumn 2021.
const BROWSERS = ["chrome95", "edge95", "firefox93", "safari15"];

const here = dirname(fileURLToPath(import.meta.url));

async function bundle(entry) {
    const made = await build({
        entryPoints: [join(here, entry)],
        bundle: true,
        minify: true,
        write: false,
        format: "iife",
        target: BROWSERS,
        charset: "ascii",
        legalComments: "none",
        define: { "process.env.NODE_ENV": '"production"', "__DEV__": "false" },
    });
    return made.outputFiles[0].text.trim();
}

// The text of an element must not contain its own end tag.
function element(text, tag) {
    if (new RegExp(`</${tag}|<!--`, "i").test(text)) {
        if (tag === "style")
            throw new Error("the style sheet contains an end tag");
        text = text.replace(/<\/(script)/gi, "<\\/$1").replace(/<!--/g, "<\\!--");
    }
    return text;
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const notice = (name) => {
    const p = JSON.parse(readFileSync(join(here, "node_modules", name, "package.json"), "utf8"));
    return `${name} ${p.version} (${p.license})`;
};

const script = element(await bundle("src/main.js"), "script");
const style = element(await bundle("src/page.css"), "style");
const values = {
    POLICY: `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ` +
        "base-uri 'none'; form-action 'none'",
    LIBRARIES: ["echarts", "zrender", "tslib", "tabulator-tables"].map(notice).join(", "),
    STYLE: style,
    SCRIPT: script,
};
const page = readFileSync(join(here, "src/shell.html"), "utf8")
    .replace(/@([A-Z]+)@/g, (all, name) => values[name] ?? all);
if (page.split("@DATA@").length !== 2)
    throw new Error("the page must have exactly one place for the data");
if (Buffer.byteLength(page) > LIMIT)
    throw new Error(`the page has ${Buffer.byteLength(page)} bytes, more than ${LIMIT}`);
writeFileSync(process.argv[2], page);
