// Writes files with Java's libraries, for tests/writers/test_languages.py: KIND and FLAVOUR are
// arguments, the values come as lines of base64, the file goes to OUT.
import io.jhdf.HdfFile;
import io.jhdf.WritableHdfFile;
import io.jhdf.api.WritableGroup;
import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.FileWriter;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveOutputStream;
import org.apache.commons.csv.CSVFormat;
import org.apache.commons.csv.CSVPrinter;
import org.apache.commons.csv.QuoteMode;

public class Writer {
    static List<byte[][]> rows() throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        List<byte[][]> rows = new ArrayList<>();
        for (String line; (line = in.readLine()) != null;) {
            String[] cells = line.split(",", -1);
            byte[][] row = new byte[cells.length][];
            for (int i = 0; i < cells.length; i++)
                row[i] = Base64.getDecoder().decode(cells[i]);
            rows.add(row);
        }
        return rows;
    }

    static void tar(String flavour, String out) throws Exception {
        try (var w = new TarArchiveOutputStream(new FileOutputStream(out), "UTF-8")) {
            w.setLongFileMode(flavour.equals("gnu") ? TarArchiveOutputStream.LONGFILE_GNU
                                                    : TarArchiveOutputStream.LONGFILE_POSIX);
            w.setBigNumberMode(flavour.equals("gnu") ? TarArchiveOutputStream.BIGNUMBER_STAR
                                                     : TarArchiveOutputStream.BIGNUMBER_POSIX);
            w.setAddPaxHeadersForNonAsciiNames(!flavour.equals("gnu"));
            for (byte[][] m : rows()) {
                var e = new TarArchiveEntry(new String(m[0], StandardCharsets.UTF_8));
                e.setSize(m[1].length);
                e.setUserId(5000000000L);
                w.putArchiveEntry(e);
                w.write(m[1]);
                w.closeArchiveEntry();
            }
        }
    }

    static void csv(String flavour, String out) throws Exception {
        CSVFormat f = switch (flavour) {
            case "excel" -> CSVFormat.EXCEL;
            case "rfc4180" -> CSVFormat.RFC4180;
            case "all" -> CSVFormat.DEFAULT.builder().setQuoteMode(QuoteMode.ALL).build();
            case "minimal" -> CSVFormat.DEFAULT.builder().setQuoteMode(QuoteMode.MINIMAL).setRecordSeparator('\n').build();
            default -> CSVFormat.DEFAULT;
        };
        try (var w = new CSVPrinter(new OutputStreamWriter(new FileOutputStream(out), StandardCharsets.UTF_8), f)) {
            for (byte[][] r : rows()) {
                Object[] cells = new Object[r.length];
                for (int i = 0; i < r.length; i++)
                    cells[i] = new String(r[i], StandardCharsets.UTF_8);
                w.printRecord(cells);
            }
        }
    }

    static void hdf5(String flavour, String out) throws Exception {
        double[][] d = new double[50][3];
        int[] i = new int[50];
        long[] l = new long[50];
        float[] f = new float[50];
        byte[] b = new byte[50];
        short[] s = new short[50];
        String[] t = new String[50];
        boolean[] ok = new boolean[50];
        for (int k = 0; k < 50; k++) {
            d[k] = new double[] {k / 3.0, -k, 1e300};
            i[k] = -k;
            l[k] = (1L << 53) + k;
            f[k] = k / 7f;
            b[k] = (byte) (k - 25);
            s[k] = (short) (k * 600 - 15000);
            t[k] = "text " + "x".repeat(k % 5) + (k % 2 == 0 ? "é" : "");
            ok[k] = k % 2 == 0;
        }
        try (WritableHdfFile file = HdfFile.write(Path.of(out))) {
            WritableGroup g = file.putGroup("g");
            file.putDataset("d", d);
            file.putDataset("i", i);
            file.putDataset("l", l);
            g.putDataset("f", f);
            g.putDataset("b", b);
            g.putDataset("s", s);
            file.putDataset("ok", ok);
            if (flavour.equals("text"))
                file.putDataset("t", t);
            g.putDataset("scalar", 42);
        }
    }

    public static void main(String[] a) throws Exception {
        switch (a[0]) {
            case "tar" -> tar(a[1], a[2]);
            case "csv" -> csv(a[1], a[2]);
            case "hdf5" -> hdf5(a[1], a[2]);
        }
    }
}
