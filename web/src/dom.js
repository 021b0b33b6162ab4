// dom.js - elements made from text. Text is only ever set as text: a name in the data is never markup.

export function el(tag, attributes = {}, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (name.startsWith("on"))
            e.addEventListener(name.slice(2), value);
        else if (value !== undefined && value !== null && value !== false)
            e.setAttribute(name, value === true ? "" : value);
    }
    e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
    return e;
}

// Marks that turn the direction of text, and control characters, are shown instead of obeyed.
const MARKS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;
export const visible = (text) =>
    String(text).replace(MARKS, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

// Text is written for terminals, which may have neither µ nor × nor ±.
export const prose = (text) => visible(String(text).trim()).replace(/(\d) us\b/g, "$1 µs").replace(/(\d)x(?=[\s,;:.)]|$)/g, "$1×").replace(/\+-(?=\d)/g, "±").replace(/(\d) (?=(%|[mµn]?s|min|h|B|[KMGTP]iB)(?![\w]))/g, "$1\u00a0");

// With a capital, unless it begins with a name, and with a full stop.
export const sentence = (text) => prose(text).replace(/^[a-z]+(?= )/, (word) => word[0].toUpperCase() + word.slice(1)).replace(/([^.!?:])$/, "$1.");
export const capital = (text) => sentence(text).replace(/\.$/, "");

// The same with `code` as an element, for the page.
const spans = (text) => text.split("`").map((part, i, all) => (i % 2 && i < all.length - 1 ? el("code", {}, part) : part));
export const rich = (text) => spans(prose(text));
export const richSentence = (text) => spans(sentence(text));

let status;
export function say(text) {
    status ??= document.body.appendChild(el("div", { role: "status", class: "unseen" }));
    status.textContent = text;
}

export function save(name, type, content) {
    const blob = content instanceof Blob ? content : new Blob([content], { type });
    const a = el("a", { href: URL.createObjectURL(blob), download: name });
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 10000);
    say(`saved ${name}`);
}

export function button(label, title, onclick) {
    return el("button", { type: "button", title, "aria-label": title, onclick }, label);
}

// A cell that a spreadsheet would run as a formula gets a leading '.
export function csv(rows) {
    const cell = (v) => {
        if (v === null || v === undefined)
            return "";
        let text = String(v);
        if (typeof v === "string" && /^[=+\-@\t\r]/.test(text))
            text = `'${text}`;
        return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return rows.map((r) => r.map(cell).join(",")).join("\r\n") + "\r\n";
}
