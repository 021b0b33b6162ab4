/*
 * foreign.c - formats that stoker knows and does not read: how their files are recognised, what to
 * do instead of reading them, and how programs use them.
 */
#include "format_code.h"
#include "format/format.h"
#include "base/text.h"

#include <stdio.h>

#define SURE   90 /* a magic number, or a structure that nothing else has */
#define LIKELY 60

#define SUFFIXES(...) .suffixes = (const char *const[]){__VA_ARGS__, NULL}
#define NAMES(...)    ((const char *const[]){__VA_ARGS__, NULL})

static bool begins(const struct stk_probe *p, const void *magic, size_t n)
{
    return p->head_len >= n && memcmp(p->head, magic, n) == 0;
}

/* A bid by one magic number, or by any of two. */
#define BID(name, magic) BID2(name, magic, magic)
#define BID2(name, one, other)                                                                     \
    static int bid_##name(const struct stk_probe *p)                                               \
    {                                                                                              \
        return begins(p, one, sizeof one - 1) || begins(p, other, sizeof other - 1) ? SURE : 0;    \
    }

BID(parquet, "PAR1")
BID2(megatron, "MMIDIDX\0\0", "TNTIDX\0\0")
BID2(zip, "PK\3\4", "PK\5\6")
BID(mat, "MATLAB 5.0 MAT-file")
BID(hdf4, "\016\003\023\001")
BID(orc, "ORC")
BID(avro, "Obj\1")
BID(sqlite, "SQLite format 3")
BID(fits, "SIMPLE  =")
BID(root, "root\0")

/* ---- those without one magic number -------------------------------------------------------- */

/* A file, or a stream of messages: a marker, the length of a flatbuffer, and its root. */
static int bid_arrow(const struct stk_probe *p)
{
    if (begins(p, "ARROW1\0", 7) || begins(p, "FEA1", 4))
        return SURE;
    if (!begins(p, "\xff\xff\xff\xff", 4) || p->head_len < 12)
        return 0;
    uint32_t n = stk_le32(p->head + 4), at = stk_le32(p->head + 8);
    return n >= 16 && n % 8 == 0 && n < p->size && at >= 8 && at < n ? SURE : 0;
}

static int bid_netcdf3(const struct stk_probe *p)
{
    bool version = p->head_len > 4 && (p->head[3] == 1 || p->head[3] == 2 || p->head[3] == 5);
    return version && begins(p, "CDF", 3) ? SURE : 0;
}

static int bid_safetensors(const struct stk_probe *p)
{
    uint64_t n = p->head_len > 8 ? stk_le64(p->head) : 0;
    return n >= 2 && n <= 100000000 && p->head[8] == '{' && n <= p->size - 8 ? SURE : 0;
}

/* The name of a zip's first member. */
static bool first_member(const struct stk_probe *p, const char **name, size_t *len)
{
    if (p->head_len < 30 || !begins(p, "PK\3\4", 4))
        return false;
    *name = (const char *)p->head + 30;
    *len = stk_le16(p->head + 26);
    *len = *len < p->head_len - 30 ? *len : p->head_len - 30;
    return true;
}

/* A zip whose folder has the program's data, or the older format: a pickle that begins with this
 * number. */
static int bid_pytorch(const struct stk_probe *p)
{
    static const char old[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    const char *name;
    size_t len;
    if (begins(p, old, sizeof old - 1))
        return SURE + 1;
    if (!first_member(p, &name, &len))
        return 0;
    return stk_text_ends(name, len, "/data.pkl") || stk_text_ends(name, len, "/.format_version")
               ? SURE + 1
               : 0;
}

static int bid_pickle(const struct stk_probe *p)
{
    bool framed = p->head_len > 3 && p->head[0] == 0x80 &&
                  (p->head[1] == 4 || p->head[1] == 5) && p->head[2] == 0x95;
    return framed ? SURE : 0;
}

/* No magic number: a version, a page size and the offset of a table that is all of the rest. */
static int bid_beton(const struct stk_probe *p)
{
    if (p->head_len < 32 || stk_le16(p->head) != 2)
        return 0;
    uint64_t page = stk_le32(p->head + 4), table = stk_le64(p->head + 16);
    return page >= 2u << 20 && !(page & (page - 1)) && table < p->size &&
                   (p->size - table) % 24 == 0
               ? LIKELY
               : 0;
}

static int bid_image(const struct stk_probe *p)
{
    bool riff = begins(p, "RIFF", 4) && p->head_len >= 12;
    return (riff && memcmp(p->head + 8, "WEBP", 4) == 0) || begins(p, "\xff\xd8\xff", 3) ||
                   begins(p, "\x89PNG\r\n\x1a\n", 8) || begins(p, "GIF8", 4) ||
                   begins(p, "II*\0", 4) || begins(p, "MM\0*", 4)
               ? SURE
               : 0;
}

static int bid_grib(const struct stk_probe *p)
{
    bool version = p->head_len > 8 && (p->head[7] == 1 || p->head[7] == 2);
    return version && begins(p, "GRIB", 4) ? SURE : 0;
}

/* Both words near the beginning of a file of that name. */
static int bid_words(const struct stk_probe *p, const char *base, const char *a, const char *b)
{
    const char *slash = strrchr(p->name, '/'), *name = slash ? slash + 1 : p->name;
    return strcmp(name, base) == 0 && memmem(p->head, p->head_len, a, strlen(a)) &&
                   memmem(p->head, p->head_len, b, strlen(b))
               ? SURE
               : 0;
}

static int bid_litdata(const struct stk_probe *p)
{
    return bid_words(p, "index.json", "\"chunks\"", "\"chunk_bytes\"");
}

static int bid_mds(const struct stk_probe *p)
{
    return bid_words(p, "index.json", "\"shards\"", "\"raw_data\"");
}

static int bid_n5(const struct stk_probe *p)
{
    return bid_words(p, "attributes.json", "\"n5\"", "\"");
}

/* ---- how programs use them ------------------------------------------------------------------ */

static const struct stk_format_use a_sample = {.how = STK_USE_SAMPLE};

static const struct stk_format_use image = {.how = STK_USE_SAMPLE | STK_USE_PICTURE,
                                            .decode = "image:224,crop=random,flip",
                                            .decode_val = "image:224,resize=256"};

static const struct stk_format_use parquet = {
    .how = STK_USE_LIBRARY,
    .package = "pyarrow",
    .open = stk_code_parquet_open_py,
    .parse = stk_code_parquet_parse_py,
    .keep = stk_code_parquet_parse_py,
    .larger = stk_code_parquet_larger_py,
    .rewrite = stk_code_parquet_rewrite_py};

static const struct stk_format_use arrow = {
    .how = STK_USE_LIBRARY,
    .package = "pyarrow",
    .open = stk_code_arrow_open_py,
    .parse = stk_code_arrow_parse_py,
    .keep = stk_code_arrow_parse_py,
    .rewrite = stk_code_arrow_rewrite_py};

static const struct stk_format_use zip = {
    .how = STK_USE_SAMPLE | STK_USE_LIBRARY,
    .open = stk_code_zip_open_py,
    .keep = stk_code_zip_keep_py};

static const struct stk_format_use sqlite = {
    .how = STK_USE_LIBRARY,
    .open = stk_code_sqlite_open_py,
    .larger = stk_code_sqlite_larger_py};

static const struct stk_format_use zarr = {
    .how = STK_USE_LIBRARY | STK_USE_STORE,
    .package = "zarr",
    .rewrite = stk_code_zarr_rewrite_py};

static const struct stk_format_use n5 = {.how = STK_USE_LIBRARY | STK_USE_STORE};

static const struct stk_format_use library = {.how = STK_USE_LIBRARY};

static const struct stk_format_use checkpoint = {.how = STK_USE_MODEL | STK_USE_CHECKPOINT};

/* ---- the table ------------------------------------------------------------------------------ */

#define FROM_PANDAS(read)                                                                          \
    "pandas." read "(PATH).to_json(\"out.jsonl\", orient=\"records\", lines=True) writes a table " \
    "without bytes as JSON Lines"
#define FROM_SOURCE "pack the data it was made of, or write its samples as a WebDataset tar"

/* STK_CAN_SHARD: files are shards, so a folder of them is refused, too; STK_CAN_BE_SAMPLE: they may
 * be samples of a folder of files, of whatever kind. */
static const struct stk_format foreign[] = {
    {.name = "parquet", .title = "Parquet", .caps = STK_CAN_SHARD,
     SUFFIXES(".parquet", ".parq", ".pq"), .bid = bid_parquet,
     .instead = FROM_PANDAS("read_parquet"), .use = &parquet},
    {.name = "arrow", .title = "Arrow (Feather, Hugging Face's save_to_disk)",
     .caps = STK_CAN_SHARD, SUFFIXES(".arrow", ".feather"), .bid = bid_arrow,
     .instead = "datasets.load_from_disk(PATH).to_json(\"out.jsonl\") writes a data set without "
                "bytes as JSON Lines, and pandas.read_feather reads a table", .use = &arrow},
    {.name = "zarr", .title = "Zarr", SUFFIXES(NULL),
     .marks = NAMES("zarr.json", ".zarray", ".zgroup", ".zmetadata"),
     .instead = "xarray.open_zarr(PATH).to_netcdf(\"out.nc\") makes a netCDF-4 file, which stoker "
                "reads", .use = &zarr},
    {.name = "n5", .title = "N5", SUFFIXES(NULL), .side = NAMES("attributes.json"), .bid = bid_n5,
     .instead = "write its arrays to HDF5", .use = &n5},
    {.name = "megatron", .title = "Megatron's .bin and .idx", SUFFIXES(NULL),
     .side = NAMES("*.idx"), .sidecar = ".idx", .bid = bid_megatron,
     .instead = "numpy.save(\"tokens.npy\", numpy.memmap(PATH, DTYPE, \"r\")[:N * LENGTH]"
                ".reshape(N, LENGTH)) makes an array of N samples of LENGTH tokens",
     .use = &library},
    {.name = "mds", .title = "MosaicML Streaming (MDS)", .caps = STK_CAN_SHARD,
     SUFFIXES(".mds", ".mds.zstd", ".mds.zst", ".mds.gz", ".mds.br", ".mds.bz2", ".mds.snappy"),
     .side = NAMES("index.json"), .bid = bid_mds, .instead = FROM_SOURCE, .use = &library},
    {.name = "litdata", .title = "LitData", SUFFIXES(NULL), .side = NAMES("index.json"),
     .bid = bid_litdata, .instead = FROM_SOURCE, .use = &library},
    {.name = "beton", .title = "FFCV", .caps = STK_CAN_SHARD, SUFFIXES(".beton"), .bid = bid_beton,
     .instead = FROM_SOURCE, .use = &library},
    {.name = "lance", .title = "Lance", .caps = STK_CAN_SHARD, SUFFIXES(".lance"),
     .side = NAMES("*.manifest", "*.txn"),
     .instead = "lance.dataset(PATH).to_table().to_pandas().to_json(\"out.jsonl\", "
                "orient=\"records\", lines=True) writes a table without bytes as JSON Lines",
     .use = &library},
    {.name = "array_record", .title = "ArrayRecord", .caps = STK_CAN_SHARD,
     SUFFIXES(".array_record", ".arrayrecord"), .instead = "write its records as TFRecord",
     .use = &library},
    {.name = "orc", .title = "ORC", .caps = STK_CAN_SHARD, SUFFIXES(".orc"), .bid = bid_orc,
     .instead = FROM_PANDAS("read_orc"), .use = &library},
    {.name = "avro", .title = "Avro", .caps = STK_CAN_SHARD, SUFFIXES(".avro"), .bid = bid_avro,
     .instead = "write its records as JSON Lines", .use = &library},
    {.name = "netcdf3", .title = "netCDF-3", .caps = STK_CAN_SHARD, SUFFIXES(NULL),
     .bid = bid_netcdf3,
     .instead = "nccopy -k nc4 PATH out.nc makes a netCDF-4 file, which stoker reads",
     .use = &library},
    {.name = "hdf4", .title = "HDF4", .caps = STK_CAN_SHARD, SUFFIXES(NULL), .bid = bid_hdf4,
     .instead = "h4toh5 PATH out.h5 makes an HDF5 file", .use = &library},
    {.name = "grib", .title = "GRIB", .caps = STK_CAN_SHARD,
     SUFFIXES(".grib", ".grib2", ".grb", ".grb2"), .bid = bid_grib,
     .instead = "cdo -f nc4 copy PATH out.nc makes a netCDF-4 file, which stoker reads",
     .use = &library},
    {.name = "root", .title = "ROOT", .caps = STK_CAN_SHARD, SUFFIXES(NULL), .bid = bid_root,
     .instead = "numpy.savez(\"out.npz\", **uproot.open(PATH)[TREE].arrays(library=\"np\")) makes "
                "an NPZ of its arrays", .use = &library},
    {.name = "mat", .title = "MATLAB's MAT-file before 7.3", .caps = STK_CAN_BE_SAMPLE,
     SUFFIXES(".mat"), .bid = bid_mat,
     .instead = "save it with -v7.3 (as HDF5), or write the arrays of scipy.io.loadmat(PATH) with "
                "numpy.savez", .use = &a_sample},
    {.name = "safetensors", .title = "safetensors", .caps = STK_CAN_BE_SAMPLE,
     SUFFIXES(".safetensors"), .bid = bid_safetensors,
     .instead = "numpy.savez(\"out.npz\", **safetensors.numpy.load_file(PATH)) makes an NPZ",
     .use = &checkpoint},
    {.name = "pytorch", .title = "a file of torch.save", .caps = STK_CAN_BE_SAMPLE,
     SUFFIXES(".pt", ".pth"), .bid = bid_pytorch,
     .instead = "numpy.savez(\"out.npz\", **{k: v.numpy() for k, v in torch.load(PATH).items()}) "
                "makes an NPZ of a dictionary of tensors", .use = &checkpoint},
    {.name = "pickle", .title = "Python's pickle", .caps = STK_CAN_BE_SAMPLE,
     SUFFIXES(".pkl", ".pickle"), .bid = bid_pickle,
     .instead = "write its arrays with numpy.savez, or its objects as JSON Lines",
     .use = &a_sample},
    {.name = "sqlite", .title = "SQLite", .caps = STK_CAN_BE_SAMPLE,
     SUFFIXES(".sqlite", ".sqlite3", ".db", ".db3"), .bid = bid_sqlite,
     .instead = "sqlite3 -csv -header PATH \"select * from TABLE\" > out.csv writes a table as CSV",
     .use = &sqlite},
    {.name = "fits", .title = "FITS", .caps = STK_CAN_BE_SAMPLE, SUFFIXES(".fits", ".fit"),
     .bid = bid_fits, .instead = "write its arrays with numpy.savez", .use = &a_sample},
    {.name = "zip", .title = "zip", .caps = STK_CAN_BE_SAMPLE, SUFFIXES(".zip"), .bid = bid_zip,
     .instead = "unpack it (unzip PATH -d FOLDER) and give the folder", .use = &zip},
    {.name = "image", .title = "a picture", .caps = STK_CAN_BE_SAMPLE,
     SUFFIXES(".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm",
              ".jp2", ".dcm", ".nii", ".nii.gz"), .bid = bid_image,
     .instead = "give the folder that holds the pictures: each is a sample", .use = &image},
};

const struct stk_format *stk_foreign_at(size_t i)
{
    return i < sizeof foreign / sizeof *foreign ? &foreign[i] : NULL;
}

const struct stk_format *stk_foreign_marked(const char *name)
{
    for (size_t i = 0; stk_foreign_at(i); i++)
        if (foreign[i].marks && stk_side_matches(foreign[i].marks, name))
            return &foreign[i];
    return NULL;
}

int stk_foreign_refuse(const struct stk_format *f, const char *path, bool folder,
                       struct stk_err *err)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                       "this is %s, which stoker does not read as a dataset: %s%s", f->title,
                       f->instead, folder ? "; the format 'folder' takes every file of it as a sample" : "");
}
