"""Backbones of the library transformers, by their name on the Hugging Face hub or their folder (extra `hf`).

Texts are pooled and normalised as the model's sentence-transformers files say. Images are resized and normalised as the
model's image processor does. Code that comes with a model is never run.

The library sentence-transformers is not used: its import takes 3.0 s of CPU time, that of transformers 0.6 s (6.2 and
5.23), and what is most of the code here would stay: to look in the local cache first, to refuse what the files do not
say, and a digest of weights, vocabulary and settings, by which cached embeddings are found.
"""

import hashlib
import inspect
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from jnpl.embedding.backbones import (
    ImageBackbone,
    TextBackbone,
    checked_image_backbone,
    require_kind,
    update_with_weights,
)
from jnpl.internal.devices import checked_device
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.importing import require
from jnpl.internal.json_files import read_json

PREFIX = "hf:"
TEXT_BATCH = 32  # texts per pass
TOKENIZED_TEXTS = 4_096  # texts that are sorted by length together
LONGEST = 512  # tokens, where neither the tokenizer nor the network has a limit
_MODES = ("cls_token", "max_tokens", "mean_tokens")  # in the order in which sentence-transformers concatenates them
_MODE_NAMES = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}  # as newer files write them
_Loaded = TypeVar("_Loaded")


class _Place(NamedTuple):
    """Where a model is, as `from_pretrained` takes it."""

    name: str  # as the user gives it, with hf:
    where: str  # a name on the hub or a folder
    local_only: bool

    @property
    def options(self) -> dict[str, Any]:
        return {"local_files_only": self.local_only, "trust_remote_code": False}


# ---------------------------------------------------------------------------------------------------------------- texts


@dataclass(frozen=True)
class TextSettings:
    """How texts become embeddings, from the files of sentence-transformers beside a model."""

    # one or more of "cls_token", "max_tokens" and "mean_tokens"; several are concatenated
    pooling: tuple[str, ...] = ("mean_tokens",)
    normalize: bool = False  # whether embeddings have length 1
    max_tokens: int | None = None  # longer texts are cut; None: what tokenizer and network allow
    lower_case: bool = False  # whether texts are put into lower case first
    prompt: str = ""  # text that is put before each text
    subfolder: str = ""  # of the network, inside the model's folder


def load_hf_texts(name: str, *, device: str = "auto") -> TextBackbone:
    """Return an encoder of texts.

    Tokens are pooled as `modules.json` and `1_Pooling/config.json` say, and the embeddings have length 1 if there is a
    Normalize module. Without these files it is the mean over tokens, not normalised.

    Args:
        name: "hf:NAME" of the hub, or "hf:FOLDER".
        device: where the network runs; "auto" is a GPU if there is one.

    Example:
        >>> load_hf_texts("hf:./no-such-folder")
        Traceback (most recent call last):
            ...
        jnpl.internal.errors.InputError: there is no folder './no-such-folder' of the backbone hf:./no-such-folder
    """
    transformers = require("transformers", "hf")
    where = checked_device(device)
    settings, network, tokenizer, digest = _load(transformers, name, _load_texts)
    network.to(where)

    def encode(texts: list[str]) -> npt.NDArray[np.float32]:
        values = np.zeros((len(texts), width), np.float32)
        for start in range(0, len(texts), TOKENIZED_TEXTS):
            part = texts[start : start + TOKENIZED_TEXTS]
            values[start : start + len(part)] = _encode(part, width, settings, network, tokenizer)
        return values

    width = 0
    width = len(_embed_tokens([tokenizer("a").input_ids], settings, network, tokenizer)[0])
    return TextBackbone(name, encode, width, digest)


def _load_texts(transformers: ModuleType, place: _Place) -> tuple[TextSettings, nn.Module, Any, str]:
    settings = _read_text_settings(transformers, place)
    options = {**place.options, "subfolder": settings.subfolder}
    model, missing = _load_model(transformers, place, settings.subfolder)
    config = model.config
    if hasattr(config, "vision_config"):
        raise InputError(
            f"{place.name} is for images and their captions, not for texts alone: name an encoder of texts"
        )
    _require_input(model, "text", place.name)
    network = model.get_encoder() if getattr(config, "is_encoder_decoder", False) else model
    unused = ("pooler.", "decoder.") if network is not model else ("pooler.",)
    _require_weights(missing, unused, place.name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(place.where, **options)
    tokenizer.padding_side = "right"
    limits = [settings.max_tokens, tokenizer.model_max_length, _positions(network, config)]
    finite_limits = [limit for limit in limits if limit is not None and limit < 10**6]
    settings = TextSettings(**{**asdict(settings), "max_tokens": min(finite_limits, default=LONGEST)})
    backend = getattr(tokenizer, "backend_tokenizer", None)
    vocabulary = backend.to_str() if backend is not None else sorted(tokenizer.get_vocab().items())
    digest = hashlib.sha256(json.dumps([asdict(settings), _architecture(config), vocabulary]).encode())
    state = network.state_dict()
    update_with_weights(digest, {key: value for key, value in state.items() if not key.startswith("pooler.")})
    return settings, network, tokenizer, digest.hexdigest()


def _positions(network: nn.Module, config: Any) -> int | None:
    """Return how many tokens the network has positions for.

    RoBERTa and its kin count from the one after that of padding: 514 positions are for 512 tokens.
    """
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if positions is None:
        return None
    for name, module in network.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return positions - int(module.padding_idx) - 1
    return positions


def _encode(
    texts: list[str], width: int, settings: TextSettings, network: nn.Module, tokenizer: Any
) -> npt.NDArray[np.float32]:
    """Encode texts in batches of similar length; the result is in the order of the texts."""
    texts = [settings.prompt + (text.lower() if settings.lower_case else text) for text in texts]
    tokens = tokenizer(texts, truncation=True, max_length=settings.max_tokens).input_ids
    order = sorted((row for row in range(len(texts)) if tokens[row]), key=lambda row: len(tokens[row]), reverse=True)
    values = np.zeros((len(texts), width), np.float32)  # zeros where a text has no token
    for start in range(0, len(order), TEXT_BATCH):
        rows = order[start : start + TEXT_BATCH]
        values[rows] = _embed_tokens([tokens[row] for row in rows], settings, network, tokenizer)
    return values


@torch.inference_mode()
def _embed_tokens(
    tokens: Sequence[list[int]], settings: TextSettings, network: nn.Module, tokenizer: Any
) -> npt.NDArray[np.float32]:
    """Numbers of tokens, one list per text -> embeddings (n, width)."""
    device = next(network.parameters()).device
    longest = max(map(len, tokens))
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    ids = torch.tensor([row + [padding] * (longest - len(row)) for row in tokens], device=device)  # (B, T)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in tokens], device=device)
    hidden: Tensor = network(input_ids=ids, attention_mask=mask).last_hidden_state  # (B, T, F)
    embeddings = torch.cat([_pooled(hidden.float(), mask[:, :, None], mode) for mode in settings.pooling], dim=1)
    if settings.normalize:
        embeddings = nn.functional.normalize(embeddings, dim=1)
    return np.asarray(embeddings.cpu().numpy(), np.float32)


def _pooled(hidden: Tensor, mask: Tensor, mode: str) -> Tensor:
    if mode == "cls_token":
        return hidden[:, 0]
    if mode == "max_tokens":
        return hidden.masked_fill(mask == 0, -torch.inf).amax(1)
    return (hidden * mask).sum(1) / mask.sum(1)


def _read_text_settings(transformers: ModuleType, place: _Place) -> TextSettings:
    """Read the files of sentence-transformers, where there are any."""
    modules = _read_json(transformers, place, "modules.json")
    if modules is None:
        _require_known(place, "modules.json")
        return TextSettings()
    folders = {module["type"].rpartition(".")[2]: module["path"] for module in modules}
    strange = [kind for kind in folders if kind not in ("Transformer", "Pooling", "Normalize")]
    if strange or "Transformer" not in folders or "Pooling" not in folders:
        raise InputError(
            f"{place.name} must be Transformer, Pooling and perhaps Normalize (modules.json), got {', '.join(folders)}"
        )
    subfolder = folders["Transformer"]
    limits = _read_json(transformers, place, f"{subfolder}/sentence_bert_config.json".lstrip("/")) or {}
    prompts = _read_json(transformers, place, "config_sentence_transformers.json") or {}
    pooling = _read_json(transformers, place, f"{folders['Pooling']}/config.json")
    if pooling is None:
        raise InputError(f"{place.name} has no {folders['Pooling']}/config.json, which modules.json names")
    prompt = (prompts.get("prompts") or {}).get(prompts.get("default_prompt_name"), "")
    if prompt and not pooling.get("include_prompt", True):
        raise InputError(f"{place.name} leaves its prompt out of the pooling (include_prompt), which is not supported")
    return TextSettings(
        pooling=_pooling_modes(pooling, place.name),
        normalize="Normalize" in folders,
        max_tokens=limits.get("max_seq_length"),
        lower_case=bool(limits.get("do_lower_case", False)),
        prompt=prompt,
        subfolder=subfolder,
    )


def _require_known(place: _Place, file: str) -> None:
    """Raise an OSError if only the hub can say whether the model has a file; without the hub, it has none."""
    hub = require("huggingface_hub", "hf")
    unsure = place.local_only and not Path(place.where).is_dir() and not hub.constants.HF_HUB_OFFLINE
    if unsure and hub.try_to_load_from_cache(place.where, file) is None:
        raise FileNotFoundError(f"{file} was never asked for")


def _pooling_modes(pooling: dict[str, Any], name: str) -> tuple[str, ...]:
    stated = pooling.get("pooling_mode")  # newer files: a name, or a list of names
    if stated is not None:
        chosen = [_MODE_NAMES.get(mode, mode) for mode in ([stated] if isinstance(stated, str) else stated)]
    else:
        chosen = [
            key.removeprefix("pooling_mode_") for key, on in pooling.items() if key[:13] == "pooling_mode_" and on
        ]
    if not chosen or not set(chosen) <= set(_MODES):
        raise InputError(f"{name} must pool tokens by {', '.join(_MODE_NAMES)}, got {', '.join(chosen) or 'nothing'}")
    return tuple(mode for mode in _MODES if mode in chosen)


def _read_json(transformers: ModuleType, place: _Place, file: str) -> Any:
    """Return what a JSON file of the model says, or None where there is no such file."""
    path = transformers.utils.cached_file(
        *(place.where, file),
        local_files_only=place.local_only,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if path is None else read_json(path)


# --------------------------------------------------------------------------------------------------------------- images


class HFImageNetwork(nn.Module):
    """A vision model of transformers: (B, 3, S, S) -> (B, width).

    The embedding is the model's pooled output: the mean over positions of ResNet and ConvNeXt, the class token of
    DINOv2, that of CLIP before its projection (as in the linear probes of Radford et al. 2021). A ViT has a trained
    pooler in some files only, so its embedding is the class token. A model that pools nothing gives its class token, or
    the mean over positions if it has none.
    """

    def __init__(self, model: nn.Module, settings: dict[str, Any], options: dict[str, bool]) -> None:
        super().__init__()
        if isinstance(getattr(getattr(model, "pooler", None), "dense", None), nn.Linear):
            model.pooler = None  # type: ignore[assignment]
        self.model, self.digest_settings, self.options = model, settings, options
        self.has_class_token = any(key.endswith(("cls_token", "class_embedding")) for key in model.state_dict())

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) -> (B, width)."""
        output = self.model(pixel_values=images, **self.options)
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1)
        hidden: Tensor = output.last_hidden_state
        if hidden.ndim == 4:  # (B, F, H, W)
            return hidden.mean((2, 3))
        return hidden[:, 0] if self.has_class_token else hidden.mean(1)


def load_hf_images(name: str, *, size: int | None = None) -> ImageBackbone:
    """Return a vision model of transformers.

    Args:
        name: "hf:NAME" of the hub, or "hf:FOLDER". The model needs its image processor (preprocessor_config.json).
        size: pixels a side of the images, by default those of the image processor.

    Returns:
        The backbone, in float32; see `HFImageNetwork` for what the embedding is.

    Example:
        >>> load_hf_images("hf:./no-such-folder")
        Traceback (most recent call last):
            ...
        jnpl.internal.errors.InputError: there is no folder './no-such-folder' of the backbone hf:./no-such-folder
    """
    transformers = require("transformers", "hf")
    model, inputs = _load(transformers, name, _load_images)
    size = size or inputs.size
    options = {}
    trained_at = getattr(model.config, "image_size", size)
    if size != trained_at and "interpolate_pos_encoding" in inspect.signature(model.forward).parameters:
        options["interpolate_pos_encoding"] = True
    network = HFImageNetwork(model, _architecture(model.config), options)
    return checked_image_backbone(name, network, size, inputs.mean, inputs.std)


class _ImageInputs(NamedTuple):
    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


def _load_images(transformers: ModuleType, place: _Place) -> tuple[Any, _ImageInputs]:
    model, missing = _load_model(transformers, place)
    if hasattr(model.config, "vision_config"):  # CLIP, SigLIP: keep the half for images
        if not hasattr(model, "vision_model"):
            raise InputError(f"{place.name} ({type(model).__name__}) has no vision model of its own")
        model = model.vision_model
        missing = [key.removeprefix("vision_model.") for key in missing if key.startswith("vision_model.")]
    _require_input(model, "image", place.name)
    _require_weights(missing, ("pooler.dense.",), place.name)
    return model, _read_image_inputs(transformers, place)


def _read_image_inputs(transformers: ModuleType, place: _Place) -> _ImageInputs:
    """Return what the image processor does to an image of one colour: its size, mean and std."""
    from PIL import Image  # noqa: PLC0415 - slow to import

    choose: dict[str, Any] = {"backend": "pil"}  # works without torchvision
    if int(transformers.__version__.split(".")[0]) < 5:
        choose = {"use_fast": False}
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(place.where, **place.options, **choose)
    except OSError as error:
        if not place.local_only or Path(place.where).is_dir():
            raise InputError(f"{place.name} has no preprocessor_config.json, so its inputs are not known") from error
        raise
    colours = ((0, 0, 0), (255, 255, 255), (10, 100, 200))
    images = [Image.new("RGB", (64, 64), colour) for colour in colours]
    pixels = np.asarray(processor(images=images, return_tensors="np")["pixel_values"], np.float64)
    if pixels.ndim != 4 or pixels.shape[1] != 3 or pixels.shape[2] != pixels.shape[3]:
        raise InputError(f"{place.name} must take square RGB images, but its processor gives {pixels.shape[1:]}")
    size = pixels.shape[2]
    black, white, colour = pixels[:, :, size // 2, size // 2]  # a crop may pad the margins
    mean, std = black / (black - white), 1 / (white - black)
    if not np.allclose((np.array(colours[2]) / 255 - mean) / std, colour, atol=1e-3):
        raise InputError(f"the processor of {place.name} does more than (value - mean) / std to pixels")
    first, second, third = zip(np.round(mean, 6).tolist(), np.round(std, 6).tolist(), strict=True)
    return _ImageInputs(size, (first[0], second[0], third[0]), (first[1], second[1], third[1]))


# ------------------------------------------------------------------------------------------------------------- loading


def _load(transformers: ModuleType, name: str, load: Callable[[ModuleType, _Place], _Loaded]) -> _Loaded:
    """Load from a folder or the local cache; if a model is in neither, from the hub, unless that is switched off."""
    where = name.removeprefix(PREFIX)
    folder = Path(where).expanduser()
    if not where:
        raise InputError(f"a backbone of transformers is named as {PREFIX}NAME or {PREFIX}FOLDER, got {name!r}")
    if not folder.is_dir() and (where.startswith((".", "/", "~", "\\")) or where.count("/") > 1):
        raise InputError(f"there is no folder {where!r} of the backbone {name}")
    with _quiet(transformers):
        try:
            return load(transformers, _Place(name, str(folder) if folder.is_dir() else where, local_only=True))
        except OSError as error:
            if folder.is_dir():
                raise InputError(f"cannot load {name}: {one_line(error)}") from error
        except InputError:
            raise
        except Exception as error:  # broken files may raise anything
            raise InputError(f"cannot load {name}: {_reason(error)}") from error
        _require_hub(name, where)
        try:
            return load(transformers, _Place(name, where, local_only=False))
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"cannot load {name} from the Hugging Face hub: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return "the model brings code of its own, which is never run"
    return one_line(error)


def _require_hub(name: str, where: str) -> None:
    """Raise an InputError unless the hub can be reached and has the model."""
    hub = require("huggingface_hub", "hf")
    missing = f"{name} is neither a folder nor complete in the local cache of Hugging Face"
    if hub.constants.HF_HUB_OFFLINE:
        raise InputError(f"{missing}, and HF_HUB_OFFLINE forbids to download it")
    try:
        hub.HfApi().model_info(where, timeout=10)
    except Exception as error:  # of the network, of the hub, of the name
        kind = type(error).__name__
        if kind in ("RepositoryNotFoundError", "HFValidationError", "GatedRepoError"):
            raise InputError(f"{missing}, and the hub has no such model that you may read ({kind})") from error
        raise InputError(f"{missing}, and the hub cannot be reached ({kind}): give a folder, or download it") from error


@contextmanager
def _quiet(transformers: ModuleType) -> Iterator[None]:
    """Neither progress bars nor reports on weights: what matters is checked and raised."""
    model_log, hub = transformers.utils.logging, logging.getLogger("huggingface_hub")
    before = model_log.get_verbosity(), model_log.is_progress_bar_enabled(), hub.level
    model_log.set_verbosity_error()
    model_log.disable_progress_bar()
    hub.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        model_log.set_verbosity(before[0])
        hub.setLevel(before[2])
        if before[1]:
            model_log.enable_progress_bar()


def _load_model(transformers: ModuleType, place: _Place, subfolder: str = "") -> tuple[Any, list[str]]:
    """Return the network in float32 and evaluation mode, and the names of weights that its file lacks."""
    model, loading = transformers.AutoModel.from_pretrained(
        place.where, subfolder=subfolder, output_loading_info=True, **place.options
    )
    prefix = f"{model.base_model_prefix}."  # before each name in transformers 4
    return model.float().eval(), sorted(key.removeprefix(prefix) for key in loading["missing_keys"])


def _require_input(model: Any, takes: Literal["image", "text"], name: str) -> None:
    kinds = {"input_ids": "text", "pixel_values": "image"}
    # The vision models inside CLIP of transformers 4 lack the name.
    main_input = getattr(model, "main_input_name", "pixel_values")
    has = kinds.get(main_input)
    if has is None:
        raise InputError(f"the backbone {name} takes {main_input}, neither images nor texts")
    require_kind(name, has, takes)


def _require_weights(missing: list[str], unused: tuple[str, ...], name: str) -> None:
    lacking = [key for key in missing if not key.startswith(unused) and not key.endswith("position_ids")]
    if lacking:
        raise InputError(f"the files of {name} lack {len(lacking)} weights that would be random: {lacking[0]}, ...")


def _architecture(config: Any) -> dict[str, Any]:
    """Return the settings of a network, without where and when it was saved."""
    passing = ("_name_or_path", "transformers_version", "architectures", "torch_dtype", "dtype")
    return {key: value for key, value in json.loads(config.to_json_string()).items() if key not in passing}
