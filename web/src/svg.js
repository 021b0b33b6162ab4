// svg.js - a plot as SVG, for papers: drawn without a screen.
import { echarts, heightOf, legendOf, optionOf } from "./plot.js";
import { LIGHT } from "./theme.js";

export const WIDE = 760; // of saved and printed plots, in pixels

// Styles become attributes, which every program that reads SVG knows, and which the page's policy allows.
function plainSvg(text) {
    return text.replace(/<style[^]*?<\/style>/g, "").replace(/ style="([^"]*)"/g, (all, style) => style.split(";").map((s) => s.split(":"))
        .filter(([k, v]) => k && v && /^(font-|text-|fill|stroke|opacity|dominant|letter)/.test(k.trim()))
        .map(([k, v]) => ` ${k.trim()}="${v.trim()}"`).join(""));
}

export function svgOf(plot) {
    const chart = echarts.init(null, null, { renderer: "svg", ssr: true, width: WIDE, height: heightOf(plot, legendOf(plot).length, WIDE) });
    chart.setOption(optionOf(plot, LIGHT, true, WIDE));
    const text = plainSvg(chart.renderToSVGString());
    chart.dispose();
    return text;
}
