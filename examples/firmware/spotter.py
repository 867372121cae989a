"""A keyword spotter: trains MLPerf Tiny's network on words that espeak-ng says, and writes what the board needs of it.

    python spotter.py --out DIR          model.pt2 and recording.h: a sentence of a voice that training has not heard

Pretrained weights for this network are in no package, and the recordings that they are usually trained on must be
downloaded. So a program speaks the words: with some voices for training, with others for the test. It takes
a minute or so; that the network knows those voices says little about people.
"""
import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from scipy.signal import resample_poly

from networks import answers, c_array, error_limit, zoo

KEYWORDS = "yes no up down left right on off stop go".split()
OTHERS = "bed bird cat dog happy house tree wow one two three four five seven nine window table water paper music".split()
CLASSES = ["(silence)", "(another word)", *KEYWORDS]
SENTENCE = "go house left stop seven yes down water right off no up on".split()

ACCENTS = ["en-us", "en", "en-gb-scotland", "en-029"]  # `en` is British; `en-gb` ignores the voice that is asked for
TRAINING_VOICES = "m1 m2 m3 m5 m7 f1 f2 f4".split()
TEST_VOICES = "m4 f3 m8".split()
SPEEDS_AND_PITCHES = [(120, 40), (150, 60), (180, 50)]

RATE, WINDOW, HOP, FRAMES, FEATURES = 16000, 480, 320, 49, 10
EPOCHS = 15


# ---------------------------------------------------------------- sound

def speak(voice, speed, pitch, word):
    """A word at 16 kHz, without the silence around it."""
    said = subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", word],
                          stdout=subprocess.PIPE, check=True).stdout
    data = said[said.index(b"data") + 8:]
    samples = numpy.frombuffer(data[:len(data) // 2 * 2], dtype="<i2").astype(numpy.float32) / 32768
    samples = resample_poly(samples, 320, 441).astype(numpy.float32)
    loud = numpy.flatnonzero(numpy.abs(samples) > 0.02)
    return samples[loud[0]:loud[-1] + 1]


def mel_filters():
    """40 triangles between 20 and 4000 Hz over the 257 frequencies of a transform of 512 samples."""
    mel = 1127 * numpy.log1p(numpy.fft.rfftfreq(512, 1 / RATE) / 700)
    edges = numpy.linspace(1127 * numpy.log1p(20 / 700), 1127 * numpy.log1p(4000 / 700), 42)
    up = (mel[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - mel[:, None]) / (edges[2:] - edges[1:-1])
    return torch.from_numpy(numpy.maximum(0, numpy.minimum(up, down)).astype(numpy.float32))


MEL = mel_filters()
COSINES = torch.cos(torch.outer(torch.arange(40) + 0.5, torch.arange(FEATURES)) * torch.pi / 40) * (2 / 40) ** 0.5


def features(sound):
    """MFCC as in MLPerf Tiny: frames of 30 ms every 20 ms, 40 mel bands, the first 10 coefficients."""
    frames = sound.unfold(-1, WINDOW, HOP) * torch.hann_window(WINDOW)
    return torch.log(torch.fft.rfft(frames, 512).abs() @ MEL + 1e-6) @ COSINES / 10


def word_list(voices):
    """(class, samples) of every word in every accent, voice, speed and pitch."""
    asked = [(word, f"{accent}+{voice}", *SPEEDS_AND_PITCHES[(i + j) % len(SPEEDS_AND_PITCHES)])
             for i, accent in enumerate(ACCENTS) for j, voice in enumerate(voices) for word in KEYWORDS + OTHERS]
    with ThreadPoolExecutor(2) as pool:
        sounds = list(pool.map(lambda a: speak(*a[1:], a[0]), asked))
    return [(CLASSES.index(word) if word in KEYWORDS else 1, sound) for (word, *_), sound in zip(asked, sounds)]


def seconds_of(words, random):
    """A second of sound for each word, somewhere in it, over noise; and as many without a word as one class has."""
    sounds, labels = [], []
    for label, word in words + [(0, numpy.zeros(0, numpy.float32))] * (len(words) // len(CLASSES)):
        second = numpy.zeros(RATE, numpy.float32)
        word = word[:RATE]
        at = random.integers(0, RATE - len(word) + 1)
        second[at:at + len(word)] = word * random.uniform(0.4, 1)
        sounds.append(second + random.normal(0, 10 ** random.uniform(-4, -2.3), RATE).astype(numpy.float32))
        labels.append(label)
    return torch.from_numpy(numpy.stack(sounds)), torch.tensor(labels)


# ---------------------------------------------------------------- the network

def train():
    """(network, share of the test words that it knows). The same on every run on one machine."""
    torch.manual_seed(1)
    random = numpy.random.default_rng(1)
    words = word_list(TRAINING_VOICES)
    print(f"  {len(words)} words of {len(TRAINING_VOICES)} voices in {len(ACCENTS)} accents", flush=True)
    network = zoo.ds_cnn().to(memory_format=torch.channels_last)  # twice as fast to train
    body = network[:-1]  # without the softmax
    optimizer = torch.optim.AdamW(body.parameters(), lr=3e-3)
    steps = EPOCHS * ((len(words) + len(words) // len(CLASSES)) // 64 + 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps)
    weight = torch.ones(len(CLASSES))
    weight[1] = len(KEYWORDS) / len(OTHERS) * 1.5
    for epoch in range(EPOCHS):
        sounds, labels = seconds_of(words, random)
        inputs = features(sounds)[:, None]
        total = 0.0
        for batch in torch.randperm(len(inputs)).split(64):
            loss = F.cross_entropy(body(inputs[batch]), labels[batch], weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss.detach()) * len(batch)
        print(f"  epoch {epoch + 1} of {EPOCHS}: loss {total / len(inputs):.3f}", flush=True)
    network.eval().requires_grad_(False)
    sounds, labels = seconds_of(word_list(TEST_VOICES), random)
    right = (network(features(sounds)[:, None]).argmax(1) == labels).float().mean()
    return network, float(right)


def sentence(voice):
    """The words of SENTENCE with pauses, and when each one ends."""
    random = numpy.random.default_rng(2)
    sounds, ends, length = [], [], 0
    for word in [None, *SENTENCE, None]:
        spoken = speak(voice, 150, 50, word) * 0.8 if word else numpy.zeros(0, numpy.float32)
        pause = numpy.zeros(random.integers(10000, 14000), numpy.float32)
        length += len(spoken)
        ends.append((word, length / RATE))
        length += len(pause)
        sounds += [spoken, pause]
    sound = numpy.concatenate(sounds)
    return torch.from_numpy(sound + random.normal(0, 1e-3, len(sound)).astype(numpy.float32)), [e for e in ends if e[0]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--step", type=int, default=10, help="frames between two runs of the network")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # more gain nothing on a network as small as this
    network, right = train()
    print(f"  {right:.1%} of the words of the voices {', '.join(TEST_VOICES)}, which it has not heard, are right")
    torch.save(network.state_dict(), options.out / "weights.pt")
    torch.export.save(torch.export.export(network, (torch.zeros(1, 1, FRAMES, FEATURES),)), options.out / "model.pt2")

    sound, ends = sentence(f"en-us+{TEST_VOICES[0]}")
    frames = features(sound)
    windows = torch.stack([frames[i:i + FRAMES][None] for i in range(0, len(frames) - FRAMES + 1, options.step)])
    eager, exact = answers(network, windows)
    limits = ", ".join(f"{error_limit(a, b):.3e}f" for a, b in zip(eager, exact))
    words = ", ".join(f'"{word}"' for word in CLASSES)
    said = "".join(f"// {end:5.2f} s  {word}\n" for word, end in ends)
    (options.out / "recording.h").write_text(f"""// MFCC features of a sentence that espeak-ng said, and what PyTorch finds in each window of it. The words and when they end:
{said}enum {{ FRAMES = {len(frames)}, FEATURES = {FEATURES}, WINDOW = {FRAMES}, CLASSES = {len(CLASSES)}, FIRST_WORD = 2 }};
static const char* const words[CLASSES] = {{{words}}};
static const float limits[{len(windows)}] = {{{limits}}};
{c_array("recording", frames)}{c_array("expected", exact)}""")


if __name__ == "__main__":
    sys.exit(main())
