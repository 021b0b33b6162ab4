// theme.js - colours. Okabe and Ito's, which people who see few colours can tell apart, made darker
// on white paper and lighter on a dark screen so that lines have enough contrast.
export const LIGHT = {
    ink: "#1c2430", faint: "#5b6675", line: "#d7dde5", ground: "#ffffff", span: "rgba(20,40,80,0.05)",
    colors: ["#0b66b0", "#c4510a", "#0b7f62", "#9c3f83", "#8a6d00", "#2a8fbd", "#555e6b", "#a3232b"],
    heat: ["#f4f7fb", "#c6dcef", "#86b8dd", "#3f8ac2", "#165a97", "#07305c"],
};
export const DARK = {
    ink: "#e8edf4", faint: "#a4b0c0", line: "#38424f", ground: "#12171e", span: "rgba(200,220,255,0.06)",
    colors: ["#5db1f5", "#ff9b57", "#3ecfa6", "#e38bcb", "#e5c43f", "#8fd3f2", "#aab4c1", "#ff8489"],
    heat: ["#18202a", "#173a5e", "#1f5f97", "#3f8fca", "#86c2ee", "#e3f3ff"],
};
// Without a screen (svg.js), there is no preference.
const query = globalThis.matchMedia?.("(prefers-color-scheme: dark)");
export const theme = () => (query?.matches ? DARK : LIGHT);
export const onTheme = (fn) => query?.addEventListener("change", fn);
