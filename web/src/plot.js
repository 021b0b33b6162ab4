// plot.js - turns a plot of the data into an option of ECharts: panels above each other that share
// the x axis. Values are divided by the factor of their unit, so that axes have plain numbers.
import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import {
    AxisPointerComponent, DataZoomInsideComponent, GridComponent, LegendPlainComponent, MarkAreaComponent,
    MarkLineComponent, ToolboxComponent, TooltipComponent, VisualMapContinuousComponent,
} from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";
import { visible } from "./dom.js";
import { axisName, axisStep, format, step } from "./units.js";

echarts.use([BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart, AxisPointerComponent,
    DataZoomInsideComponent, GridComponent, LegendPlainComponent, MarkAreaComponent, MarkLineComponent,
    ToolboxComponent, TooltipComponent, VisualMapContinuousComponent, CanvasRenderer, SVGRenderer]);
export { echarts };

const FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif";
const LABELS = 24; // most marks whose names are written

const most = (values) => values.reduce((m, v) => (v !== null && Math.abs(v) > m ? Math.abs(v) : m), 0);

// ---- what is drawn, in the units of its axes ----

// A category is a text, or a number with a unit.
const label = (v, unit) => (unit ? format(v, unit) : v === null ? "–" : visible(v));

function scaleX(plot) {
    if (plot.x.scale === "category")
        return { by: 1, name: plot.x.name, category: true, labels: plot.x.v.map((v) => label(v, plot.x.unit)) };
    const all = plot.panels.flatMap((p) => p.series.flatMap((s) => s.x ?? plot.x.v ?? []));
    const [by, unit] = step(plot.x.unit ?? "", most(all));
    return { by, name: axisName(plot.x.name, plot.x.unit, unit), whole: !plot.x.unit && all.every(Number.isInteger) };
}

// The largest value that is drawn: those of a stack are added up.
function topOfPanel(panel) {
    const stacked = panel.series.filter((s) => s.stack), sums = (stacked[0]?.v ?? []).map((v, i) => stacked.reduce((sum, s) => sum + (s.v[i] ?? 0), 0));
    return Math.max(most(panel.series.flatMap((s) => [...s.v, ...(s.hi ?? [])])), most(sums));
}

function scaleY(panel) {
    const top = topOfPanel(panel), [by, unit] = axisStep(panel.unit, panel.max ?? top);
    if (panel.scale === "log")
        return { by, ...logScale(panel, by, unit) };
    const scale = { by, name: axisName(panel.name, panel.unit, unit) };
    // Shares of more than a half are seen against the whole; an axis of zeros needs an end.
    if (panel.unit === "share" && top > 0.5 && top <= 1.001)
        Object.assign(scale, { max: 100, interval: 25 });
    else if (top === 0)
        scale.max = 1;
    return scale;
}

// A logarithmic axis ends at powers of its base, unless the data is only a little beyond one. Times
// and sizes below one have units of their own at each power: "62.5 ms", not 0.0625 s.
function logScale(panel, by, unit) {
    const all = panel.series.flatMap((s) => [...s.v, ...(s.lo ?? []), ...(s.hi ?? [])]).filter((v) => v > 0).map((v) => v / by);
    const log = (v) => Math.log(v) / Math.log(panel.base), near = 0.25;
    if (!all.length)
        return { name: axisName(panel.name, panel.unit, unit) };
    const [low, high] = all.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, 0]);
    const from = Math.floor(log(low) + 1e-9), to = Math.max(Math.ceil(log(high) - 1e-9), from + 1);
    const ragged = { min: log(low) - from > 1 - near, max: to - log(high) > 1 - near && to > from + 1 };
    const each = ["s", "B", "B/s"].includes(panel.unit) && low < 1;
    return {
        min: ragged.min ? low / panel.base ** 0.06 : panel.base ** from, max: ragged.max ? high * panel.base ** 0.06 : panel.base ** to, ragged,
        name: each ? panel.name : axisName(panel.name, panel.unit, unit), label: each ? (v) => format(v * by, panel.unit) : undefined,
    };
}

const div = (v, by) => (v === null || v === undefined ? null : v / by);

const ranges = (s, xs, sy) => xs.map((x, i) => [x, div(s.lo[i], sy), div(s.hi[i], sy)]).filter((p) => p.every((v) => v !== null));

function band(s, xs, sy, color) {
    const points = ranges(s, xs, sy);
    return {
        type: "custom", name: s.name, silent: true, clip: true, z: 1, data: points, itemStyle: { color },
        encode: { x: 0, y: [1, 2] }, tooltip: { show: false },
        renderItem: (params, api) => params.dataIndex > 0 ? null : {
            type: "polygon",
            shape: { points: [...points.map((p) => api.coord([p[0], p[2]])),
                ...points.slice().reverse().map((p) => api.coord([p[0], p[1]]))] },
            style: { fill: color, opacity: 0.18 },
        },
    };
}

function whiskers(s, xs, sy, color, flip) {
    const line = (x1, y1, x2, y2) => ({ type: "line", shape: flip ? { x1: y1, y1: x1, x2: y2, y2: x2 } : { x1, y1, x2, y2 }, style: { stroke: color, lineWidth: 1.5 } });
    const at = (api, place, value) => (flip ? api.coord([value, place]).reverse() : api.coord([place, value]));
    return {
        type: "custom", name: s.name, silent: true, clip: true, z: 4, encode: flip ? { y: 0, x: [1, 2] } : { x: 0, y: [1, 2] },
        data: ranges(s, xs, sy), itemStyle: { color }, tooltip: { show: false },
        renderItem: (params, api) => {
            const [x, top] = at(api, api.value(0), api.value(2)), bottom = at(api, api.value(0), api.value(1))[1];
            return { type: "group", children: [line(x, top, x, bottom), line(x - 4, top, x + 4, top), line(x - 4, bottom, x + 4, bottom)] };
        },
    };
}

const SYMBOLS = ["circle", "rect", "triangle", "diamond", "roundRect", "pin"];

// Areas that stand on each other are drawn as sums, the largest first: ECharts leaves out steps of less
// than a pixel, which two areas that only touch would show as a gap.
function sums(panel, k, hidden) {
    const below = panel.series.slice(0, k + 1).filter((s) => s.stack && !hidden.get(s.name));
    return panel.series[k].v.map((v, i) => (v === null ? null : below.reduce((sum, s) => sum + (s.v[i] ?? 0), 0)));
}
const channels = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
function mixed(color, ground, part) {
    const [a, b] = [channels(color), channels(ground)];
    return `rgb(${a.map((v, i) => Math.round(v * part + b[i] * (1 - part))).join(",")})`;
}

function drawn(s, data, color, number, look) {
    const base = { name: s.name, data, itemStyle: { color }, emphasis: { disabled: true }, z: 3 };
    const line = { ...base, type: "line", symbol: "none", lineStyle: { color, width: s.dash ? 1.5 : 2, type: s.dash ? "dashed" : "solid" }, sampling: undefined };
    switch (s.as) {
    case "bar":
        return { ...base, type: "bar", stack: s.stack, barMaxWidth: 46, barMinHeight: 1, barCategoryGap: "22%", large: false };
    case "points":
        return { ...base, type: "scatter", symbol: SYMBOLS[number % SYMBOLS.length], symbolSize: data.length > 200 ? 5 : 8 };
    case "both":
        return { ...line, symbol: SYMBOLS[number % SYMBOLS.length], symbolSize: 8, lineStyle: { ...line.lineStyle, width: 1.2, opacity: 0.55 } };
    case "area":
        return { ...line, step: "end", lineStyle: { color, width: s.stack ? 0 : 1.2 }, areaStyle: s.stack ? { color: mixed(color, look.ground, 0.8), opacity: 1 } : { color, opacity: 0.28 } };
    case "step":
        return { ...line, step: "end" };
    default:
        return line;
    }
}

// ---- marks: lines across the x axis, their names above the plot ----

const LETTER = 6, ROW = 14; // about the size of a letter, and of a line of names, in pixels

// The numbers on a logarithmic x axis: those that were measured, if they are few. The axis ends a
// little beyond them.
const TICKS = 14, BEYOND = 1.06;
function measuredX(plot) {
    const xs = plot.x.scale !== "log" ? [] : [...new Set(plot.panels.flatMap((p) => p.series.flatMap((s) => (s.as === "both" ? s.x : []))))];
    return xs.length && xs.length <= TICKS && xs.every((x) => x > 0) ? xs.sort((a, b) => a - b) : null;
}

// Where a mark is on the screen, about: without such numbers, the axis ends at powers of two.
function placesOf(plot, width) {
    const all = plot.panels.flatMap((p) => p.series.flatMap((s) => (plot.flip ? s.v : s.x ?? plot.x.v ?? []))).filter((v) => v > 0);
    const log = !plot.flip && plot.x.scale === "log", of = (v) => (log ? Math.log2(v) : v);
    const ticks = measuredX(plot), low = Math.min(...all), high = Math.max(...all);
    const from = ticks ? of(low / BEYOND) : log ? Math.floor(of(low)) : 0, to = ticks ? of(high * BEYOND) : log ? Math.ceil(of(high)) : high;
    const left = leftOf(plot, width);
    return plot.marks.map((m) => left + (width - left - RIGHT) * (of(m.at) - from) / (to - from || 1));
}

// The row in which each name is written so that none covers another, and how it is aligned.
function rowsOf(plot, width) {
    const places = placesOf(plot, width), ends = [], rows = [];
    const order = places.map((x, i) => i).sort((a, b) => places[a] - places[b]);
    for (const i of order) {
        const w = plot.marks[i].name.length * LETTER, x = places[i];
        const align = x + w / 2 > width ? "right" : x - w / 2 < 0 ? "left" : "center";
        const from = x - { right: w, left: 0, center: w / 2 }[align];
        let row = ends.findIndex((end) => end + 8 < from);
        row = row < 0 ? ends.length : row;
        ends[row] = from + w;
        rows[i] = { row, align };
    }
    return rows;
}

const named = (plot) => plot.marks?.length > 0 && plot.marks.length <= LABELS;
const markRows = (plot, width) => (named(plot) ? Math.max(...rowsOf(plot, width).map((r) => r.row)) + 1 : 0);

// Marks at one place take turns along their line.
function dashes(plot, i) {
    const same = plot.marks.flatMap((m, k) => (m.at === plot.marks[i].at ? [k] : []));
    return { type: same.length > 1 ? [5, 5 * (same.length - 1)] : [4, 3], dashOffset: -5 * same.indexOf(i) };
}

function markLine(plot, by, look, first, width) {
    const rows = first && named(plot) ? rowsOf(plot, width) : null;
    return {
        silent: true, symbol: "none", animation: false,
        // The rows of a flipped plot begin at the top: so does the line.
        label: { show: Boolean(rows), fontFamily: FONT, fontSize: 11, formatter: "{b}", position: plot.flip ? "start" : "end" },
        data: plot.marks.map((m, i) => ({
            xAxis: m.at / by, name: visible(m.name),
            lineStyle: { color: m.color === undefined ? look.faint : look.colors[m.color % look.colors.length], width: 1, ...dashes(plot, i) },
            label: { color: m.color === undefined ? look.ink : look.colors[m.color % look.colors.length], align: rows?.[i].align, distance: 9 + ROW * (rows?.[i].row ?? 0) },
        })),
    };
}

function marksOf(plot, by, look, first, width) {
    const area = plot.spans?.length ? {
        silent: true, animation: false, itemStyle: { color: look.span },
        label: { show: first && plot.spans.length <= LABELS, color: look.faint, fontFamily: FONT, fontSize: 11, position: "insideTop" },
        data: plot.spans.map((s, i) => [{ xAxis: s.from / by, name: s.name, itemStyle: i % 2 ? { color: "transparent" } : undefined }, { xAxis: s.to / by }]),
    } : undefined;
    return { markLine: plot.marks?.length ? markLine(plot, by, look, first, width) : undefined, markArea: area };
}

function axisLook(look) {
    return {
        nameTextStyle: { color: look.faint, fontFamily: FONT, fontSize: 12 },
        axisLabel: { color: look.faint, fontFamily: FONT, fontSize: 11, hideOverlap: true },
        axisLine: { show: true, lineStyle: { color: look.faint } },
        axisTick: { show: true, lineStyle: { color: look.faint } },
        splitLine: { show: true, lineStyle: { color: look.line, width: 1 } },
    };
}

const GAP = 24, BOTTOM = 50, LEGEND = 26, RIGHT = 22;
const topOf = (plot, width) => (plot.marks?.length ? 20 + ROW * markRows(plot, width) : 12);
// Names of categories stand left of the plot, in up to two lines.
function leftOf(plot, width) {
    if (!plot.flip)
        return 76;
    const longest = Math.max(...plot.x.v.map((v) => String(v).length));
    return Math.round(Math.max(96, Math.min(width * 0.36, 24 + LETTER * longest)));
}
const tall = (plot, i) => plot.flip ? Math.max(70, 34 * (plot.x.v.length)) : plot.panels.length === 1 ? 260 : i === 0 ? 170 : 100;
export function heightOf(plot, legend, width) {
    if (plot.is === "heat")
        return Math.min(620, Math.max(160, 14 * plot.y.v.length + 110));
    return topOf(plot, width) + (legend ? LEGEND : 0) + plot.panels.reduce((h, p, i) => h + tall(plot, i) + GAP, 0) - GAP + BOTTOM;
}

function tipLines(plot, params, sx) {
    const list = Array.isArray(params) ? params : [params];
    const seen = list.filter((p) => p.seriesType !== "custom" && p.value !== undefined);
    if (!seen.length)
        return "";
    const head = sx.category ? sx.labels[seen[0].dataIndex] : format(seen[0].value[0] * sx.by, plot.x.unit ?? "");
    const lines = seen.map((p) => {
        const [panel, series] = p.seriesId.split(":").map(Number);
        const { v } = plot.panels[panel].series[series];
        return `${visible(p.seriesName)}: ${format(v[Math.min(p.dataIndex, v.length - 1)] ?? null, plot.panels[panel].unit)}`;
    });
    return [sx.category ? head : `${plot.x.name} ${head}`, ...lines].join("\n");
}

function tooltip(look, formatter, trigger) {
    return {
        trigger, renderMode: "richText", confine: true, formatter, transitionDuration: 0,
        backgroundColor: look.ground, borderColor: look.faint, borderWidth: 1, padding: 8,
        textStyle: { color: look.ink, fontFamily: FONT, fontSize: 12, lineHeight: 17 },
        axisPointer: { type: "line", lineStyle: { color: look.faint }, animation: false },
    };
}

// A long name in two lines; what does not fit is left out.
function twoLines(text, letters) {
    if (text.length <= letters)
        return text;
    const blank = text.lastIndexOf(" ", letters), cut = blank > letters / 3 ? blank : letters;
    const rest = text.slice(cut).trim();
    return `${text.slice(0, cut)}\n${rest.length > letters ? `${rest.slice(0, letters - 1)}…` : rest}`;
}

// Many points, over numbers: the axis ends a little beyond them.
const isCloud = (plot, sx) => !sx.category && plot.x.scale !== "log" && plot.x.v?.length > 0 && plot.panels.every((p) => p.series.every((s) => s.as === "points"));
function around(plot, sx) {
    if (!isCloud(plot, sx))
        return {};
    const low = Math.min(...plot.x.v) / sx.by, high = Math.max(...plot.x.v) / sx.by, beyond = 0.015 * (high - low || 1);
    return { min: low - beyond, max: high + beyond };
}

// ---- panels ----

function panelAxes(plot, i, sx, sy, look, last, width) {
    const base = axisLook(look), panel = plot.panels[i], ticks = measuredX(plot);
    const x = {
        ...base, gridIndex: i, type: sx.category ? "category" : plot.x.scale === "log" ? "log" : "value",
        logBase: 2, min: ticks ? ticks[0] / BEYOND : plot.x.min === undefined ? undefined : plot.x.min / sx.by,
        max: ticks ? ticks[ticks.length - 1] * BEYOND : plot.x.max === undefined ? undefined : plot.x.max / sx.by,
        ...around(plot, sx), minInterval: sx.whole ? 1 : undefined, boundaryGap: sx.category ? true : undefined,
        data: sx.category ? sx.labels : undefined,
        name: last ? sx.name : "", nameLocation: "middle", nameGap: 30,
        axisLabel: { ...base.axisLabel, show: last, customValues: ticks ?? undefined, showMaxLabel: plot.x.scale === "log" ? true : plot.x.max === undefined && !isCloud(plot, sx) ? undefined : false, showMinLabel: isCloud(plot, sx) ? false : undefined },
        axisTick: { ...base.axisTick, show: last, alignWithLabel: true, customValues: ticks ?? undefined },
        splitLine: { ...base.splitLine, show: false },
        axisPointer: { label: { show: false } },
    };
    const y = {
        ...base, gridIndex: i, type: panel.scale === "log" ? "log" : "value", logBase: panel.base ?? 10,
        min: panel.min === undefined ? sy.min : panel.min / sy.by, max: panel.max === undefined ? sy.max : panel.max / sy.by, interval: sy.interval,
        // A long name stands in two lines: names of neighbouring panels must not run together.
        name: sy.name.length * LETTER > tall(plot, i) ? sy.name.replace(" (", "\n(") : sy.name, nameLocation: "middle", nameGap: sy.name.length * LETTER > tall(plot, i) ? 45 : 52,
        nameTextStyle: { ...base.nameTextStyle, width: tall(plot, i) + 10, overflow: "break", lineHeight: 13 }, splitNumber: plot.panels.length > 1 && i ? 2 : 4,
        axisLine: { show: false }, axisTick: { show: false },
        axisLabel: { ...base.axisLabel, formatter: sy.label, showMinLabel: sy.ragged?.min ? false : undefined, showMaxLabel: sy.ragged?.max ? false : undefined },
    };
    if (!plot.flip)
        return { x, y };
    return {
        x: { ...y, name: sy.name, nameGap: 30, nameTextStyle: base.nameTextStyle, splitLine: base.splitLine },
        y: { ...x, axisTick: { show: false }, name: "", inverse: true, axisLabel: { ...x.axisLabel, show: true, hideOverlap: false, interval: 0, lineHeight: 13, formatter: (v) => twoLines(v, Math.floor((leftOf(plot, width) - 14) / LETTER)) } },
    };
}

const holds = (s, plot) => ["area", "step"].includes(s.as) && !s.x && plot.x.max !== undefined && s.v.length > 0;

function seriesOf(plot, sx, sys, look, coloured, width, hidden) {
    const out = [];
    plot.panels.forEach((panel, i) => panel.series.forEach((s, k) => {
        const number = coloured.get(s.name), color = look.colors[number % look.colors.length];
        const xs = (s.x ?? plot.x.v).map((x, j) => (sx.category ? j : div(x, sx.by))), sy = sys[i].by;
        const add = (o, what) => out.push({ ...o, id: `${i}:${k}:${what}`, xAxisIndex: i, yAxisIndex: i, animation: false });
        if (s.lo && s.as !== "bar")
            add((s.as === "points" || s.as === "both" ? whiskers : band)(s, xs, sy, color, plot.flip), "range");
        // A bar has a least height, so that one of few is seen; none has no bar.
        const bar = (v) => (s.as === "bar" && v === 0 ? null : div(v, sy));
        const v = s.as === "area" && s.stack ? sums(panel, k, hidden) : s.v;
        const data = s.as === "bar" && sx.category ? s.v.map(bar) : xs.map((x, j) => (plot.flip ? [div(v[j], sy), x] : [x, div(v[j], sy)]));
        // A value holds until the next; the last one to the end of the axis.
        if (holds(s, plot))
            data.push([div(plot.x.max, sx.by), div(v[v.length - 1], sy)]);
        const below = s.as === "area" && s.stack ? { z: 3 - k / 100 } : {};
        add({ ...drawn(s, data, color, number, look), ...below, ...(k === 0 ? marksOf(plot, plot.flip ? sy : sx.by, look, i === 0, width) : {}) }, "line");
    }));
    return out;
}

// One name, one colour; `color` of a series says that it belongs to an earlier one.
function colours(plot) {
    const map = new Map();
    let next = 0;
    for (const s of plot.panels.flatMap((p) => p.series))
        if (!map.has(s.name))
            map.set(s.name, s.color ?? next++);
    return map;
}

export function legendOf(plot) {
    if (plot.is === "heat")
        return [];
    const map = colours(plot);
    // Panels with one series each are named by their axes.
    const named = plot.panels.every((p) => p.series.length === 1 && p.series[0].name === p.name);
    const known = (name) => plot.panels.some((p) => p.series.some((s) => s.name === name && s.v.some((v) => v !== null)));
    const all = plot.panels.flatMap((p) => p.series), shape = (s) => (s.dash ? "dash" : s.as === "line" || s.as === "step" ? "line" : s.as === "both" || s.as === "points" ? "dot" : "");
    return map.size > 1 && !named ? [...map].filter(([name]) => known(name)).map(([name, number]) => [name, number, shape(all.find((s) => s.name === name))]) : [];
}

// hidden: the names of series that the reader has switched off, each with true.
export function optionOf(plot, look, exporting, width, hidden = new Map()) {
    if (plot.is === "heat")
        return heat(plot, look, exporting, width);
    const sx = scaleX(plot), sys = plot.panels.map(scaleY), coloured = colours(plot);
    const legend = exporting && legendOf(plot).length > 0;
    const option = {
        animation: false, backgroundColor: exporting ? "#ffffff" : "transparent", textStyle: { fontFamily: FONT },
        grid: [], xAxis: [], yAxis: [], series: seriesOf(plot, sx, sys, look, coloured, width, hidden),
        legend: { show: legend, top: 4, icon: "roundRect", itemWidth: 14, itemHeight: 8, itemGap: 26, data: legendOf(plot).map(([name]) => name), textStyle: { color: look.ink, fontFamily: FONT, fontSize: 12 } },
        tooltip: tooltip(look, (p) => tipLines(plot, p, sx), "axis"),
        axisPointer: { link: [{ xAxisIndex: "all" }] },
        toolbox: { show: true, itemSize: 0, right: -100, feature: { dataZoom: { yAxisIndex: false, brushStyle: { color: look.span, borderColor: look.faint } } } },
    };
    let top = topOf(plot, width) + (legend ? LEGEND : 0);
    plot.panels.forEach((panel, i) => {
        const last = i === plot.panels.length - 1, axes = panelAxes(plot, i, sx, sys[i], look, last, width);
        // Panels share an axis: none may shrink to make room for its own labels.
        option.grid.push({ left: leftOf(plot, width), right: RIGHT, top, height: tall(plot, i), outerBoundsMode: "none" });
        option.xAxis.push(axes.x);
        option.yAxis.push(axes.y);
        top += tall(plot, i) + GAP;
    });
    if (!exporting && !plot.flip)
        option.dataZoom = [{ type: "inside", xAxisIndex: plot.panels.map((p, i) => i), filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, moveOnMouseWheel: "shift" }];
    return option;
}

// ---- a heat map ----

// The columns that begin at or after a round number, and that number.
function roundTicks(values, most) {
    const span = values[values.length - 1] || 1, ten = 10 ** Math.floor(Math.log10(span / most));
    const step = [1, 2, 5, 10].map((m) => m * ten).find((s) => span / s <= most) ?? span;
    const ticks = new Map();
    values.forEach((v, i) => {
        const n = Math.floor(v / step + 1e-9);
        if (i === 0 || n > Math.floor(values[i - 1] / step + 1e-9))
            ticks.set(i, Number((n * step).toPrecision(6)));
    });
    return ticks;
}

const ROW_LABELS = 24; // most rows that are named; a group of ranks by its first

function heat(plot, look, exporting, width) {
    const [by, unit] = step(plot.x.unit, most(plot.x.v));
    const [vby, vunit] = step(plot.unit, plot.max ?? most(plot.v.flat()));
    const base = axisLook(look), rows = plot.y.v.length;
    const cells = plot.v.flatMap((row, y) => row.flatMap((v, x) => (v === null ? [] : [[x, y, v / vby]])));
    const top = most(cells.map((c) => c[2])) || 1;
    const ticks = roundTicks(plot.x.v.map((x) => x / by), Math.max(2, Math.floor(width / 110)));
    return {
        animation: false, backgroundColor: exporting ? "#ffffff" : "transparent", textStyle: { fontFamily: FONT },
        grid: { left: 76, right: 22, top: 34, bottom: 50, outerBoundsMode: "none" },
        xAxis: { ...base, type: "category", data: plot.x.v.map((x, i) => String(ticks.get(i) ?? Number((x / by).toPrecision(3)))), name: axisName(plot.x.name, plot.x.unit, unit), nameLocation: "middle", nameGap: 30, splitLine: { show: false }, axisTick: { show: false }, axisLabel: { ...base.axisLabel, interval: (i) => ticks.has(i) } },
        yAxis: { ...base, type: "category", inverse: true, data: plot.y.v.map(String), name: plot.y.name, nameLocation: "middle", nameGap: 52, splitLine: { show: false }, axisTick: { show: false }, axisLabel: { ...base.axisLabel, width: 42, overflow: "truncate", interval: (i) => i % Math.ceil(rows / ROW_LABELS) === 0, formatter: (v) => v.split(" to ")[0] } },
        visualMap: { type: "continuous", min: 0, max: plot.max === undefined ? top : plot.max / vby, calculable: false, orient: "horizontal", right: 22, top: 0, itemHeight: 120, itemWidth: 10, inRange: { color: look.heat }, text: [`${Number((plot.max === undefined ? top : plot.max / vby).toPrecision(2))}${vunit ? ` ${vunit}` : ""}`, `${plot.name}  0`], textStyle: { color: look.faint, fontFamily: FONT, fontSize: 11 }, formatter: (v) => String(Number(v.toPrecision(2))) },
        series: [{ type: "heatmap", id: "0:0:line", name: plot.name, data: cells, progressive: 0, emphasis: { disabled: true }, animation: false, itemStyle: { borderWidth: 0 } }],
        tooltip: tooltip(look, (p) => `${plot.y.name} ${plot.y.v[p.value[1]]}\n${plot.x.name} ${format(plot.x.v[p.value[0]], plot.x.unit)}\n${plot.name}: ${format(p.value[2] * vby, plot.unit)}`, "item"),
        toolbox: { show: true, itemSize: 0, right: -100, feature: { dataZoom: { yAxisIndex: false } } },
        dataZoom: exporting ? undefined : [{ type: "inside", xAxisIndex: [0], filterMode: rows > 0 ? "filter" : "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, moveOnMouseWheel: "shift" }],
    };
}

// ---- the data of a plot as a table ----

export function tableOf(plot) {
    if (plot.is === "heat")
        return {
            columns: [{ name: plot.y.name, title: plot.y.name, unit: "text" }, ...plot.x.v.map((x) => ({ name: `${plot.x.name}_${x}`, title: format(x, plot.x.unit), unit: plot.unit }))],
            rows: plot.v.map((row, y) => [String(plot.y.v[y]), ...row]),
        };
    const all = plot.panels.flatMap((p) => p.series.map((s) => ({ p, s })));
    const unit = plot.x.scale === "category" ? plot.x.unit || "text" : plot.x.unit ?? "";
    const xName = plot.x.name || "name";
    const title = ({ p, s }) => (s.name === p.name ? s.name : `${s.name}: ${p.name}`);
    if (all.every(({ s }) => !s.x)) {
        const cells = all.flatMap((a) => [[a, "v", ""], ...(a.s.lo ? [[a, "lo", " (low)"], [a, "hi", " (high)"]] : [])]);
        return {
            columns: [{ name: xName, title: xName, unit }, ...cells.map(([a, , more]) => ({ name: title(a) + more, title: title(a) + more, unit: a.p.unit }))],
            rows: plot.x.v.map((x, i) => [unit === "text" ? String(x) : x, ...cells.map(([a, key]) => a.s[key][i] ?? null)]),
        };
    }
    return {
        columns: [{ name: "series", title: "series", unit: "text" }, { name: xName, title: xName, unit }, { name: "value", title: "value", unit: all[0].p.unit }, { name: "low", title: "low", unit: all[0].p.unit }, { name: "high", title: "high", unit: all[0].p.unit }],
        rows: all.flatMap((a) => (a.s.x ?? plot.x.v).map((x, i) => [title(a), x, a.s.v[i] ?? null, a.s.lo?.[i] ?? null, a.s.hi?.[i] ?? null])),
    };
}

