"""Image files of every kind a data owner has, and of every kind that is broken."""

import io
import os
import pickle
import struct
import warnings
import zlib

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image, features
from tests.data.sources.test_sample_columns import png

from jnpl.analysis.problems import problems
from jnpl.data.source import Source, UnreadableError
from jnpl.data.sources.images import MAX_PIXELS, ImageBytes, ImageFiles, decode, extensions, pixels
from jnpl.data.split import part

RED = (250, 10, 20)


def gradient(height=24, width=32):
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 255 // (width - 1), y * 255 // (height - 1), np.full_like(x, 90)], 2).astype(np.uint8)


def png_header(width, height):
    """A PNG that says how large it is and holds next to nothing."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def read_one(path, size=None):
    return ImageFiles([path]).read(0, size)


def reason(path, size=None):
    with pytest.raises(UnreadableError) as caught:
        read_one(path, size)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 200
    return text


@pytest.mark.parametrize("ending", ["png", "bmp", "ppm", "tiff"])
def test_lossless_formats_come_back_as_they_were(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    Image.fromarray(gradient()).save(path)
    found = read_one(path)
    assert found.dtype == np.uint8
    assert found.flags.writeable
    np.testing.assert_array_equal(found, gradient())


@pytest.mark.parametrize("ending", ["jpg", "webp", "gif"])
def test_lossy_formats_come_back_nearly(tmp_path, ending):
    if ending == "webp" and not features.check("webp"):
        pytest.skip("this Pillow has no WebP")
    path = tmp_path / f"a.{ending}"
    Image.new("RGB", (20, 10), RED).save(path)
    found = read_one(path)
    assert found.shape == (10, 20, 3)
    assert np.abs(found.astype(int) - RED).max() < 12


def test_grey_palette_and_black_and_white(tmp_path):
    picture = Image.new("RGB", (8, 8), RED)
    picture.quantize(4).save(tmp_path / "palette.png")
    picture.convert("L").save(tmp_path / "grey.png")
    picture.convert("1").save(tmp_path / "one.png")
    assert (read_one(tmp_path / "palette.png") == RED).all()
    for name in ("grey.png", "one.png"):
        found = read_one(tmp_path / name)
        assert found.shape == (8, 8, 3)
        assert (found == found[..., :1]).all()


def test_cmyk_jpeg(tmp_path):
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=95)
    for size in (None, 8):
        found = read_one(tmp_path / "a.jpg", size)
        assert found[..., 0].min() > 230
        assert found[..., 1:].max() < 25


def test_sixteen_bits_lose_their_lower_half(tmp_path):
    values = np.array([[0, 255, 256], [32768, 40000, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    Image.fromarray(values).save(tmp_path / "a.tiff")
    for name in ("a.png", "a.tiff"):
        np.testing.assert_array_equal(read_one(tmp_path / name), np.repeat((values >> 8)[..., None], 3, 2))


def test_floats_and_long_integers_are_spread_over_their_range(tmp_path):
    Image.fromarray(np.array([[-1.0, 0.0, 1.0]], np.float32)).save(tmp_path / "f.tiff")
    Image.fromarray(np.array([[0, 500_000, 1_000_000]], np.int32)).save(tmp_path / "i.tiff")
    Image.fromarray(np.full((2, 2), 7.5, np.float32)).save(tmp_path / "flat.tiff")
    Image.fromarray(np.array([[0.0, np.nan]], np.float32)).save(tmp_path / "nan.tiff")
    assert read_one(tmp_path / "f.tiff")[0, :, 0].tolist() == [0, 128, 255]
    assert read_one(tmp_path / "i.tiff")[0, :, 0].tolist() == [0, 128, 255]
    assert (read_one(tmp_path / "flat.tiff") == 0).all()
    assert "not finite" in reason(tmp_path / "nan.tiff")


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB", "L"])
def test_what_is_transparent_is_white(tmp_path, mode):
    path = tmp_path / "a.png"
    if mode == "P":
        picture = Image.new("P", (4, 4), 0)
        picture.putpalette([*RED, 0, 0, 0])
        picture.save(path, transparency=b"\x00\xff")
    elif mode in ("RGB", "L"):  # one colour is declared transparent
        picture = Image.new(mode, (4, 4), RED if mode == "RGB" else 9)
        picture.save(path, transparency=RED if mode == "RGB" else 9)
    else:
        Image.new(mode, (4, 4), (*RED, 0) if mode == "RGBA" else (9, 0)).save(path)
    assert (read_one(path) == 255).all()


def test_half_transparent_is_blended(tmp_path):
    Image.new("RGBA", (2, 2), (0, 0, 0, 128)).save(tmp_path / "a.png")
    assert np.abs(read_one(tmp_path / "a.png").astype(int) - 127).max() <= 1


def test_an_animation_gives_its_first_frame(tmp_path):
    frames = [Image.new("RGB", (6, 6), colour) for colour in (RED, (0, 0, 255))]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    frames[0].save(tmp_path / "a.tiff", save_all=True, append_images=frames[1:])
    for name in ("a.gif", "a.tiff"):
        found = read_one(tmp_path / name)
        assert found.shape == (6, 6, 3)
        assert found[0, 0, 0] > 200


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png"])
def test_exif_orientation(tmp_path, orientation, ending):
    from PIL import ImageOps

    picture = Image.fromarray(gradient(32, 48))
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"a.{ending}"
    picture.save(path, exif=exif, **({"quality": 95} if ending == "jpg" else {}))
    with Image.open(path) as stored:
        expected = np.asarray(ImageOps.exif_transpose(stored).convert("RGB"))
    np.testing.assert_array_equal(read_one(path), expected)
    assert expected.shape == ((32, 48, 3) if orientation < 5 else (48, 32, 3))


def test_broken_exif_does_not_cost_the_picture(tmp_path):
    path = tmp_path / "a.jpg"
    Image.new("RGB", (8, 8), RED).save(path, exif=b"Exif\0\0II*\0\xff\xff\xff\xff garbage")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert read_one(path).shape == (8, 8, 3)


@pytest.mark.parametrize("ending", ["jpg", "png"])
@pytest.mark.parametrize("shape", [(300, 500), (20, 30), (64, 64), (3, 900)])
def test_resized_as_asked(tmp_path, ending, shape):
    path = tmp_path / f"a.{ending}"
    Image.fromarray(gradient(*shape)).save(path, **({"quality": 95, "subsampling": 0} if ending == "jpg" else {}))
    found = read_one(path, 64)
    assert found.shape == (64, 64, 3)
    expected = Image.fromarray(gradient(*shape)).resize((64, 64), Image.Resampling.BILINEAR)
    assert np.abs(found.astype(int) - np.asarray(expected)).mean() < 4


def test_a_large_jpeg_is_drafted(tmp_path, monkeypatch):
    path = tmp_path / "a.jpg"
    Image.fromarray(gradient(800, 1200)).save(path)
    seen = []
    original = Image.Image.resize

    def resize(self, *args, **kwargs):
        seen.append(self.size)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Image.Image, "resize", resize)
    read_one(path, 64)
    assert max(seen[0]) < 300  # an eighth


def test_broken_files_say_why(tmp_path):
    good = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(good, "JPEG")
    files = {
        "truncated.jpg": good.getvalue()[:1500],
        "empty.jpg": b"",
        "text.jpg": b"this is not an image at all",
        "web.jpg": b"<!DOCTYPE html><html><body>404</body></html>",
        "magic.png": b"\x89PNG\r\n\x1a\n" + b"\xff" * 50,
        "short.gif": b"GIF89a\x10\x00",
        "program.jpg": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n",
    }
    for name, body in files.items():
        (tmp_path / name).write_bytes(body)
    assert reason(tmp_path / "truncated.jpg") == "truncated image"
    assert reason(tmp_path / "truncated.jpg", 8) == "truncated image"
    assert reason(tmp_path / "empty.jpg") == "empty file"
    for name in ("text.jpg", "web.jpg", "program.jpg"):
        assert reason(tmp_path / name) == "not an image that Pillow can open"
    for name in ("magic.png", "short.gif"):
        assert reason(tmp_path / name)
    assert reason(tmp_path / "missing.jpg") == "no such file"
    assert reason(tmp_path) == "not a file"
    assert reason("a\0b.jpg")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_is_not_waited_on(tmp_path):
    os.mkfifo(tmp_path / "a.jpg")
    assert reason(tmp_path / "a.jpg") == "not a file"
    with pytest.raises(UnreadableError, match="not a file"):
        ImageFiles(["a.jpg"], tmp_path).side(0)


@pytest.mark.parametrize("side", [9_500, 20_000])  # Pillow warns of the first and refuses the second
@pytest.mark.parametrize("action", ["error", "ignore"])
def test_bombs_are_refused_whatever_the_warnings_do(tmp_path, side, action):
    assert side**2 > MAX_PIXELS
    (tmp_path / "a.png").write_bytes(png_header(side, side))
    limit = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        before = list(warnings.filters)
        assert reason(tmp_path / "a.png").startswith("too large")
        assert warnings.filters == before
    assert limit == Image.MAX_IMAGE_PIXELS


def test_bombs_are_refused_where_pillow_has_no_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    (tmp_path / "a.png").write_bytes(png_header(60_000, 60_000))
    assert reason(tmp_path / "a.png") == "too large: 60000 x 60000 pixels"


def test_any_damage_is_either_read_or_refused(tmp_path):
    rng = np.random.default_rng(3)
    path = tmp_path / "a"
    kinds = ["PNG", "JPEG", "GIF", "TIFF", "BMP"] + (["WEBP"] if features.check("webp") else [])
    for kind in kinds:
        whole = io.BytesIO()
        Image.fromarray(gradient(16, 16)).save(whole, kind)
        for _ in range(25):
            body = bytearray(whole.getvalue())
            for spot in rng.integers(0, len(body), 4):
                body[spot] = rng.integers(256)
            path.write_bytes(body[: rng.integers(1, len(body) + 1)])
            try:
                assert read_one(path, 8).shape == (8, 8, 3)
            except UnreadableError as error:
                assert str(error)  # noqa: PT017 - either outcome is right


def test_paths_count_from_the_root_and_survive_pickling(tmp_path):
    names = ["ä/猫 1.png", "ö.png", str(tmp_path / "absolute.png")]
    (tmp_path / "ä").mkdir()
    for number, name in enumerate(names):
        Image.new("L", (2, 2), number * 50).save(tmp_path / name)
    files = pickle.loads(pickle.dumps(ImageFiles(names, tmp_path)))
    assert len(files) == 3
    assert files.kind == "image"
    assert [int(files.read(position)[0, 0, 0]) for position in range(3)] == [0, 50, 100]
    assert files.path(0) == tmp_path / "ä" / "猫 1.png"
    assert files.path(-1) == tmp_path / "absolute.png"
    with pytest.raises(IndexError):
        files.read(3)


def test_the_root_is_fixed_when_the_files_are_named(tmp_path, monkeypatch):
    Image.new("L", (2, 2)).save(tmp_path / "a.png")
    monkeypatch.chdir(tmp_path)
    files = ImageFiles(["a.png"])
    monkeypatch.chdir(tmp_path.parent)
    assert files.read(0).shape == (2, 2, 3)


def test_sizes_are_bytes_on_disk_and_zero_for_what_is_not_there(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert ImageFiles(["a", "none", "a"], tmp_path).sizes().tolist() == [5, 0, 5]
    assert ImageFiles([], tmp_path).sizes().shape == (0,)


def test_many_paths_are_kept_in_few_bytes():
    files = ImageFiles([f"class/{number:07d}.jpg" for number in range(20_000)])
    assert len(pickle.dumps(files)) < 20_000 * 26


def test_decode_reads_open_files_and_pixels_reads_pictures():
    stored = io.BytesIO()
    Image.fromarray(gradient()).save(stored, "PNG")
    stored.seek(0)
    np.testing.assert_array_equal(decode(stored), gradient())
    assert pixels(Image.new("HSV", (4, 3)), 5).shape == (5, 5, 3)


def test_extensions():
    known = extensions()
    assert {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".mpo"} <= known
    assert not {".pdf", ".eps", ".h5", ".mpg", ".db", ""} & known


def test_the_shorter_side_is_read_without_decoding(tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])  # the header is there, the pixels are not
    (tmp_path / "text.png").write_bytes(b"text")
    files = ImageFiles(["a.png", "cut.png", "text.png"], tmp_path)
    assert (files.side(0), files.side(1)) == (30, 30)
    with pytest.raises(UnreadableError):
        files.side(2)


NO_PATHS = np.full(4, None, object)


def contents(kind):
    values = [png(0), png(50), None, b"broken"]
    return pa.chunked_array([values[:1], values[1:]], pa.binary()) if kind == "arrow" else np.array(values, object)


@pytest.mark.parametrize("kind", ["arrow", "objects"])
def test_images_are_decoded_one_at_a_time(kind):
    images = ImageBytes(contents(kind), NO_PATHS)
    assert (images.kind, len(images)) == ("image", 4)
    assert images.read(1).tolist() == np.full((4, 6, 3), 50).tolist()
    assert images.read(0, 5).shape == (5, 5, 3)
    assert images.sizes().tolist() == [len(png(0)), len(png(50)), 0, 6]
    with pytest.raises(UnreadableError, match="no image"):
        images.read(2)
    with pytest.raises(UnreadableError, match="not an image that Pillow can open"):
        images.read(3)
    assert pickle.loads(pickle.dumps(images)).read(1)[0, 0, 0] == 50


def test_a_part_shares_the_bytes():
    images = ImageBytes(contents("arrow"), NO_PATHS)
    chosen = images.select(np.array([3, 1])).select(np.array([1]))
    assert chosen.read(0)[0, 0, 0] == 50
    assert chosen._contents is images._contents


def test_the_digest_follows_the_content():
    first, other = png(0), bytearray(png(0))
    other[-20] ^= 1  # of the same size
    made = [ImageBytes(np.array([each], object), NO_PATHS[:1]) for each in (first, bytes(other))]
    assert made[0].sizes().tolist() == made[1].sizes().tolist()
    assert made[0].digest() != made[1].digest()
    assert ImageBytes(contents("arrow"), NO_PATHS).digest() == ImageBytes(contents("objects"), NO_PATHS).digest()


def test_a_file_where_there_are_no_bytes(tmp_path):
    (tmp_path / "a.png").write_bytes(png(7))
    images = ImageBytes(np.array([None, png(9)], object), np.array(["a.png", None], object), root=tmp_path)
    assert [images.read(at)[0, 0, 0] for at in range(2)] == [7, 9]


def test_files_where_there_are_no_bytes_are_no_duplicates_of_each_other(tmp_path):
    inputs = ImageBytes(
        np.array([None, png(9), None], object), np.array(["a.png", None, "b.png"], object), None, tmp_path
    )
    assert problems(Source("toy", inputs, np.array([0, 1, 1]), ("a", "b"), np.arange(3))).duplicates == []


def test_duplicates_and_parts_of_a_source():
    values = np.array([png(1), png(2), png(1)], object)
    inputs = ImageBytes(values, NO_PATHS[:3])
    source = Source("toy", inputs, np.array([0, 1, 1]), ("a", "b"), np.arange(3))
    found = problems(source)
    assert found.compared
    assert [group.ids for group in found.duplicates] == [[0, 2]]
    assert isinstance(part(source, np.array([2, 0])).inputs, ImageBytes)
    changed = Source("toy", inputs.select(np.array([0, 1, 1])), source.labels, ("a", "b"), np.arange(3))
    assert changed.fingerprint() != source.fingerprint()


def test_sizes_and_times_are_those_of_files_where_there_are_no_bytes(tmp_path):
    (tmp_path / "a.png").write_bytes(png(7))
    paths = np.array(["a.png", None, None], object)
    images = ImageBytes(np.array([None, png(9), None], object), paths, root=tmp_path)
    assert images.sizes().tolist() == [len(png(7)), len(png(9)), 0]
    assert images.modified_times().tolist() == [(tmp_path / "a.png").stat().st_mtime_ns, 0, 0]
