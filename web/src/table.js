// table.js - a table of the data: Tabulator draws only the rows on the screen, sorts and filters.
import {
    FilterModule, FormatModule, InteractionModule, KeybindingsModule, ResizeColumnsModule,
    ResizeTableModule, SortModule, Tabulator,
} from "tabulator-tables";
import { button, csv, el, prose, rich, save, say, visible } from "./dom.js";
import { format } from "./units.js";

Tabulator.registerModule([FilterModule, FormatModule, InteractionModule, KeybindingsModule,
    ResizeColumnsModule, ResizeTableModule, SortModule]);

const PLAIN = 30; // rows: a table this short needs neither a window nor a filter
const KEPT = 12;  // rows: a table this short stays on one sheet of paper

// "prose" is text in sentences; "text" is a name, shown as it is.
const isText = (c) => c.unit === "text" || c.unit === "prose";

// Columns in which no row has anything are not shown; CSV has them.
const filled = (columns, rows) => columns.flatMap((c, i) => (rows.some((r) => r[i] !== null && r[i] !== undefined && r[i] !== "") ? [i] : []));

// Text is wrapped, short text is not, and a column of long text gets room. On paper only the shortest
// stays whole: fourteen columns fit a sheet.
const SHORT = 14, MIDDLE = 28;
function kindOf(column, i, rows) {
    if (!isText(column))
        return "number";
    const longest = rows.reduce((m, r) => Math.max(m, String(r[i] ?? "").length), 0);
    return longest <= SHORT ? "text short" : longest <= MIDDLE ? "text middle" : "text long";
}

// The rows of a column of unit "row" have units of their own, behind the last column.
const unitOf = (column, row, columns) => (column.unit === "row" ? row[columns.length] : column.unit);

// Unknown values last, whichever way it is sorted.
function sorter(column) {
    return (a, b, aRow, bRow, col, dir) => {
        if (a === null || b === null)
            return (a === null) - (b === null) ? ((a === null) - (b === null)) * (dir === "asc" ? 1 : -1) : 0;
        return isText(column) ? String(a).localeCompare(String(b)) : a - b;
    };
}

function shown(value, column, unit = column.unit) {
    const span = document.createElement("span");
    span.textContent = isText(column) ? (column.unit === "prose" ? prose : visible)(format(value, "text")) : format(value, unit);
    if (!isText(column) && value !== null)
        span.dataset.value = value;
    else if (value !== null)
        span.title = span.textContent;
    return span;
}

export function plainTable(columns, rows, caption) {
    const shows = filled(columns, rows), kinds = columns.map((c, i) => kindOf(c, i, rows));
    return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption },
        el("table", shows.length > 10 ? { class: "many" } : {}, el("caption", { class: "unseen" }, caption),
            el("thead", {}, el("tr", {}, shows.map((i) => el("th", { scope: "col", class: kinds[i] }, columns[i].title)))),
            el("tbody", {}, rows.map((r) => el("tr", {}, shows.map((i) =>
                el("td", { class: kinds[i] }, shown(r[i], columns[i], unitOf(columns[i], r, columns)))))))));
}

function toolbar(block, id, filter) {
    const rows = () => [block.columns.map((c) => c.name), ...block.rows.map((r) => r.slice(0, block.columns.length))];
    return el("div", { class: filter ? "tools" : "tools corner" }, filter,
        button("CSV", `Save the table ${block.title} as CSV`, () => save(`${id}.csv`, "text/csv", csv(rows()))));
}

function windowed(block, place, count) {
    const data = block.rows.map((r, id) => Object.fromEntries([["id", id], ...r.map((v, i) => [`c${i}`, v])]));
    const shows = new Set(filled(block.columns, block.rows));
    const table = new Tabulator(place, {
        data,
        height: 420,
        layout: "fitDataFill",
        index: "id",
        columnDefaults: { headerSortTristate: false },
        columns: block.columns.map((c, i) => ({
            title: c.title,
            field: `c${i}`,
            visible: shows.has(i),
            hozAlign: isText(c) ? "left" : "right",
            headerHozAlign: isText(c) ? "left" : "right",
            headerSortStartingDir: isText(c) ? "asc" : "desc",
            sorter: sorter(c),
            minWidth: isText(c) ? 180 : 84,
            maxWidth: isText(c) ? 640 : undefined,
            formatter: (cell) => shown(cell.getValue(), c, c.unit === "row" ? cell.getData()[`c${block.columns.length}`] : c.unit),
        })),
    });
    table.on("dataFiltered", (filters, rows) => {
        count.textContent = `${rows.length.toLocaleString("en-US")} of ${data.length.toLocaleString("en-US")} rows`;
    });
    return table;
}

// All words of the filter must be in the texts of a row; case does not matter.
function matcher(words, texts) {
    return (row) => {
        const all = texts.map((i) => String(row[`c${i}`] ?? "").toLowerCase()).join("\n");
        return words.every((w) => all.includes(w));
    };
}

// group: of its result, whose name tells the sections of two results apart.
export function tableBlock(block, id, group) {
    const heading = el("h3", { id: `${id}-h` }, block.title);
    const note = block.text ? el("p", { class: "note" }, rich(block.text)) : null;
    if (block.rows.length <= PLAIN)
        return el("section", { class: block.rows.length <= KEPT ? "block kept" : "block", id, "aria-labelledby": `${id}-h ${group}-k` }, heading, note,
            toolbar(block, id), plainTable(block.columns, block.rows, block.title));
    const place = el("div", { class: "window" });
    const count = el("span", { class: "count", role: "status" }, `${block.rows.length.toLocaleString("en-US")} rows`);
    const texts = block.columns.flatMap((c, i) => isText(c) ? [i] : []);
    const input = el("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${block.title}`, spellcheck: "false" });
    const section = el("section", { class: "block", id, "aria-labelledby": `${id}-h ${group}-k` }, heading, note,
        toolbar(block, id, el("span", { class: "filter" }, input, count)), place,
        el("div", { class: "paper" }, plainTable(block.columns, block.rows.slice(0, 25), `${block.title}: first rows`)));
    section.ready = () => {
        const table = windowed(block, place, count);
        let later;
        input.addEventListener("input", () => {
            clearTimeout(later);
            later = setTimeout(() => {
                const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
                table.setFilter(matcher(words, texts));
            }, 120);
        });
        section.table = table;
        table.on("tableBuilt", () => friendly(place, block.title));
        table.on("dataSorted", (s) => s.length && say(`sorted by ${s[0].column.getDefinition().title}, ${s[0].dir === "asc" ? "ascending" : "descending"}`));
    };
    return section;
}

// What Tabulator leaves out: a name, and headers and a window that the keyboard reaches.
function friendly(place, title) {
    place.setAttribute("aria-label", title);
    const body = place.querySelector(".tabulator-tableholder");
    for (const [name, value] of Object.entries({ tabindex: 0, role: "rowgroup", "aria-label": `Rows of ${title}` }))
        body.setAttribute(name, value);
    // The rows belong to the element that the keyboard scrolls.
    place.removeAttribute("aria-owns");
    place.querySelector(".tabulator-table").setAttribute("role", "presentation");
    for (const h of place.querySelectorAll(".tabulator-col")) {
        h.setAttribute("tabindex", "0");
        h.addEventListener("keydown", (e) => {
            if (e.key === "Enter" || e.key === " ") {
                e.preventDefault();
                h.click();
            }
        });
    }
}
