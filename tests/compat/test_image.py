"""Images written by Pillow and by hand decode to the pixels Pillow gives, to the last bit.

The unit test of images prints what it decoded; it stands beside the binary under test.
"""

import struct
import subprocess
import zlib

import pytest

from conftest import STOKER, Result, check_sane, clean_env

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")

PROGRAM = STOKER.parent / "tests" / "test_image"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")

BILINEAR = getattr(Image, "Resampling", Image).BILINEAR


class Frame:
    """What test_image says it took: box in the stored image, flipped or not; and the pixels."""

    def __init__(self, out, channels=3, nchw=False):
        line, pixels = out.split(b"\n", 1)
        self.width, self.height, x, y, w, h, self.flip = map(int, line.split())
        self.box = (x, y, x + w, y + h)
        shape = (self.height, self.width, channels)
        self.pixels = np.frombuffer(pixels, "u1").reshape(
            (channels, self.height, self.width) if nchw else shape)
        if nchw:
            self.pixels = self.pixels.transpose(1, 2, 0)


def decode(path, text="image", key=0, rc=0):
    run = subprocess.run([PROGRAM, "--pixels", path, text, str(key)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=clean_env(), timeout=300)
    result = Result([PROGRAM, path, text, key], run.returncode, run.stdout, run.stderr)
    check_sane(result)
    if run.returncode == 77 or b"built without" in run.stdout:
        pytest.skip("built without libjpeg or libpng")
    assert run.returncode == rc, repr(result)
    return Frame(run.stdout, 1 if "gray" in text else 3, "nchw" in text) if rc == 0 else result


def scene(width, height, seed=1):
    """Slopes, edges and grain, so that every step of decoding shows in the pixels."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [x * 200 / width, y * 200 / height, ((x // 11 + y // 7) % 2) * 150]
    noise = rng.normal(0, 12, (height, width, 3))
    return Image.fromarray(np.clip(np.stack(planes, -1) + 20 + noise, 0, 255).astype("u1"))


def file_of(path, image, **options):
    image.save(path, **options)
    return path


def reference(path):
    with Image.open(path) as image:
        return image.convert("RGB")


JPEGS = {
    "444": dict(subsampling=0), "422": dict(subsampling=1), "420": dict(subsampling=2),
    "progressive": dict(progressive=True), "optimised": dict(optimize=True, quality=95),
    "coarse": dict(quality=20),
}


@pytest.mark.parametrize("kind", JPEGS)
def test_jpeg_pixels(tmp_path, kind):
    # A user would train on other pixels than the same images gave through Pillow or torchvision.
    path = file_of(tmp_path / "a.jpg", scene(131, 97), **JPEGS[kind])
    want = np.asarray(reference(path))
    for text in ["image", "image:layout=nchw"]:
        assert np.array_equal(decode(path, text).pixels, want)
    flipped = [decode(path, "image:flip", key) for key in range(12)]
    assert {f.flip for f in flipped} == {0, 1}
    for f in flipped:
        assert np.array_equal(f.pixels, want[:, ::-1] if f.flip else want)


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_jpeg_colours(tmp_path, mode):
    # A user would see negatives of CMYK images, or lose gray ones.
    path = file_of(tmp_path / "a.jpg", scene(70, 50).convert(mode), quality=90)
    assert np.array_equal(decode(path).pixels, np.asarray(reference(path)))
    gray = decode(path, "image:gray").pixels[..., 0]
    assert np.array_equal(gray, np.asarray(reference(path).convert("L")))


@pytest.mark.parametrize("kind", JPEGS)
def test_jpeg_gray_of_colour(tmp_path, kind):
    # A user would see other gray values than convert("L") and torchvision's Grayscale give: the Y
    # that is stored differs from them by up to 18.
    noise = np.random.default_rng(5).integers(0, 256, (97, 131, 3)).astype("u1")
    for image in scene(131, 97), Image.fromarray(noise):
        path = file_of(tmp_path / "a.jpg", image, **JPEGS[kind])
        whole = reference(path).convert("L")
        assert np.array_equal(decode(path, "image:gray").pixels[..., 0], np.asarray(whole))
        f = decode(path, "image:48x40,crop=random,gray", 3)
        want = np.asarray(whole.crop(f.box).resize((48, 40), BILINEAR))
        assert np.array_equal(f.pixels[..., 0], want)


@pytest.mark.parametrize("kind", ["444", "420", "progressive"])
def test_random_crop_is_torchvisions(tmp_path, kind):
    # A user's training would see other crops than resized_crop() makes of the same boxes.
    path = file_of(tmp_path / "a.jpg", scene(250, 190), **JPEGS[kind])
    whole = reference(path)
    for key in range(8):
        f = decode(path, "image:96x80,crop=random,flip", key)
        want = np.asarray(whole.crop(f.box).resize((96, 80), BILINEAR))
        assert np.array_equal(f.pixels, want[:, ::-1] if f.flip else want)


def center_crop(image, size, crop):
    """torchvision's Resize(size), CenterCrop(crop)."""
    w, h = image.size
    w, h = (size, size * h // w) if w <= h else (size * w // h, size)
    left, top = round((w - crop) / 2), round((h - crop) / 2)
    return image.resize((w, h), BILINEAR).crop((left, top, left + crop, top + crop))


@pytest.mark.parametrize("size", [(250, 190), (141, 220), (160, 160), (97, 131)])
def test_center_crop_is_torchvisions(tmp_path, size):
    # A user's validation accuracy would change with the loader.
    path = file_of(tmp_path / "a.jpg", scene(*size))
    whole = reference(path)
    for text, resize in {"image:112": 112, "image:112,resize=128,layout=nchw": 128}.items():
        want = np.asarray(center_crop(whole, resize, 112))
        assert np.array_equal(decode(path, text).pixels, want)
    want = np.asarray(whole.resize((200, 60), BILINEAR))
    assert np.array_equal(decode(path, "image:200x60,crop=none").pixels, want)


def test_large_jpeg_is_near(tmp_path):
    # A user would see coarse or shifted images where JPEGs are shrunk while they are decoded.
    path = file_of(tmp_path / "a.jpg", scene(1600, 1200), quality=92)
    whole = reference(path)
    for key in range(4):
        f = decode(path, "image:112,crop=random,flip,scale=0.4-1", key)
        want = np.asarray(whole.crop(f.box).resize((112, 112), BILINEAR)).astype(int)
        off = f.pixels - (want[:, ::-1] if f.flip else want)
        assert (abs(off) > 2).mean() < 0.1 and abs(off.mean((0, 1))).max() < 0.3


# ---- PNG ---------------------------------------------------------------------------------------

GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}
WHOLE = [(0, 0, 1, 1)]
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
         (0, 1, 1, 2)]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_row(row, depth):
    if depth == 16:
        return row.astype(">u2").tobytes()
    bits = np.unpackbits(row.astype("u1").reshape(-1, 1), axis=1)[:, 8 - depth:]
    return np.packbits(bits.reshape(-1)).tobytes()


def png(colour, depth, interlaced, width=37, height=29, transparent=False):
    """A PNG of random pixels, any kind: Pillow reads all of them but does not write all."""
    rng = np.random.default_rng(colour * 100 + depth)
    pixels = rng.integers(0, 1 << depth, (height, width, CHANNELS[colour]))
    raw = b""
    for x, y, dx, dy in ADAM7 if interlaced else WHOLE:
        raw += b"".join(b"\0" + packed_row(row.reshape(-1), depth) for row in pixels[y::dy, x::dx])
    out = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
    if colour == PALETTE:
        out += chunk(b"PLTE", rng.integers(0, 256, 3 << depth).astype("u1").tobytes())
    if transparent:
        out += chunk(b"tRNS", {GRAY: b"\0\1", RGB: b"\0\1\0\2\0\3", PALETTE: b"\0\x80"}[colour])
    out += chunk(b"tEXt", b"Comment\0no pixels") + chunk(b"gAMA", struct.pack(">I", 45455))
    return (b"\x89PNG\r\n\x1a\n" + out + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""),
            pixels)


KINDS = [(GRAY, 1), (GRAY, 2), (GRAY, 4), (GRAY, 8), (RGB, 8), (RGB, 16), (PALETTE, 1),
         (PALETTE, 2), (PALETTE, 4), (PALETTE, 8), (GRAY_ALPHA, 8), (GRAY_ALPHA, 16), (RGBA, 8),
         (RGBA, 16)]


@pytest.mark.parametrize("interlaced", [0, 1])
def test_png_pixels(tmp_path, interlaced):
    # A user would lose the images of one kind of PNG, or see other colours.
    for colour, depth in KINDS:
        for transparent in {False, colour in (GRAY, RGB, PALETTE)}:
            path = tmp_path / f"{colour}-{depth}-{transparent}.png"
            path.write_bytes(png(colour, depth, interlaced, transparent=transparent)[0])
            want = reference(path)
            assert np.array_equal(decode(path).pixels, np.asarray(want)), path.name
            f = decode(path, "image:20x16,crop=random,flip", 5)
            want = np.asarray(want.crop(f.box).resize((20, 16), BILINEAR))
            assert np.array_equal(f.pixels, want[:, ::-1] if f.flip else want), path.name


@pytest.mark.parametrize("interlaced", [0, 1])
@pytest.mark.parametrize("transparent", [False, True])
def test_png_gray16(tmp_path, interlaced, transparent):
    # A user would see white only: 16-bit gray is scaled to 8 bits as Pillow does with 16-bit
    # colours, where its convert() clips.
    data, pixels = png(GRAY, 16, interlaced, transparent=transparent)
    path = tmp_path / "a.png"
    path.write_bytes(data)
    want = (pixels >> 8).astype("u1")
    with Image.open(path) as image:
        assert np.array_equal(np.asarray(image)[..., None] >> 8, want)
    assert np.array_equal(decode(path, "image:gray").pixels, want)
    assert np.array_equal(decode(path).pixels, np.repeat(want, 3, 2))
    for mode, text in {"RGB": "image:20x16,crop=random", "L": "image:20x16,crop=random,gray"}.items():
        f = decode(path, text, 5)
        whole = Image.fromarray(want[..., 0]).convert(mode)
        small = np.asarray(whole.crop(f.box).resize((20, 16), BILINEAR))
        assert np.array_equal(f.pixels.squeeze(), small)


def test_png_gray_of_colour(tmp_path):
    # A user would see other gray values than convert("L") gives.
    for colour, depth in [(RGB, 8), (RGB, 16), (RGBA, 8), (RGBA, 16), (PALETTE, 8), (GRAY, 1),
                          (GRAY, 4), (GRAY_ALPHA, 8), (GRAY_ALPHA, 16)]:
        path = tmp_path / f"{colour}-{depth}.png"
        path.write_bytes(png(colour, depth, 0)[0])
        want = np.asarray(reference(path).convert("L"))
        assert np.array_equal(decode(path, "image:gray").pixels[..., 0], want), path.name


# ---- what is wrong with them -------------------------------------------------------------------

def test_truncated_like_pillow(tmp_path):
    # A user would train on half-gray images: what Pillow calls truncated is an error here, too.
    whole = file_of(tmp_path / "a.jpg", scene(90, 60)).read_bytes()
    path = tmp_path / "b.jpg"
    for cut in [1, 2, 3, 100, len(whole) // 2, len(whole) - 30]:
        path.write_bytes(whole[:-cut])
        for text in ["image", "image:16,crop=random,scale=0.1-0.2"]:
            assert "-3 JPEG" in decode(path, text, 3, rc=1).err
    path.write_bytes(whole[:-2] + b"abc" + whole[-2:] + b"after the end")
    assert np.array_equal(decode(path).pixels, np.asarray(reference(path)))


def test_not_an_image(tmp_path):
    # A user would not learn that a GIF stands among the JPEGs.
    path = file_of(tmp_path / "a.gif", scene(20, 20).convert("P"))
    assert "a GIF image: only JPEG and PNG are decoded" in decode(path, "image:8", rc=1).err


def test_exif_orientation_is_left(tmp_path):
    # A user would see other pixels than Pillow and torchvision give: neither turns images unasked.
    exif = Image.Exif()
    exif[0x0112] = 6
    path = file_of(tmp_path / "a.jpg", scene(60, 40), exif=exif)
    assert decode(path).pixels.shape == (40, 60, 3)
    assert np.array_equal(decode(path).pixels, np.asarray(reference(path)))
