// units.js - numbers as people read them. A unit is a word of the data: "s", "B", "B/s", "count",
// "share", "x" or "ratio" (a factor), "per s", "" (a plain number) or "text".

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

// Values are rounded as on the screen: src/result/value.c, which this follows line by line.
const count = (v) => Math.round(v).toLocaleString("en-US");
const three = (v) => (v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0));

function bytes(v) {
    if (v < 10000)
        return `${count(v)} B`;
    const names = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let u = 0;
    for (v /= 1024; v >= 1023.5 && u + 1 < names.length; u++)
        v /= 1024;
    return `${three(v)} ${names[u]}`;
}

function seconds(s) {
    if (s <= 0)
        return "0 s";
    if (s < 0.9995e-6)
        return `${(s * 1e9).toFixed(0)} ns`;
    if (s < 0.9995e-3)
        return `${(s * 1e6).toFixed(s < 9.95e-6 ? 1 : 0)} µs`;
    if (s < 0.9995)
        return `${(s * 1e3).toFixed(s < 0.00995 ? 1 : 0)} ms`;
    if (s < 59.95)
        return `${s.toFixed(s < 9.995 ? 2 : 1)} s`;
    const t = Math.round(s), two = (n) => String(n).padStart(2, "0");
    if (t < 3600)
        return `${Math.floor(t / 60)} min ${two(t % 60)} s`;
    if (t < 86400)
        return `${Math.floor(t / 3600)} h ${two(Math.floor(t / 60) % 60)} min`;
    return `${Math.floor(t / 86400)} d ${two(Math.floor(t / 3600) % 24)} h`;
}

// Only the whole is 100 %, and only nothing is 0.
function percent(share) {
    const p = 100 * share;
    if (p > 0 && p < 0.05)
        return "<0.1 %";
    if (p >= 999.5)
        return ">999 %";
    if (p > 0 && p < 100)
        return `${Math.min(p, 99.9).toFixed(1)} %`;
    return p >= 100 || p <= -99.5 ? `${p.toFixed(0)} %` : `${p.toFixed(1)} %`;
}

function plain(v) {
    if (v >= 1e4 && v < 1e15)
        return count(v);
    return String(Number(v.toPrecision(4)));
}

export function format(v, unit) {
    if (v === null || v === undefined || v === "")
        return "–";
    if (unit === "text" || typeof v === "string")
        return String(v);
    if (typeof v === "boolean")
        return v ? "yes" : "no";
    const u = SAME[unit] ?? unit, minus = v < 0 ? "-" : "", a = Math.abs(v);
    if (u === "count")
        return Number.isInteger(v) ? v.toLocaleString("en-US") : plain(v);
    if (u === "B" || u === "B/s")
        return minus + bytes(a) + u.slice(1);
    if (u === "s")
        return minus + seconds(a);
    if (u === "share")
        return percent(v);
    if (u === "x")
        return `${three(v)}×`;
    if (u === "per s")
        return v >= 99.95 ? `${count(v)}/s` : `${Number(v.toPrecision(3))}/s`;
    return u && u !== "per s" ? `${plain(v)} ${u}` : plain(v);
}

// "read rate (MiB/s)"
export function axisName(name, unit, unitName) {
    return unitName && !(unit === "per s" && name.endsWith("/s")) ? `${name} (${unitName})` : name;
}
