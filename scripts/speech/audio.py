"""Speech-like sound from a seed: voiced parts with a pitch and formants, noise, and pauses.

The sound is that of 16-bit recordings at 16 kHz: each sample is a whole number of 1/32768. It is computed without NumPy, so it does not depend on
the version of NumPy.
"""

import math
import random

RATE = 16_000
FRAME = 512
FULL_SCALE = 32_768
# The first three formants of vowels in Hz, and their bandwidths.
VOWELS = ((730, 1090, 2440), (530, 1840, 2480), (270, 2290, 3010), (570, 840, 2410), (300, 870, 2240), (490, 1350, 1690), (660, 1720, 2410))
BANDWIDTHS = (80, 100, 140)
# The kinds of parts, and how often each one comes. A stream begins with no pause: in silence all streams have nearly the same outputs.
KINDS = {"voiced": 6, "noise": 2, "pause": 2}
PART_SECONDS = (0.06, 0.3)
# How long a part takes to fade in or out.
FADE_SECONDS = 0.01
ROOM_NOISE = 0.001


class Resonator:
    """A filter with one resonance, as a formant is: two poles, and a gain of 1 at its frequency."""

    def __init__(self, frequency, bandwidth):
        radius = math.exp(-math.pi * bandwidth / RATE)
        angle = 2 * math.pi * frequency / RATE
        self.first, self.second = 2 * radius * math.cos(angle), -radius * radius
        self.gain = (1 - radius) * math.sqrt(1 - 2 * radius * math.cos(2 * angle) + radius * radius)
        self.before, self.before_that = 0.0, 0.0

    def __call__(self, sample):
        now = self.gain * sample + self.first * self.before + self.second * self.before_that
        self.before, self.before_that = now, self.before
        return now


def formants(frequencies):
    """The resonators of a sound, side by side, with less of the higher ones."""
    return [(Resonator(frequency, bandwidth), 0.6**place) for place, (frequency, bandwidth) in enumerate(zip(frequencies, BANDWIDTHS, strict=True))]


def voiced(generator, voice):
    """Samples of a vowel: pulses of the voice's pitch, which glides, through its formants."""
    resonators = formants([frequency * voice["size"] for frequency in generator.choice(VOWELS)])
    pitch, glide = voice["pitch"] * generator.uniform(0.85, 1.2), generator.uniform(-0.4, 0.4)
    breath = generator.uniform(0.02, 0.3)
    phase = elapsed = 0.0
    while True:
        phase += pitch * (1 + glide * elapsed) * (1 + 0.01 * generator.uniform(-1, 1)) / RATE
        pulse = 0.0
        if phase >= 1:
            phase -= 1
            pulse = 20.0
        source = pulse + breath * generator.uniform(-1, 1)
        yield sum(weight * resonator(source) for resonator, weight in resonators)
        elapsed += 1 / RATE


def noise(generator, voice):
    """Samples of a hiss around one frequency, as of an S or an F."""
    resonator = Resonator(generator.uniform(1500, 6500), generator.uniform(400, 2500))
    while True:
        yield resonator(generator.uniform(-1, 1))


def pause(generator, voice):
    """Nothing but the noise of the room."""
    while True:
        yield 0.0


SOUNDS = {"voiced": voiced, "noise": noise, "pause": pause}


def scaled(samples, loudness):
    """Samples whose root mean square is `loudness`, or that are all 0."""
    power = math.sqrt(sum(sample * sample for sample in samples) / len(samples))
    return [sample * loudness / power for sample in samples] if power else samples


def faded(samples):
    """Samples that begin and end softly."""
    length = min(int(FADE_SECONDS * RATE), len(samples) // 2)
    for place in range(length):
        samples[place] *= place / length
        samples[-1 - place] *= place / length
    return samples


def part(generator, voice, is_first):
    """The samples of one part of a stream."""
    kinds = [kind for kind in KINDS if not (is_first and kind == "pause")]
    (kind,) = generator.choices(kinds, [KINDS[kind] for kind in kinds])
    source = SOUNDS[kind](generator, voice)
    samples = [next(source) for _ in range(int(RATE * generator.uniform(*PART_SECONDS)))]
    return faded(scaled(samples, voice["loudness"] * generator.uniform(0.3, 1.2)))


def stream(seed, number, frames):
    """The frames of one stream: lists of FRAME samples between -1 and 1. More frames leave those before them as they are."""
    generator = random.Random(f"{seed} {number}")
    voice = {"pitch": generator.uniform(85, 280), "size": generator.uniform(0.85, 1.2), "loudness": 10 ** generator.uniform(-2.0, -0.8)}
    room = random.Random(f"{seed} {number} room")
    samples = []
    while len(samples) < frames * FRAME:
        samples += part(generator, voice, is_first=not samples)
    whole = [recorded(sample + ROOM_NOISE * room.uniform(-1, 1)) for sample in samples[: frames * FRAME]]
    return [whole[start : start + FRAME] for start in range(0, len(whole), FRAME)]


def recorded(sample):
    """A sample as a 16-bit recording has it."""
    return max(-FULL_SCALE, min(FULL_SCALE - 1, round(sample * FULL_SCALE))) / FULL_SCALE
