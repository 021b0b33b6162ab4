// Writes files with Node and npm's packages, for tests/writers/test_languages.py: KIND and FLAVOUR
// are arguments, the values come as JSON, the file goes to OUT.
import { createWriteStream, readFileSync, writeFileSync } from "node:fs";
import { createGzip } from "node:zlib";
import { pipeline } from "node:stream/promises";

const [kind, flavour, out] = process.argv.slice(2);
const values = JSON.parse(readFileSync(0, "utf8") || "null");
const bytes = (m) => Buffer.from(m.Data, "base64");

async function tar() {
  const { default: stream } = await import("tar-stream");
  const pack = stream.pack();
  for (const m of values) {
    const header = { name: m.Name, mtime: new Date(1700000000123) };
    if (flavour === "pax") header.pax = { comment: "é", "VENDOR.x": "1" };
    pack.entry(header, bytes(m));
  }
  pack.finalize();
  const steps = out.endsWith(".gz") ? [createGzip()] : [];
  await pipeline(pack, ...steps, createWriteStream(out));
}

async function csv() {
  if (flavour === "papaparse") {
    const { default: papa } = await import("papaparse");
    writeFileSync(out, papa.unparse(values));
    return;
  }
  const { stringify } = await import("csv-stringify/sync");
  const options = { crlf: { record_delimiter: "windows", quoted: true }, semicolon: { delimiter: ";" }, always: { quoted: true },
                    bom: { bom: true } };
  writeFileSync(out, stringify(values, options[flavour] ?? {}));
}

function json() {
  const text = { lines: () => values.map((r) => JSON.stringify(r)).join("\n"),
                 indent: () => JSON.stringify(values, null, 2), plain: () => JSON.stringify(values) };
  writeFileSync(out, text[flavour]());
}

async function lmdb() {
  const { open } = await import("lmdb");
  const db = open({ path: out, noSubdir: false, encoding: "binary", keyEncoding: "binary", compression: false,
                    cache: false, sharedStructuresKey: undefined });
  for (const m of values) await db.put(Buffer.from(m.Name), bytes(m));
  await db.flushed;
  await db.close();
}

await { tar, csv, json, lmdb }[kind]();
