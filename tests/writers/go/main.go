// Writes files with Go's standard library, npyio and go-diskfs, for tests/writers/test_languages.py:
// KIND and FLAVOUR are arguments, the values come as JSON, the file goes to OUT.
package main

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"io"
	"log"
	"os"
	"path"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/squashfs"
	"github.com/sbinet/npyio"
)

type member struct {
	Name string
	Data []byte
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func input(v any) {
	must(json.NewDecoder(os.Stdin).Decode(v))
}

func writeTar(out io.Writer, flavour string) {
	formats := map[string]tar.Format{"auto": tar.FormatUnknown, "pax": tar.FormatPAX, "gnu": tar.FormatGNU}
	var members []member
	input(&members)
	w := tar.NewWriter(out)
	for _, m := range members {
		h := &tar.Header{Name: m.Name, Mode: 0o644, Size: int64(len(m.Data)), Format: formats[flavour],
			ModTime: time.Unix(1700000000, 123456789)}
		if flavour == "pax" {
			h.PAXRecords = map[string]string{"VENDOR.note": "é=\n1", "SCHILY.xattr.user.a": "b"}
		}
		must(w.WriteHeader(h))
		_, err := w.Write(m.Data)
		must(err)
	}
	must(w.Close())
}

func writeCSV(out io.Writer, flavour string) {
	var rows [][]string
	input(&rows)
	w := csv.NewWriter(out)
	w.UseCRLF = flavour == "crlf"
	if flavour == "semicolon" {
		w.Comma = ';'
	}
	must(w.WriteAll(rows))
}

func writeJSON(out io.Writer, flavour string) {
	var rows []map[string]any
	input(&rows)
	e := json.NewEncoder(out)
	if flavour == "lines" {
		for _, r := range rows {
			must(e.Encode(r))
		}
		return
	}
	e.SetEscapeHTML(flavour != "indent")
	if flavour == "indent" {
		e.SetIndent("", "\t")
	}
	must(e.Encode(rows))
}

// Every array is written with sizes behind the data, as archive/zip does with any stream.
func writeNPZ(out io.Writer, flavour string) {
	method := map[string]uint16{"stored": zip.Store, "deflated": zip.Deflate}[flavour]
	z := zip.NewWriter(out)
	put := func(name string, v any) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: method, Modified: time.Unix(1700000000, 0)})
		must(err)
		must(npyio.Write(w, v))
	}
	f := make([]float64, 1000)
	i := make([]int32, 1000)
	u := make([]uint8, 1000)
	b := make([]bool, 1000)
	for k := range f {
		f[k], i[k], u[k], b[k] = float64(k)/3, int32(-k), uint8(k), k%3 == 0
	}
	put("f", f)
	put("i", i)
	put("u", u)
	put("b", b)
	must(z.Close())
}

func writeSquashfs(out string, flavour string) {
	var members []member
	input(&members)
	f, err := os.Create(out)
	must(err)
	work, err := os.MkdirTemp("", "squashfs")
	must(err)
	defer os.RemoveAll(work)
	fs, err := squashfs.Create(file.New(f, false), 1<<30, 0, 131072)
	must(err)
	for _, m := range members {
		must(fs.Mkdir(path.Dir(m.Name)))
		w, err := fs.OpenFile(m.Name, os.O_CREATE|os.O_RDWR)
		must(err)
		_, err = w.Write(m.Data)
		must(err)
	}
	options := squashfs.FinalizeOptions{NoCompressData: flavour == "plain", NoCompressInodes: flavour == "plain",
		NoCompressFragments: flavour == "plain"}
	if flavour == "gzip" {
		options.Compression = &squashfs.CompressorGzip{CompressionLevel: 6, WindowSize: 15}
	}
	must(fs.Finalize(options))
}

func main() {
	kind, flavour, out := os.Args[1], os.Args[2], os.Args[3]
	if kind == "squashfs" {
		writeSquashfs(out, flavour)
		return
	}
	f, err := os.Create(out)
	must(err)
	var w io.Writer = bufio.NewWriter(f)
	flush := []io.Closer{f}
	if path.Ext(out) == ".gz" {
		z := gzip.NewWriter(f)
		z.Name = "inside"
		w, flush = z, []io.Closer{z, f}
	}
	map[string]func(io.Writer, string){"tar": writeTar, "csv": writeCSV, "json": writeJSON, "npz": writeNPZ}[kind](w, flavour)
	if b, ok := w.(*bufio.Writer); ok {
		must(b.Flush())
	}
	for _, c := range flush {
		must(c.Close())
	}
}
