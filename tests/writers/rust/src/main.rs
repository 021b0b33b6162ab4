//! Writes files with Rust's crates, for tests/writers/test_languages.py: KIND and FLAVOUR are
//! arguments, the values come as JSON, the file goes to OUT.
use base64::Engine;
use serde_json::Value;
use std::fs::File;
use std::io::{Cursor, Write};

fn input() -> Value {
    serde_json::from_reader(std::io::stdin()).unwrap()
}

/// The members of an archive: [{"Name": ..., "Data": base64}, ...].
fn members() -> Vec<(String, Vec<u8>)> {
    let decode = |v: &Value| base64::prelude::BASE64_STANDARD.decode(v.as_str().unwrap()).unwrap();
    let list = input();
    let each = |m: &Value| (m["Name"].as_str().unwrap().to_string(), decode(&m["Data"]));
    list.as_array().unwrap().iter().map(each).collect()
}

fn write_tar(flavour: &str, out: &str) {
    let mut b = tar::Builder::new(File::create(out).unwrap());
    for (name, data) in members() {
        let mut h = if flavour == "gnu" { tar::Header::new_gnu() } else { tar::Header::new_ustar() };
        h.set_size(data.len() as u64);
        h.set_mode(0o644);
        if flavour == "pax" {
            b.append_pax_extensions([("path", name.as_bytes()), ("mtime", b"1700000000.5")]).unwrap();
            h.set_path("short.bin").unwrap();
            h.set_cksum();
            b.append(&h, &data[..]).unwrap();
        } else {
            b.append_data(&mut h, name, &data[..]).unwrap();
        }
    }
    b.finish().unwrap();
}

fn write_csv(flavour: &str, out: &str) {
    let mut b = csv::WriterBuilder::new();
    match flavour {
        "crlf" => b.terminator(csv::Terminator::CRLF),
        "semicolon" => b.delimiter(b';'),
        "always" => b.quote_style(csv::QuoteStyle::Always),
        "nonnumeric" => b.quote_style(csv::QuoteStyle::NonNumeric),
        _ => &mut b,
    };
    let mut w = b.from_path(out).unwrap();
    for row in input().as_array().unwrap() {
        w.write_record(row.as_array().unwrap().iter().map(|c| c.as_str().unwrap())).unwrap();
    }
    w.flush().unwrap();
}

fn write_json(flavour: &str, out: &str) {
    let mut f = File::create(out).unwrap();
    let rows = input();
    match flavour {
        "lines" => {
            for r in rows.as_array().unwrap() {
                writeln!(f, "{}", serde_json::to_string(r).unwrap()).unwrap();
            }
        }
        "indent" => serde_json::to_writer_pretty(f, &rows).unwrap(),
        _ => serde_json::to_writer(f, &rows).unwrap(),
    }
}

fn write_npz(flavour: &str, out: &str) {
    use npyz::WriterBuilder;
    let mut z = npyz::npz::NpzWriter::create(out).unwrap();
    let method = if flavour == "stored" { npyz::zip::CompressionMethod::Stored } else { npyz::zip::CompressionMethod::Deflated };
    let options = npyz::zip::write::FileOptions::default().compression_method(method);
    let n = 1000u64;
    macro_rules! put {
        ($name:expr, $values:expr) => {{
            let mut w = z.array($name, options).unwrap().default_dtype().shape(&[n]).begin_nd().unwrap();
            w.extend($values).unwrap();
            w.finish().unwrap();
        }};
    }
    put!("f", (0..n).map(|k| k as f64 / 3.0));
    put!("i", (0..n).map(|k| -(k as i32)));
    put!("u", (0..n).map(|k| k as u8));
    put!("b", (0..n).map(|k| k % 3 == 0));
}

fn write_squashfs(flavour: &str, out: &str) {
    use backhand::{compression::Compressor, FilesystemCompressor, FilesystemWriter, NodeHeader};
    let mut w = FilesystemWriter::default();
    let kind = if flavour == "gzip" { Compressor::Gzip } else { Compressor::Zstd };
    w.set_compressor(FilesystemCompressor::new(kind, None).unwrap());
    for (name, data) in members() {
        let header = NodeHeader { permissions: 0o644, ..NodeHeader::default() };
        if let Some(parent) = std::path::Path::new(&name).parent() {
            w.push_dir_all(parent, NodeHeader { permissions: 0o755, ..NodeHeader::default() }).unwrap();
        }
        w.push_file(Cursor::new(data), &name, header).unwrap();
    }
    w.write(File::create(out).unwrap()).unwrap();
}

fn write_lmdb(flavour: &str, out: &str) {
    use heed::types::Bytes;
    std::fs::create_dir(out).unwrap();
    let env = unsafe { heed::EnvOpenOptions::new().map_size(1 << 28).max_dbs(4).open(out).unwrap() };
    let mut t = env.write_txn().unwrap();
    let name = if flavour == "named" { Some("only") } else { None };
    let db: heed::Database<Bytes, Bytes> = env.create_database(&mut t, name).unwrap();
    for (key, data) in members() {
        db.put(&mut t, key.as_bytes(), &data).unwrap();
    }
    t.commit().unwrap();
}

fn write_tfrecord(flavour: &str, out: &str) {
    use tfrecord::{Example, ExampleWriter, Feature};
    if flavour == "raw" {
        let mut w = tfrecord::BytesWriter::create(out).unwrap();
        for (_, data) in members() {
            w.send(data).unwrap();
        }
        return;
    }
    let mut w = ExampleWriter::create(out).unwrap();
    for (i, (name, data)) in members().into_iter().enumerate() {
        let e: Example = vec![
            ("key".to_string(), Feature::from_bytes_list(vec![name.into_bytes()])),
            ("data".to_string(), Feature::from_bytes_list(vec![data])),
            ("label".to_string(), Feature::from_i64_list(vec![i as i64])),
            ("w".to_string(), Feature::from_f32_list(vec![0.5, i as f32])),
        ]
        .into_iter()
        .collect();
        w.send(e).unwrap();
    }
}

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let write = match a[1].as_str() {
        "tar" => write_tar,
        "csv" => write_csv,
        "json" => write_json,
        "npz" => write_npz,
        "squashfs" => write_squashfs,
        "lmdb" => write_lmdb,
        "tfrecord" => write_tfrecord,
        other => panic!("{other}?"),
    };
    write(&a[2], &a[3]);
}
