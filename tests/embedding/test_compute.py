"""Embedding of a source: the values of a plain loop, views, unreadable images, and what the cache is keyed by."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.helpers.backbones import SIZE, WIDTH, TinyNet, noise_images, tiny_backbone

import jnpl
from jnpl.data.opening import open_source
from jnpl.data.source import BackboneRecord, InMemory, Source, Texts, UnreadableError
from jnpl.data.sources.images import ImageBytes, ImageFiles
from jnpl.embedding.backbones import TextBackbone, load_backbone
from jnpl.embedding.compute import EmbeddingOptions, batch_size, cache_key, embed_images, embed_source, identity
from jnpl.internal.errors import InputError


@pytest.fixture(autouse=True)
def _count_from_zero(monkeypatch):
    monkeypatch.setattr(TinyNet, "calls", 0)


def embeddings(source, backbone=None, **options):
    return embed_source(source, backbone or tiny_backbone(), EmbeddingOptions(**options)).inputs.values


def plain_loop(pixels, backbone):
    """One image at a time through the network as it is, batch norm and all, pixels standardised in float64."""
    rows = []
    for image in pixels:
        inputs = torch.from_numpy((image / 255 - backbone.mean) / backbone.std).permute(2, 0, 1)[None].float()
        with torch.no_grad():
            rows.append(backbone.network(inputs)[0].numpy())
    return np.stack(rows)


def photos(folder, count=20):
    """An image folder of two classes, `count` files of noise with different means."""
    random = np.random.default_rng(0)
    for at in range(count):
        label = at % 2
        pixels = random.integers(100 * label, 150 + 100 * label, (16, 16, 3)).astype(np.uint8)
        path = folder / ("cat", "dog")[label] / f"{at:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return folder


def test_values_are_those_of_a_plain_loop_in_float16():
    source, backbone = noise_images(150), tiny_backbone()
    values = embeddings(source, backbone, views=1)
    assert (values.dtype, values.shape) == (np.float16, (150, 1, WIDTH))
    np.testing.assert_allclose(values[:, 0], plain_loop(source.inputs.values, backbone), rtol=2e-3, atol=2e-4)


def test_efficientnet_gives_what_its_network_gives():
    backbone, random = load_backbone("efficientnet-lite0", "image", size=32), np.random.default_rng(0)
    pixels = random.integers(0, 256, (5, 32, 32, 3), np.uint8)
    source = Source("noise", InMemory(pixels), np.arange(5) % 2, (0, 1), np.arange(5))
    values, loop = embeddings(source, backbone, views=1)[:, 0], plain_loop(pixels, backbone)
    np.testing.assert_allclose(values, loop, rtol=5e-3, atol=5e-3 * np.abs(loop).max())


@pytest.mark.parametrize("channels", [1, 3])
def test_arrays_of_another_size_are_resized_and_grey_becomes_rgb(channels):
    random, backbone = np.random.default_rng(0), tiny_backbone()
    pixels = random.integers(0, 256, (10, 20, 20, channels), np.uint8)
    source = Source("large", InMemory(pixels), np.arange(10) % 2, (0, 1), np.arange(10))
    resized = [
        np.asarray(Image.fromarray(image.squeeze()).convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR))
        for image in pixels
    ]
    values = embeddings(source, backbone, views=1)[:, 0]
    np.testing.assert_allclose(values, plain_loop(np.stack(resized), backbone), rtol=2e-3, atol=2e-4)


def test_views_are_the_image_its_mirror_image_and_crops():
    source, backbone = noise_images(70), tiny_backbone()
    values = embeddings(source, backbone, views=5)
    assert values.shape == (70, 5, WIDTH)
    mirrored = replace(source, inputs=InMemory(np.ascontiguousarray(source.inputs.values[:, :, ::-1])))
    np.testing.assert_array_equal(values[:, 0], embeddings(source, backbone, views=1)[:, 0])
    np.testing.assert_array_equal(values[:, 1], embeddings(mirrored, backbone, views=1)[:, 0])
    for crop in range(2, 5):
        assert np.abs(values[:, crop].astype(float) - values[:, 0]).max() > 1e-3
        np.testing.assert_allclose(values[:, crop], values[:, 0], atol=0.5)  # yet most of the same image


def test_crops_depend_on_the_position_alone():
    """Not on the other images, on who computes them, nor on how often."""
    source, backbone = noise_images(200), tiny_backbone()
    values = embeddings(source, backbone, views=4)
    np.testing.assert_array_equal(embeddings(source, backbone, views=4, workers=2), values)
    other = np.zeros_like(source.inputs.values)
    other[130] = source.inputs.values[130]
    alone = embeddings(replace(source, inputs=InMemory(other)), backbone, views=4)
    np.testing.assert_allclose(alone[130], values[130], rtol=2e-3, atol=1e-4)
    image = torch.from_numpy(source.inputs.values[130:131])
    elsewhere = embed_images(backbone.inference_network, backbone, image, 4, [131]).numpy()[0]
    assert np.abs(elsewhere[2:] - values[130, 2:]).max() > 1e-3


def test_test_and_validation_data_are_embedded_too():
    source = replace(noise_images(30), test=noise_images(20), validation=noise_images(10))
    embedded = embed_source(source, tiny_backbone())
    assert embedded.test.inputs.values.shape == (20, 2, WIDTH)
    np.testing.assert_array_equal(embedded.validation.inputs.values, embedded.inputs.values[:10])


def test_pictures_and_facts_stay_beside_the_vectors():
    source, backbone = noise_images(30), tiny_backbone()
    embedded = embed_source(source, backbone)
    assert embedded.pictures is source.inputs
    assert isinstance(embedded.backbone, BackboneRecord)
    facts = {"name": "tiny", "takes": "image", "digest": backbone.digest, "size": SIZE, "views": 2}
    assert embedded.backbone.facts == facts
    assert embedded.kind == "vector"


def test_unreadable_images_are_reported_zeros_left_out_and_kept_in_the_findings(tmp_path):
    folder = photos(tmp_path / "photos", 40)
    (folder / "cat" / "04.png").write_bytes(b"not an image")
    (folder / "dog" / "07.png").write_bytes(b"")
    source = open_source(folder)
    cache = tmp_path / "cache"
    for _ in range(2):  # computed, then cached
        embedded = embed_source(source, tiny_backbone(), EmbeddingOptions(cache=cache))
        at = {str(source.ids[position]): position for position in embedded.unreadable}
        assert sorted(at) == ["cat/04.png", "dog/07.png"]
        assert embedded.unreadable[at["dog/07.png"]] == "empty file"
        values = embedded.inputs.values
        assert (values[list(at.values())] == 0).all()
        assert (np.abs(np.delete(values, list(at.values()), 0)).max((1, 2)) > 0).all()
    found = jnpl.find_label_issues(jnpl.Embeddings(embedded), settings=["train.epochs=3", "stages.refine.epochs=1"])
    assert len(found.table) == 40
    quality = found.table.set_index("id")["label_quality"]
    assert sorted(quality.index[quality.isna()]) == ["cat/04.png", "dog/07.png"]
    saved = tmp_path / "vectors.npz"
    jnpl.Embeddings(embedded).save(saved)
    assert np.load(saved)["x"].shape == (38, WIDTH)


def test_an_image_that_can_be_read_again_is_embedded(tmp_path, monkeypatch):
    source = open_source(photos(tmp_path / "photos", 8))
    options, whole = EmbeddingOptions(cache=tmp_path / "cache"), embeddings(source)
    read = ImageFiles.read

    def denied(files, position, size=None):
        if position in (2, 5):
            raise UnreadableError("Permission denied")
        return read(files, position, size)

    monkeypatch.setattr(ImageFiles, "read", denied)
    assert sorted(embed_source(source, tiny_backbone(), options).unreadable) == [2, 5]
    monkeypatch.setattr(ImageFiles, "read", lambda *given: denied(*given) if given[1] == 5 else read(*given))
    for _ in range(2):  # computed, then cached
        embedded = embed_source(source, tiny_backbone(), options)
        assert embedded.unreadable == {5: "Permission denied"}
        np.testing.assert_allclose(embedded.inputs.values[2], whole[2], rtol=2e-3, atol=1e-4)


def test_an_unreadable_image_does_not_change_the_others(tmp_path):
    folder = photos(tmp_path / "photos")
    whole = embeddings(open_source(folder))
    (folder / "cat" / "04.png").write_bytes(b"not an image")
    part = embeddings(open_source(folder))
    place = [str(name) for name in open_source(folder).ids].index("cat/04.png")
    np.testing.assert_allclose(np.delete(part, place, 0), np.delete(whole, place, 0), rtol=2e-3, atol=1e-4)


def test_nothing_readable_is_an_error(tmp_path):
    folder = photos(tmp_path / "photos", 4)
    for path in folder.rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(InputError, match=r"none of the 4 samples of .* can be read: empty file"):
        embed_source(open_source(folder), tiny_backbone())


def test_wrong_kinds_views_and_values_are_refused():
    with pytest.raises(InputError, match="views must be at least 1, got 0"):
        embeddings(noise_images(10), views=0)
    texts = TextBackbone("words", lambda some: np.ones((len(some), 2), np.float32), 2, "digest")
    with pytest.raises(InputError, match="the backbone words takes texts, but noise holds images"):
        embeddings(noise_images(10), texts)
    backbone = tiny_backbone()
    backbone.network.features[0].bias.data[0] = np.nan
    with pytest.raises(InputError, match="the backbone tiny gave embeddings that are not finite"):
        embeddings(noise_images(10), backbone)


def test_values_beyond_float16_are_clipped():
    def encode(some):
        return np.array([[float(text)] for text in some], np.float32)

    texts = np.array(["1e6", "-1e6", "0.5", "7"], object)
    source = Source("texts", Texts(texts), np.arange(4) % 2, (0, 1), np.arange(4), unreadable={3: "empty"})
    notes: list[str] = []
    values = embeddings(source, TextBackbone("numbers", encode, 1, "digest"), note=notes.append)
    assert values[:, 0, 0].tolist() == [65504, -65504, 0.5, 0]
    assert notes == ["texts: numbers of numbers beyond 65,504 (float16) are cut to it"]


def test_progress_is_shown_within_a_block():
    steps: list[tuple[int, int]] = []
    embeddings(noise_images(150), progress=lambda *done: steps.append(done))
    assert steps == [(0, 150), (64, 150), (128, 150), (150, 150)]  # batches of 64 in one block of 512


@pytest.mark.parametrize(("size", "images"), [(32, 64), (128, 16), (224, 16), (448, 4)])
def test_batches_on_a_cpu_have_at_least_16_images_up_to_224_pixels(size, images):
    assert batch_size(size, torch.device("cpu")) == images
    assert batch_size(size, torch.device("cuda")) == 64


def test_the_key_changes_with_a_file_among_images_in_memory(tmp_path):
    paths = np.array(["a.png", None], object)
    photo = photos(tmp_path / "photos") / "cat" / "00.png"
    content = photo.read_bytes()
    (tmp_path / "a.png").write_bytes(content)

    def key():
        images = ImageBytes(np.array([None, content], object), paths, root=tmp_path)
        return key_of(Source("mixed", images, np.arange(2), (0, 1), np.arange(2)))

    before = key()
    assert key() == before
    found = (tmp_path / "a.png").stat()
    os.utime(tmp_path / "a.png", ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    assert key() != before


def test_the_second_call_computes_nothing(tmp_path):
    source, notes, steps = noise_images(150), [], []
    first = embeddings(source, cache=tmp_path)
    calls = TinyNet.calls
    assert calls == 6  # three batches, two views
    second = embeddings(source, cache=tmp_path, note=notes.append, progress=lambda *done: steps.append(done))
    assert TinyNet.calls == calls
    assert notes == ["noise: embeddings are cached, nothing to compute"]
    assert steps == []
    np.testing.assert_array_equal(first, second)
    assert isinstance(second, np.memmap)


def test_the_number_of_threads_changes_nothing(tmp_path):
    source = noise_images(150)
    one = embeddings(source, cache=tmp_path / "one")
    torch.set_num_threads(2)
    two = embeddings(source, cache=tmp_path / "two")
    assert torch.get_num_threads() == 2
    np.testing.assert_array_equal(one, two)


def key_of(source, backbone=None, views=2):
    backbone = backbone or tiny_backbone()
    return cache_key(source, backbone, identity(source, backbone, views))


def test_the_key_changes_with_weights_size_views_and_pixels_but_not_with_labels():
    source = noise_images(20)
    pixels = source.inputs.values.copy()
    pixels[19, 3, 3, 1] ^= 1
    keys = [
        key_of(source),
        key_of(source, tiny_backbone(seed=1)),
        key_of(source, tiny_backbone(size=16)),
        key_of(source, views=3),
        key_of(source, replace(tiny_backbone(), code="a changed network")),
        key_of(replace(source, inputs=InMemory(pixels))),
        key_of(replace(source, unreadable={3: "broken"})),
    ]
    assert len(set(keys)) == len(keys)
    other = replace(source, labels=(source.labels + 1) % 3, true_labels=source.labels, name="other")
    assert key_of(other) == keys[0]
    assert key_of(noise_images(20), tiny_backbone()) == keys[0]  # the same again


def test_the_key_changes_with_a_file_of_the_same_size(tmp_path):
    folder = photos(tmp_path / "photos")
    before = key_of(open_source(folder))
    assert key_of(open_source(folder)) == before
    path = folder / "cat" / "04.png"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    found = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    assert path.stat().st_size == found.st_size
    assert key_of(open_source(folder)) != before


def test_labels_of_a_cached_data_set_may_change(tmp_path):
    source = noise_images(100)
    embeddings(source, cache=tmp_path)
    calls = TinyNet.calls
    embeddings(replace(source, labels=(source.labels + 1) % 3), cache=tmp_path)
    assert TinyNet.calls == calls


@pytest.mark.parametrize("kind", ["images", "texts"])
def test_only_new_samples_are_embedded(tmp_path, kind, monkeypatch):
    """Two samples are left out and three come in: three are embedded, in any order and, of files, in another folder."""
    seen, notes = [], []
    if kind == "images":
        whole, backbone = open_source(photos(tmp_path / "photos", 24)), tiny_backbone()
        read = ImageFiles.read
        monkeypatch.setattr(ImageFiles, "read", lambda self, at, *size: seen.append(at) or read(self, at, *size))
    else:
        texts = np.array([f"text {at}" for at in range(24)], object)
        whole = Source("texts", Texts(texts), np.arange(24) % 2, ("a", "b"), np.arange(24))

        def encode(few):
            seen.extend(few)
            return np.array([[float(text.split()[1]), 1.0] for text in few], np.float32)

        backbone = TextBackbone("counts", encode, 2, "d" * 64)
    before = jnpl.data.split.part(whole, np.arange(21))
    after = jnpl.data.split.part(whole, np.array([23, 22, *range(19), 21]))
    embeddings(before, backbone, cache=tmp_path / "cache")
    assert len(seen) == 21
    if kind == "images":
        moved = open_source(shutil.copytree(tmp_path / "photos", tmp_path / "copy", copy_function=shutil.copyfile))
        after = replace(after, inputs=jnpl.data.split.part(moved, np.array([23, 22, *range(19), 21])).inputs)
    seen.clear()
    values = embeddings(after, backbone, cache=tmp_path / "cache", note=notes.append)
    assert len(seen) == 3
    assert notes == [f"{after.name}: 19 of 22 embeddings are taken from earlier runs"]
    np.testing.assert_array_equal(values, embeddings(after, backbone))
