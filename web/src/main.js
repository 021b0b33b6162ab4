// main.js - the page: reads the data, and lays out a section per result. It knows plots, tables and
// findings, not kinds of results: src/report/html decides what is in them.
import { button, capital, el, richSentence, say, sentence, visible } from "./dom.js";
import { figure, onPaper, restyle } from "./figure.js";
import { tableBlock } from "./table.js";
import { onTheme } from "./theme.js";
import { format } from "./units.js";

const SCHEMA = 1;
const FINDINGS = 5; // that are shown at once

const TITLES = { shell: "In the shell", python: "In the program, Python", c: "In the program, C" };

// Code of one language, which goes to one place.
function copyable({ language, text }) {
    const title = TITLES[language] ?? "Commands";
    const code = el("pre", { tabindex: 0, "aria-label": title }, el("code", {}, visible(text).replaceAll("\\u000a", "\n")));
    const copy = button("Copy", "Copy the commands", async () => {
        try {
            await navigator.clipboard.writeText(text);
        } catch {
            // A page from disk may not use the clipboard interface: select the text instead.
            getSelection().selectAllChildren(code);
            document.execCommand("copy");
        }
        copy.textContent = "Copied";
        say("copied");
        setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
    return [language ? el("p", { class: "note" }, `${title}:`) : null, el("div", { class: "commands" }, code, copy)];
}

// "mean_read_bytes" -> "mean read": the unit stands at the number.
const WORDS = { read_s: "in reads", write_s: "in writes", meta_s: "in metadata", read_bytes: "read", write_bytes: "written", distinct_bytes: "distinct",
    node_bytes: "per node", wait_s: "waiting", reread: "read per byte", random: "of the reads at random", consecutive: "of the reads consecutive" };
const words = (name) => WORDS[name] ?? name.replace(/_(s|bytes|Bps)$/, "").replaceAll("_", " ");

function evidence(list) {
    return el("ul", { class: "evidence" }, list.map((e) =>
        el("li", {}, el("span", { class: "value", "data-value": e.value }, format(e.value, e.unit)), ` ${visible(words(e.name))}`)));
}

function finding(f) {
    const gain = f.gain_s ? el("span", { class: "gain", "data-value": f.gain_s }, `saves about ${format(f.gain_s, "s")}${f.gain_per ? ` per ${f.gain_per}` : ""}`) : null;
    return el("article", { class: `finding at-${f.severity}`, "data-id": f.id },
        el("h4", {}, el("span", { class: "severity" }, f.severity), " ", capital(f.title), " ", gain),
        f.sentences?.length ? el("p", {}, richSentence(f.sentences.map(sentence).join(" "))) : null,
        f.evidence?.length ? evidence(f.evidence) : null,
        f.what_to_do ? el("p", { class: "do" }, richSentence(f.what_to_do)) : null,
        (f.code ?? (f.lines?.length ? [{ text: f.lines.join("\n") }] : [])).flatMap(copyable),
        f.gain_why ? el("p", { class: "note" }, richSentence(f.gain_why)) : null);
}

function findings(list, id, title = "Findings") {
    return el("section", { class: "block", "aria-labelledby": `${id}-findings ${id}-k` },
        el("h3", { id: `${id}-findings` }, title), list.slice(0, FINDINGS).map(finding),
        list.length > FINDINGS ? el("details", { class: "more" }, el("summary", {}, `${list.length - FINDINGS} more`), list.slice(FINDINGS).map(finding)) : null);
}

function facts(list) {
    const long = (f) => f.unit === "text" && f.value.length > 18;
    return el("dl", { class: "facts" }, list.map((f) => el("div", { class: long(f) && "long" }, el("dt", {}, visible(f.name)),
        el("dd", f.unit === "text" ? {} : { "data-value": f.value }, visible(format(f.value, f.unit))))));
}

function number(n) {
    return n && el("p", { class: "big" },
        el("strong", { "data-value": n.value }, format(n.value, n.unit)), " ", el("span", {}, visible(n.what)));
}

function notes(list) {
    return el("section", { class: "block" }, el("h3", {}, "Notes"), el("ul", {}, list.map((t) => el("li", {}, richSentence(t)))));
}

const BLOCKS = {
    plot: (b, id, group) => figure(b, id, group),
    heat: (b, id, group) => figure(b, id, group),
    table: (b, id, group) => tableBlock(b, id, group),
};

function result(r, i) {
    const id = `r${i + 1}`;
    return el("section", { class: "result", id, "aria-labelledby": `${id}-h ${id}-k`, "data-kind": r.kind },
        el("header", {}, el("p", { class: "kind", id: `${id}-k` }, r.kind, " · ", visible(r.name)), el("h2", { id: `${id}-h` }, visible(r.title))),
        el("div", { class: "verdict" }, number(r.number), el("p", {}, richSentence(r.verdict))),
        r.facts?.length ? facts(r.facts) : null,
        r.findings?.length ? findings(r.findings, id, r.findings_title) : null,
        r.blocks.map((b) => BLOCKS[b.is](b, `${id}-${b.id}`, id)),
        r.notes?.length ? notes(r.notes) : null);
}

// In a notebook's frame, "#r1" is a place in the notebook, not in this page.
function link(attributes, id, text) {
    const a = el("a", { ...attributes, href: `#${id}` }, text);
    a.addEventListener("click", (e) => {
        if (document.baseURI.split("#")[0] === location.href.split("#")[0])
            return;
        e.preventDefault();
        document.getElementById(id).scrollIntoView();
        document.getElementById(id).focus({ preventScroll: true });
    });
    return a;
}

// The number of a verdict, unless the sentence has it.
function lead(r) {
    const text = r.number && format(r.number.value, r.number.unit);
    return text && !sentence(r.verdict).replaceAll("\u00a0", " ").includes(text) ? [el("strong", {}, text), ` ${visible(r.number.what)}. `] : null;
}

function summary(results) {
    return el("nav", { "aria-label": "Results" }, el("ol", {}, results.map((r, i) => el("li", {},
        link({}, `r${i + 1}`, visible(r.title)), " ", el("span", { class: "kind" }, r.kind, " · ", visible(r.name)), el("br"),
        lead(r), richSentence(r.verdict)))));
}

// Charts and long tables are drawn when they come near the screen.
function drawSoon(blocks) {
    const seen = new IntersectionObserver((entries) => entries.forEach((e) => {
        if (!e.isIntersecting)
            return;
        seen.unobserve(e.target);
        e.target.ready();
        e.target.dataset.drawn = "";
    }), { rootMargin: "800px" });
    blocks.forEach((b) => seen.observe(b));
}

function lay(data) {
    document.title = data.results.length === 1 ? `${data.results[0].title} – stoker` : "stoker report";
    const root = document.getElementById("page");
    root.append(
        link({ class: "skip" }, "main", "Skip to the results"),
        el("header", { class: "top" }, el("h1", {}, "stoker report"), el("p", {}, `made ${data.made} by stoker ${data.version}`)),
        data.results.length > 1 ? summary(data.results) : "",
        el("main", { id: "main", tabindex: -1 }, data.results.map(result)),
        el("footer", {}, el("p", {}, "Drawn by Apache ECharts and Tabulator. Drag over a plot to zoom, double-click to see all of it; docs/report.md explains every plot.")));
    const figures = [...document.querySelectorAll("figure")];
    drawSoon([...document.querySelectorAll(".block")].filter((b) => b.ready));
    onTheme(() => figures.forEach((f) => f.box.chart && restyle(f.box)));
    addEventListener("beforeprint", () => {
        figures.forEach(onPaper);
        document.querySelectorAll("details.more").forEach((d) => { d.open = true; });
    });
}

try {
    const data = JSON.parse(document.getElementById("data").textContent);
    if (data.schema !== SCHEMA)
        throw new Error(`this page reads schema ${SCHEMA}, its data has ${data.schema}`);
    lay(data);
} catch (e) {
    document.getElementById("page").append(el("main", {}, el("h1", {}, "stoker report"), el("p", { role: "alert" }, `The page cannot be shown: ${e.message}`)));
    throw e;
}
