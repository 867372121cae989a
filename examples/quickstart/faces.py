"""Face detection: MTCNN's three networks from torch.export to the C runtime, on a photograph of many sizes."""
import time

import numpy
import torch
from PIL import Image, ImageDraw
from torch.export import Dim

import pretrained
import report

SMALLEST_FACE = 40            # pixels
CELL, STRIDE = 12, 2          # what one output of the first network sees, and how far apart two of them look
SHRINK = 0.709                # from one level of the pyramid to the next
SURE = (0.6, 0.7, 0.7)        # probability of a face that each network asks for


# ---------------------------------------------------------------- around the networks

def network_input(pictures):
    pixels = numpy.stack([numpy.asarray(picture) for picture in pictures]).transpose(0, 3, 1, 2)
    return (numpy.ascontiguousarray(pixels, dtype=numpy.float32) - 127.5) * numpy.float32(0.0078125)


def pyramid(image):
    """The image in sizes in which a face of some size fills one cell. Heights and widths are even: torch.export
    can only promise even ones, since the network's pooling rounds up."""
    scale = CELL / SMALLEST_FACE
    while min(image.size) * scale >= CELL + 2:
        size = [2 * round(n * scale / 2) for n in image.size]
        yield network_input([image.resize(size, Image.BILINEAR)]), image.width / size[0], image.height / size[1]
        scale *= SHRINK


def suppress(boxes, scores, limit, by_smaller=False):
    """Indices of the boxes that stay when each box removes the weaker ones which overlap it too much."""
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order, kept = numpy.argsort(-scores, kind="stable"), []
    while len(order):
        best, rest = order[0], order[1:]
        kept.append(best)
        size = numpy.minimum(boxes[best, 2:], boxes[rest, 2:]) - numpy.maximum(boxes[best, :2], boxes[rest, :2])
        common = numpy.prod(numpy.maximum(size, 0), axis=1)
        whole = numpy.minimum(area[best], area[rest]) if by_smaller else area[best] + area[rest] - common
        order = rest[common <= limit * whole]
    return numpy.array(kept, dtype=int)


def moved(boxes, shifts):
    """Corners moved by fractions of the box's own size."""
    size = numpy.tile(boxes[:, 2:] - boxes[:, :2], 2)
    return boxes + shifts * size


def squared(boxes):
    centre, side = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]).max(1, keepdims=True)
    return numpy.concatenate([centre - side / 2, centre + side / 2], 1)


def crops(image, boxes, size):
    """The boxes cut out of the image, whose outside is black, as input of a network."""
    corners = numpy.round(boxes).astype(int)
    corners[:, 2:] = numpy.maximum(corners[:, 2:], corners[:, :2] + 1)
    return network_input([image.crop(tuple(box)).resize((size, size), Image.BILINEAR) for box in corners.tolist()])


def detect(image, first, second, third):
    """(boxes, scores, landmarks) of the faces; each network is a function from an array to a list of arrays."""
    boxes, scores = [], []
    for pixels, x_scale, y_scale in pyramid(image):
        shifts, probability = first(pixels)
        y, x = numpy.nonzero(probability[0, 1] >= SURE[0])
        corners = numpy.stack([x, y, x, y], 1) * float(STRIDE) + numpy.array([0, 0, CELL, CELL])
        level = corners * numpy.array([x_scale, y_scale, x_scale, y_scale])
        strength = probability[0, 1, y, x]
        kept = suppress(level, strength, 0.5)
        boxes.append(moved(level[kept], shifts[0, :, y, x][kept]))
        scores.append(strength[kept])
    boxes, scores = numpy.concatenate(boxes), numpy.concatenate(scores)
    boxes = squared(boxes[suppress(boxes, scores, 0.7)])
    points = numpy.zeros((0, 5, 2))
    for network, size, sure in ((second, 24, SURE[1]), (third, 48, SURE[2])):
        if not len(boxes):
            return boxes, numpy.zeros(0), points
        shifts, *marks, probability = network(crops(image, boxes, size))
        sure_enough = probability[:, 1] > sure
        boxes, scores = boxes[sure_enough], probability[sure_enough, 1]
        if marks:
            corner, side = boxes[:, None, :2], (boxes[:, None, 2:] - boxes[:, None, :2])
            points = corner + side * marks[0][sure_enough].reshape(-1, 2, 5).transpose(0, 2, 1)
        boxes = moved(boxes, shifts[sure_enough])
        kept = suppress(boxes, scores, 0.7, by_smaller=bool(marks))
        boxes, scores = boxes[kept], scores[kept]
        if marks:
            return boxes, scores, points[kept]
        boxes = squared(boxes)


def draw(image, boxes, points, path):
    picture = image.copy()
    pen = ImageDraw.Draw(picture)
    for box, marks in zip(boxes, points):
        pen.rectangle([float(v) for v in box], outline=(255, 60, 0), width=3)
        for x, y in marks:
            pen.ellipse([x - 3, y - 3, x + 3, y + 3], fill=(0, 230, 90))
    picture.save(path)


# ---------------------------------------------------------------- the networks

class Stopwatch:
    """Networks that add up the time of their calls."""

    def __init__(self):
        self.spent = 0.0

    def watch(self, network):
        def run(pixels):
            start = time.perf_counter()
            outputs = network(pixels)
            self.spent += time.perf_counter() - start
            return outputs
        return run


def timed(image, networks):
    """(what detect() finds, milliseconds of the whole, milliseconds in the networks)."""
    whole, inside = [], []
    for _ in range(5):
        watch = Stopwatch()
        watched = [watch.watch(network) for network in networks]
        start = time.perf_counter()
        found = detect(image, *watched)
        whole.append((time.perf_counter() - start) * 1e3)
        inside.append(watch.spent * 1e3)
    return found, min(whole), min(inside)


def main():
    options = report.options(__doc__)
    torch.set_num_threads(options.threads)
    print("Face detection: MTCNN, three networks", flush=True)
    image = Image.fromarray(pretrained.photograph())
    levels = [(pixels,) for pixels, _, _ in pyramid(image)]
    # from 14 on, no dimension inside is 1, which torch.export would make special
    even = {2: 2 * Dim("half_height", min=7, max=2048), 3: 2 * Dim("half_width", min=7, max=2048)}
    faces = {0: Dim("faces", min=1, max=4096)}
    cuts = {size: [(numpy.ascontiguousarray(pretrained.face_crops(size, count).numpy()),) for count in (8, 1, 3)]
            for size in (24, 48)}

    modules, models = [], []
    for name, dynamic, cases in (("PNet", even, levels), ("RNet", faces, cuts[24]), ("ONet", faces, cuts[48])):
        module = pretrained.mtcnn(name)
        program = report.exported(options.out / f"{name.lower()}.pt2", module, tuple(map(torch.from_numpy, cases[0])),
                                  (dynamic,), __file__, pretrained.__file__)
        artifact = report.compiled(options, program)
        modules.append(module)
        models.append(report.compare(options, name, artifact, module, cases))

    def eager(module):
        def run(pixels):
            with torch.inference_mode():
                return [t.numpy() for t in module(torch.from_numpy(pixels))]
        return run
    (boxes, scores, points), own, own_networks = timed(image, [m.run for m in models])
    (boxes_eager, _, points_eager), theirs, their_networks = timed(image, [eager(m) for m in modules])
    if len(boxes) == 0 or boxes.shape != boxes_eager.shape:
        raise SystemExit(f"{len(boxes)} faces found, {len(boxes_eager)} by PyTorch")
    picture = options.out / "faces.png"
    draw(image, boxes, points, picture)
    print(f"""
  one detection, {len(levels)} image sizes: {own_networks:.1f} ms in the networks, {own:.1f} ms with what is around them
  with PyTorch eager:{' ' * len(str(len(levels)))}           {their_networks:.1f} ms in the networks, {theirs:.1f} ms with what is around them
  largest difference of a corner from PyTorch {numpy.abs(boxes - boxes_eager).max():.1e} pixels, of a landmark {numpy.abs(points - points_eager).max():.1e}""")
    for box, score in zip(boxes, scores):
        print(f"  face at ({', '.join(f'{v:.0f}' for v in box)}), probability {score:.3f}")
    print(f"  drawn to {picture}")

    try:
        models[0].run(network_input([image.resize((154, 153))]))
        raise SystemExit("an odd height was accepted")
    except report.NacreError as error:
        print(f"\n  An odd height, which the program does not promise, is refused:\n    {error}")
    for model in models:
        model.close()


if __name__ == "__main__":
    main()
