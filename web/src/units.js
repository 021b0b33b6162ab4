// units.js - numbers as people read them. A unit is a word of the data: "s", "B", "B/s", "count",
// "share", "x" or "ratio" (a factor), "per s", "" (a plain number) or "text".

const digits = (v, n = 3) => {
    const a = Math.abs(v);
    if (a >= 10 ** n || a === 0)
        return Math.round(v).toLocaleString("en-US");
    return String(Number(v.toPrecision(n)));
};

const STEPS = {
    s: [[1e-9, "ns"], [1e-6, "µs"], [1e-3, "ms"], [1, "s"], [60, "min"], [3600, "h"]],
    B: ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].map((name, i) => [1024 ** i, name]),
    "B/s": ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s", "PiB/s"].map((name, i) => [1024 ** i, name]),
    share: [[0.01, "%"]],
    x: [[1, "×"]],
};

// What findings call their units.
const SAME = { bytes: "B", "bytes/s": "B/s", seconds: "s", ratio: "x" };

// The same for an axis, where large counts have no room.
export function axisStep(unit, most) {
    const counts = [[1e9, "billions"], [1e6, "millions"]];
    return (unit === "count" && counts.find(([by]) => most >= 2 * by)) || step(unit, most);
}

// The factor and name of the unit in which values up to `most` are written.
export function step(unit, most) {
    const all = STEPS[SAME[unit] ?? unit];
    if (!all)
        return [1, unit === "count" || unit === "text" ? "" : unit];
    const a = Math.abs(most);
    // Minutes and hours begin later than at one: 90 s is easier to read than 1.5 min.
    const fits = ([f]) => a >= (f === 60 ? 180 : f === 3600 ? 7200 : f);
    return [...all].reverse().find(fits) ?? all[a === 0 && all === STEPS.s ? 3 : 0];
}

// A product, as C computes it: the number of a verdict is then rounded as in its sentence. More than
// a hundredth of a percent is noise.
function percent(share) {
    const v = 100 * share, a = Math.abs(v);
    if (a > 0 && a < 0.01)
        return `< ${v < 0 ? "-" : ""}0.01 %`;
    return `${a < 1 ? Number(v.toFixed(2)) : digits(v)} %`;
}

export function format(v, unit) {
    if (v === null || v === undefined || v === "")
        return "–";
    if (unit === "text" || typeof v === "string")
        return String(v);
    if (typeof v === "boolean")
        return v ? "yes" : "no";
    if (unit === "count")
        return v.toLocaleString("en-US");
    if (unit === "per s")
        return `${digits(v)}/s`;
    if (unit === "share")
        return percent(v);
    const [factor, name] = step(unit, v);
    const text = digits(v / factor);
    return name === "×" ? `${text}×` : name ? `${text} ${name}` : text;
}

// "read rate (MiB/s)"
export function axisName(name, unit, unitName) {
    return unitName && !(unit === "per s" && name.endsWith("/s")) ? `${name} (${unitName})` : name;
}
