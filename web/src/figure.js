// figure.js - a plot on the page: its chart, legend, buttons, what the keyboard does, its data as a
// table, and its copies as SVG, PNG and CSV.
import { button, csv, el, rich, save, say, visible } from "./dom.js";
import { echarts, heightOf, legendOf, optionOf, tableOf } from "./plot.js";
import { svgOf, WIDE } from "./svg.js";
import { plainTable } from "./table.js";
import { LIGHT, theme } from "./theme.js";
import { format } from "./units.js";

const ROWS = 600; // of the data that is written out

// ECharts 6.1 takes every heat map for one that grows (getIncrementalId()) and paints it piece by piece,
// over seconds: a picture that is saved meanwhile would lack its lower half.
function paintAtOnce(chart, plot) {
    if (plot.is !== "heat")
        return;
    chart.getZr().storage.getDisplayList(true).forEach((d) => { d.incremental = 0; });
    chart.getZr().refreshImmediately();
}

function savePng(plot, name) {
    const height = heightOf(plot, legendOf(plot).length, WIDE);
    const chart = echarts.init(document.createElement("div"), null, { renderer: "canvas", width: WIDE, height, devicePixelRatio: 3 });
    chart.setOption(optionOf(plot, LIGHT, true, WIDE));
    paintAtOnce(chart, plot);
    chart.renderToCanvas({ pixelRatio: 3, backgroundColor: "#ffffff" }).toBlob((b) => save(name, "image/png", b), "image/png");
    chart.dispose();
}

function saveCsv(plot, name) {
    const t = tableOf(plot);
    save(name, "text/csv", csv([t.columns.map((c) => c.name), ...t.rows]));
}

function legend(plot, box) {
    const items = legendOf(plot);
    if (!items.length)
        return null;
    return el("div", { class: "legend", role: "group", "aria-label": "Series" }, items.map(([name, number, shape]) => {
        const swatch = el("span", { class: `swatch ${shape} c${number % 8}`, "aria-hidden": "true" });
        const b = el("button", { type: "button", "aria-pressed": "true" }, swatch, visible(name));
        b.addEventListener("click", () => {
            const on = b.getAttribute("aria-pressed") !== "true";
            b.setAttribute("aria-pressed", String(on));
            box.hidden_.set(name, !on);
            if (box.chart)
                redraw(box); // what stands on it moves
        });
        return b;
    }));
}

// ---- zoom and reading by keyboard ----

function zoom(box, factor) {
    const z = box.chart?.getOption().dataZoom?.[0];
    if (!z)
        return;
    const middle = (z.start + z.end) / 2, half = Math.min(50, (z.end - z.start) / 2 * factor);
    const start = Math.max(0, Math.min(100 - 2 * half, middle - half));
    box.chart.dispatchAction({ type: "dataZoom", start: factor ? start : 0, end: factor ? start + 2 * half : 100 });
}

function read(box, by) {
    const t = box.data_ ??= tableOf(box.plot);
    if (!t.rows.length)
        return;
    box.at = Math.max(0, Math.min(t.rows.length - 1, (box.at ?? -1) + by));
    const known = t.columns.map((c, i) => [c, t.rows[box.at][i]]).filter(([, v]) => v !== null && v !== undefined);
    say(known.slice(0, 12).map(([c, v]) => `${c.title} ${visible(format(v, c.unit))}`).join(", "));
    if (box.plot.is !== "heat")
        box.chart.dispatchAction({ type: "showTip", seriesIndex: firstLine(box), dataIndex: box.at });
}

const firstLine = (box) => Math.max(0, box.chart.getOption().series.findIndex((s) => s.type !== "custom"));

function keys(box) {
    const does = {
        ArrowRight: () => read(box, 1), ArrowLeft: () => read(box, -1), Home: () => read(box, -Infinity), End: () => read(box, Infinity),
        "+": () => zoom(box, 0.5), "=": () => zoom(box, 0.5), "-": () => zoom(box, 2), "0": () => zoom(box, 0),
        Escape: () => box.chart.dispatchAction({ type: "hideTip" }),
    };
    box.addEventListener("keydown", (e) => {
        if (!does[e.key] || e.ctrlKey || e.metaKey || e.altKey || !box.chart)
            return;
        e.preventDefault();
        does[e.key]();
    });
}

// Plots over the same axis show the same part of it: as shares, since a heat map counts columns.
const linked = new Map();
function link(box, name) {
    const boxes = linked.get(name) ?? linked.set(name, []).get(name);
    boxes.push(box);
    box.chart.on("datazoom", () => {
        const { start, end } = box.chart.getOption().dataZoom[0];
        for (const other of boxes) {
            const z = other.chart.getOption().dataZoom[0];
            if (other !== box && (Math.abs(z.start - start) > 0.01 || Math.abs(z.end - end) > 0.01))
                other.chart.dispatchAction({ type: "dataZoom", start, end }, { silent: true });
        }
    });
}

// ---- the figure ----

function buttons(plot, id, box) {
    const t = plot.title;
    return el("div", { class: "tools" },
        plot.flip ? [] : [button("+", `Zoom in: ${t}`, () => zoom(box, 0.5)), button("−", `Zoom out: ${t}`, () => zoom(box, 2)), button("All", `Show all: ${t}`, () => zoom(box, 0))],
        button("SVG", `Save ${t} as SVG`, () => save(`${id}.svg`, "image/svg+xml", svgOf(plot))),
        button("PNG", `Save ${t} as PNG`, () => savePng(plot, `${id}.png`)),
        button("CSV", `Save the data of ${t} as CSV`, () => saveCsv(plot, `${id}.csv`)));
}

function dataTable(plot) {
    const details = el("details", { class: "data" }, el("summary", {}, "Data"));
    details.addEventListener("toggle", () => {
        if (!details.open || details.children.length > 1)
            return;
        const t = tableOf(plot);
        details.append(plainTable(t.columns, t.rows.slice(0, ROWS), `Data of ${plot.title}`));
        if (t.rows.length > ROWS)
            details.append(el("p", { class: "note" }, `The first ${ROWS} of ${t.rows.length} rows; CSV has all of them.`));
    });
    return details;
}

function draw(box, group) {
    const plot = box.plot;
    const chart = echarts.init(box, null, { renderer: "canvas", devicePixelRatio: Math.max(2, devicePixelRatio) });
    box.chart = chart;
    fit(box, box.clientWidth);
    chart.resize();
    restyle(box);
    if (plot.link)
        link(box, `${group} ${plot.link}`);
    chart.on("datazoom", () => paintAtOnce(chart, plot));
    chart.getZr().on("dblclick", () => zoom(box, 0));
    new ResizeObserver(() => resize(box)).observe(box);
}

const fit = (box, width) => { box.style.height = `${heightOf(box.plot, 0, width)}px`; };

// What is written where depends on the width. The part that is shown stays.
function resize(box) {
    if (box.clientWidth === box.drawnWidth)
        return;
    fit(box, box.clientWidth);
    box.chart.resize();
    redraw(box);
}

function redraw(box) {
    const z = box.chart.getOption().dataZoom?.[0];
    restyle(box);
    if (z)
        box.chart.dispatchAction({ type: "dataZoom", start: z.start, end: z.end });
}

export function restyle(box) {
    box.drawnWidth = box.clientWidth;
    const option = optionOf(box.plot, theme(), false, box.clientWidth, box.hidden_);
    if (option.legend)
        option.legend.selected = Object.fromEntries([...box.hidden_].map(([name, off]) => [name, !off]));
    box.chart.setOption(option, { notMerge: true });
    if (!box.plot.flip && !matchMedia("(pointer: coarse)").matches)
        box.chart.dispatchAction({ type: "takeGlobalCursor", key: "dataZoomSelect", dataZoomSelectActive: true });
    paintAtOnce(box.chart, box.plot);
}

export function figure(plot, id, group) {
    const box = el("div", { class: "chart", tabindex: 0, role: "img",
        "aria-label": `${plot.title}. ${plot.text ?? ""} Arrow keys read the values, plus and minus zoom.` });
    box.plot = plot;
    box.hidden_ = new Map();
    fit(box, Math.min(1040, document.documentElement.clientWidth - 40));
    keys(box);
    const fig = el("figure", { class: "block", id, "aria-labelledby": `${id}-h` },
        el("figcaption", {}, el("h3", { id: `${id}-h` }, visible(plot.title)), plot.text ? el("p", { class: "note" }, rich(plot.text)) : null),
        buttons(plot, id, box), legend(plot, box), box, el("div", { class: "paper print" }), dataTable(plot));
    fig.ready = () => draw(box, group);
    fig.box = box;
    return fig;
}

// Paper gets the vector drawing instead of the screen's pixels.
export function onPaper(fig) {
    const place = fig.querySelector(".print");
    if (place.firstChild)
        return;
    const svg = new DOMParser().parseFromString(svgOf(fig.box.plot), "image/svg+xml").documentElement;
    place.append(document.importNode(svg, true));
}
