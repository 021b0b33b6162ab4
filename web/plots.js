// plots.js - saves plots of a page as SVG, as its buttons do, without a browser:
//     node plots.js PAGE.html FOLDER RESULT-PLOT...
// RESULT-PLOT is the id of a figure, such as r1-time. tools/page-screenshot makes those of the manual with it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { svgOf } from "./src/svg.js";

const [page, folder, ...ids] = process.argv.slice(2);
const text = /<script type="application\/json" id="data">([^]*?)<\/script>/.exec(readFileSync(page, "utf8"))[1];
const { results } = JSON.parse(text);
for (const id of ids) {
    const [, number, name] = /^r(\d+)-(.*)$/.exec(id);
    const plot = results[number - 1]?.blocks.find((b) => b.id === name && b.is !== "table");
    if (!plot)
        throw new Error(`${page} has no plot ${id}`);
    writeFileSync(join(folder, `${results[number - 1].kind}-${name}.svg`), svgOf(plot));
}
